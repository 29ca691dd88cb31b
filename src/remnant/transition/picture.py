"""A transition matrix as an SVG: blue cells are right labels, orange ones wrong; darker is more."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from remnant.data.source import Labels
from remnant.transition.counts import rates, wrong
from remnant.transition.text import cell

RIGHT, WRONG, INK = "#1d4ed8", "#c2410c", "#444"


@dataclass(frozen=True)
class Layout:
    """Where things are, in pixels: smaller cells for more classes, room for the longest name."""

    classes: int
    longest: int  # letters of a name
    title: int  # letters of the title

    @property
    def cell(self) -> int:
        """Return the side of a cell; from 20 on, a number fits in."""
        return 44 if self.classes <= 12 else 28 if self.classes <= 30 else 9

    @property
    def font(self) -> int:
        """Return the size of letters."""
        return 13 if self.classes <= 12 else 10 if self.classes <= 30 else 8

    @property
    def name(self) -> float:
        """Return the length of the longest name."""
        return self.longest * self.font * 0.6

    @property
    def left(self) -> float:
        """Return where the cells begin."""
        return self.name + 24

    @property
    def angle(self) -> int:
        """Return how steep the names above are: those of narrow columns stand upright."""
        return 45 if self.cell >= 20 else 90

    @property
    def top(self) -> float:
        """Return where the cells begin, below the title and the names."""
        return self.name * math.sin(math.radians(self.angle)) + 54

    @property
    def side(self) -> int:
        """Return the length of a row of cells."""
        return self.classes * self.cell

    @property
    def width(self) -> float:
        """Return the width of the picture: cells with slanted names above, or title, or legend."""
        return max(self.left + self.side + max(70, self.name * 0.75 + 16), 7.5 * self.title, 560)

    @property
    def height(self) -> float:
        """Return the height of the picture."""
        return self.top + self.side + 52


def picture(counts: Labels, names: Sequence[str], title: str) -> str:
    """Draw the rates: a row for each true class, a column for each observed one."""
    place = Layout(len(names), max(len(name) for name in names), len(title))
    shares = rates(counts)
    most = float(np.where(np.eye(len(names)), 0, shares).max())
    size = f"{place.width:.0f} {place.height:.0f}"
    legend = (
        "row: true class; column: observed label, in % of the row",
        f"blue: right labels; orange: wrong ones, darkest at {cell(most)} %; beside the row: all wrong",
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" '
        f'font-size="{place.font}">',
        f'<rect width="{place.width:.0f}" height="{place.height:.0f}" fill="white"/>',
        text(12, 22, title, size=14),
        *(line for c, name in enumerate(names) for line in _names(place, c, name)),
        *(
            text(place.left + place.side + 8, _middle(place, c), f"{100 * share:.1f} %", colour=WRONG)
            for c, share in enumerate(wrong(counts))
        ),
        *(
            line
            for row, column in np.ndindex(*shares.shape)
            for line in _square(place, row, column, float(shares[row, column]), most)
        ),
        f'<rect x="{place.left:.1f}" y="{place.top:.1f}" width="{place.side}" height="{place.side}" '
        'fill="none" stroke="#bbb"/>',
        *(text(12, place.height - 26 + 16 * i, words, size=11) for i, words in enumerate(legend)),
        "</svg>",
    ]
    return "\n".join([*lines, ""])


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK, size: int = 0) -> str:
    """Return words at a place."""
    font = f' font-size="{size}"' if size else ""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} fill="{colour}"{font}>{escape(words)}</text>'


def _middle(place: Layout, row: int) -> float:
    """Return the base line of letters in the middle of a row."""
    return place.top + (row + 0.5) * place.cell + place.font * 0.35


def _names(place: Layout, number: int, name: str) -> Iterator[str]:
    yield text(place.left - 8, _middle(place, number), name, "end")
    x, y = place.left + (number + 0.5) * place.cell + place.font * 0.35, place.top - 8
    yield f'<g transform="translate({x:.1f} {y:.1f}) rotate(-{place.angle})">{text(0, 0, name)}</g>'


def _square(place: Layout, row: int, column: int, share: float, most: float) -> Iterator[str]:
    if share == 0:
        return
    is_right = row == column
    depth = share if is_right else share / most
    x, y, side = place.left + column * place.cell, place.top + row * place.cell, place.cell
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}" '
        f'fill="{RIGHT if is_right else WRONG}" fill-opacity="{depth:.3f}"/>'
    )
    if side >= 20:
        ink = "white" if depth > 0.5 else INK
        yield text(x + side / 2, _middle(place, row), cell(share), "middle", ink)
