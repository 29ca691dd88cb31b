"""A figure as a value: panels that draw on axes, a legend, and a caption; rendered as SVG, PDF and PNG."""

import io
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from remnant.errors import RemnantError
from remnant.report.figures.band import Band
from remnant.report.figures.style import CSS, INK, MATPLOTLIB, LineStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

WIDTH, HEIGHT = 3.6, 2.5  # of a panel, in inches
LEFT, RIGHT, BOTTOM, TOP = 0.5, 0.08, 0.46, 0.27  # margins of a panel, in inches
COLUMNS = 3  # panels side by side in a file
LETTER, TITLE_LETTER = 0.077, 0.086  # width of a letter in inches: in labels, and in bold titles
LINE, TITLE_LINE = 0.15, 0.16  # height of a line of text in inches
HANDLE = 0.7  # width of the line of a legend, and of the space beside it, in inches


@dataclass(frozen=True)
class Panel:
    """One pair of axes. Each panel of a page is an image of its own, so that they wrap on a phone."""

    draw: "Callable[[Axes], None]"
    title: str = ""
    x: str = ""  # axis labels
    y: str = ""
    left: float = LEFT  # margin for tick labels, in inches
    bottom: float = BOTTOM
    height: float = HEIGHT  # with a title of one line

    @property
    def heading(self) -> str:
        """Return the title in at most three lines that fit above the axes."""
        return fitted(self.title, WIDTH - self.left - RIGHT, lines=3, size=TITLE_LETTER)

    @property
    def whole_height(self) -> float:
        """Return the height with all lines of the title, in inches."""
        return self.height + TITLE_LINE * self.heading.count("\n")


@dataclass(frozen=True)
class Figure:
    """Panels with a common legend and caption."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[LineStyle, ...] = ()


def fitted(text: str, width: float, lines: int, size: float = LETTER) -> str:
    """Return a text in lines that fit a width in inches; what is left out is marked by three dots.

    >>> print(fitted("aer-abs schedule=always replacement=lass insertion.alpha=0.5", 1.9, 2))
    aer-abs schedule=always
    replacement=lass ...
    """
    letters = max(4, round(width / size))
    found = textwrap.wrap(text, letters, max_lines=lines, placeholder=" ...", break_on_hyphens=False)
    return "\n".join(found)


def draw_band(axes: "Axes", style: LineStyle, values: Band) -> None:
    """Draw a line with up to ten markers, and a band of one standard error."""
    every = 1 if len(values.x) <= 10 else -(-len(values.x) // 8)
    above = 2.1 if style.dash == "solid" else 2.2  # a solid line shows through an equal dashed one
    axes.plot(
        values.x, values.mean, color=style.colour, linestyle=style.dash, marker=style.marker,
        markevery=every, zorder=above,
    )  # fmt: skip
    if any(not math.isnan(error) for error in values.error):
        axes.fill_between(values.x, values.lower, values.upper, color=style.colour, alpha=0.18, linewidth=0)


def whole_numbers(axes: "Axes", last: float) -> None:
    """Let the x axis show whole numbers only, from 1 to `last`."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    margin = max(0.2, last / 60)
    axes.set_xlim(1 - margin, last + margin)


def svg(panel: Panel, prefix: str) -> str:
    """Return a panel as an SVG element of a page: ids start with `prefix`, colours are CSS variables."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(MATPLOTLIB):
        canvas = Canvas(figsize=(WIDTH, panel.whole_height))
        axes = canvas.add_axes(_place(panel))
        _draw(panel, axes)
        text = io.StringIO()
        canvas.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(text.getvalue(), prefix, panel)


def _place(panel: Panel) -> tuple[float, float, float, float]:
    """Return left, bottom, width and height of the axes as fractions of a panel."""
    top, whole = TOP if panel.title else 0.12, panel.whole_height
    width, height = WIDTH - panel.left - RIGHT, panel.height - panel.bottom - top
    return panel.left / WIDTH, panel.bottom / whole, width / WIDTH, height / whole


def _draw(panel: Panel, axes: "Axes") -> None:
    panel.draw(axes)
    axes.set_title(panel.heading)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)


def _for_page(text: str, prefix: str, panel: Panel) -> str:
    """Return the SVG of matplotlib without what a page does not need, and without ids that could collide."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.S)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text))
    text = re.sub(r"<[^>]*>", lambda tag: _short_tag(tag[0], prefix, used), text)
    text = re.sub(r"\s*\n\s*", " ", text)
    text = _without_groups(text)
    name = " ".join(word for word in (panel.title, panel.y, "by" if panel.x else "", panel.x) if word)
    return text.replace("<svg ", f'<svg role="img" aria-label="{_attribute(name)}" ', 1).strip()


def _short_tag(tag: str, prefix: str, used: set[str]) -> str:
    """Return a tag with the font and the colours of the page, tenths of a point, and prefixes of used ids.

    >>> _short_tag('<path id="a" style="stroke: #24292f; fill: none" d="M 0.123 9"/>', "f", {"a"})
    '<path id="f-a" style="stroke:var(--ink);fill:none" d="M 0.1 9"/>'
    """
    tag = re.sub(r"font-family: [^;\"]*; ?", "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
    tag = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", tag)
    tag = re.sub(r"(url\(|href=\")#", rf"\1#{prefix}-", tag)
    tag = re.sub(r"(\d\.\d)\d+", r"\1", tag)
    tag = re.sub(r"#[0-9a-f]{6}", lambda colour: CSS.get(colour[0], colour[0]), tag)
    tag = re.sub(r'style="[^"]*"', lambda style: re.sub(r"([:;]) ", r"\1", style[0]), tag)
    return re.sub(r' (?:xmlns(?::xlink)?|version)="[^"]*"', "", tag).replace("xlink:href", "href")


def _without_groups(text: str) -> str:
    """Return an SVG without groups that have no attributes and contain no other group.

    >>> _without_groups("<g> <g> <g> <use/> </g> </g> <path/> </g>")
    '<use/> <path/>'
    """
    count = 1
    while count:
        text, count = re.subn(r"<g> ?((?:(?!</?g\b).)*?) ?</g>", r"\1", text)
    return text


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as NAME.pdf and NAME.png, with its legend, and return the paths."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    columns = min(COLUMNS, len(figure.panels))
    lines = -(-len(figure.panels) // columns)
    size = WIDTH * columns, max(panel.whole_height for panel in figure.panels) * lines
    paths = [folder / f"{name}.{kind}" for kind in ("pdf", "png")]
    with matplotlib.rc_context(MATPLOTLIB):
        canvas = Canvas(figsize=size, layout="constrained")
        for number, panel in enumerate(figure.panels):
            _draw(panel, canvas.add_subplot(lines, columns, number + 1))
        if figure.legend:
            _add_legend(canvas, figure.legend, size[0])
        try:
            folder.mkdir(parents=True, exist_ok=True)
            canvas.savefig(paths[0], metadata={"CreationDate": None})
            canvas.savefig(paths[1], dpi=200, metadata={"Software": None})
        except OSError as error:
            raise RemnantError(
                f"{error.filename or folder}: cannot be written ({error.strerror}). Choose another folder "
                "with --figures."
            ) from error
    return paths


def _add_legend(canvas: "Canvas", legend: Sequence[LineStyle], width: float) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style.colour, linestyle=style.dash, marker=style.marker or None)
        for style in legend
    ]
    labels = [fitted(style.label, WIDTH - HANDLE, lines=2) for style in legend]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    columns = min(4, len(labels), max(1, int(width / (HANDLE + LETTER * longest))))
    canvas.legend(handles, labels, loc="outside lower center", ncols=columns, labelcolor=INK, handlelength=3)
