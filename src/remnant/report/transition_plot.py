"""SVG plot of a transition matrix: clean labels in blue, noisy labels in orange, darker is more."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from remnant.data.dataset import Labels
from remnant.report.transition import cell, noise_rates, rates

CLEAN, NOISY, INK = "#1d4ed8", "#c2410c", "#444"


@dataclass(frozen=True)
class Layout:
    """Sizes and positions in pixels: cells get smaller with more classes."""

    classes: int
    longest: int  # characters of the longest class name
    title: int  # characters of the title

    @property
    def cell(self) -> int:
        """Return the side length of a cell; a number fits into 20 or more."""
        return 44 if self.classes <= 12 else 28 if self.classes <= 30 else 9

    @property
    def font(self) -> int:
        """Return the font size."""
        return 13 if self.classes <= 12 else 10 if self.classes <= 30 else 8

    @property
    def name(self) -> float:
        """Return the width of the longest class name."""
        return self.longest * self.font * 0.6

    @property
    def left(self) -> float:
        """Return the x coordinate of the first cell."""
        return self.name + 24

    @property
    def angle(self) -> int:
        """Return the rotation of the column names in degrees: vertical above narrow columns."""
        return 45 if self.cell >= 20 else 90

    @property
    def top(self) -> float:
        """Return the y coordinate of the first cell, below the title and the column names."""
        return self.name * math.sin(math.radians(self.angle)) + 54

    @property
    def side(self) -> int:
        """Return the side length of the matrix."""
        return self.classes * self.cell

    @property
    def width(self) -> float:
        """Return the width of the plot, which fits the matrix, the title and the legend."""
        return max(self.left + self.side + max(70, self.name * 0.75 + 16), 7.5 * self.title, 560)

    @property
    def height(self) -> float:
        """Return the height of the plot."""
        return self.top + self.side + 52


def draw_transitions(counts: Labels, names: Sequence[str], title: str) -> str:
    """Return an SVG of the transition rates: rows are true classes, columns are observed classes."""
    layout = Layout(len(names), max(len(name) for name in names), len(title))
    fractions = rates(counts)
    most = float(np.where(np.eye(len(names)), 0, fractions).max())
    size = f"{layout.width:.0f} {layout.height:.0f}"
    legend = (
        "row: true class; column: observed label, in % of the row",
        f"blue: clean labels; orange: noisy ones, darkest at {cell(most)} %; on the right: noise rate",
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" '
        f'font-size="{layout.font}">',
        f'<rect width="{layout.width:.0f}" height="{layout.height:.0f}" fill="white"/>',
        text(12, 22, title, size=14),
        *(line for c, name in enumerate(names) for line in _class_names(layout, c, name)),
        *(
            text(layout.left + layout.side + 8, _middle(layout, c), f"{100 * rate:.1f} %", colour=NOISY)
            for c, rate in enumerate(noise_rates(counts))
        ),
        *(
            line
            for row, column in np.ndindex(*fractions.shape)
            for line in _cell(layout, row, column, float(fractions[row, column]), most)
        ),
        f'<rect x="{layout.left:.1f}" y="{layout.top:.1f}" width="{layout.side}" height="{layout.side}" '
        'fill="none" stroke="#bbb"/>',
        *(text(12, layout.height - 26 + 16 * i, words, size=11) for i, words in enumerate(legend)),
        "</svg>",
    ]
    return "\n".join([*lines, ""])


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK, size: int = 0) -> str:
    """Return a text element."""
    font = f' font-size="{size}"' if size else ""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} fill="{colour}"{font}>{escape(words)}</text>'


def _middle(layout: Layout, row: int) -> float:
    """Return the y coordinate of text that is vertically centred in a row."""
    return layout.top + (row + 0.5) * layout.cell + layout.font * 0.35


def _class_names(layout: Layout, number: int, name: str) -> Iterator[str]:
    yield text(layout.left - 8, _middle(layout, number), name, "end")
    x, y = layout.left + (number + 0.5) * layout.cell + layout.font * 0.35, layout.top - 8
    yield f'<g transform="translate({x:.1f} {y:.1f}) rotate(-{layout.angle})">{text(0, 0, name)}</g>'


def _cell(layout: Layout, row: int, column: int, rate: float, most: float) -> Iterator[str]:
    if rate == 0:
        return
    is_clean = row == column
    opacity = rate if is_clean else rate / most
    x, y, side = layout.left + column * layout.cell, layout.top + row * layout.cell, layout.cell
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}" '
        f'fill="{CLEAN if is_clean else NOISY}" fill-opacity="{opacity:.3f}"/>'
    )
    if side >= 20:
        ink = "white" if opacity > 0.5 else INK
        yield text(x + side / 2, _middle(layout, row), cell(rate), "middle", ink)
