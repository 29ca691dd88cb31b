"""Colours, dashes and markers of lines, and the appearance of axes.

The colours are those of Okabe and Ito, which people with colour blindness can tell apart; dashes and markers
differ as well. In a page, every colour is a CSS variable, so that figures follow its theme.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

INK, MUTED, GRID, SHADE = "#24292f", "#57606a", "#e3e6ea", "#eef0f3"
CLEAN, NOISY = "#0072b2", "#d55e00"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
Dash = Literal["solid", "dashed", "dashdot", "dotted"]
DASHES: tuple[Dash, ...] = ("solid", "dashed", "dashdot", "dotted")
MARKERS = "osD^vPX"
CSS = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    SHADE: "var(--shade)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(SERIES)},
}
MATPLOTLIB: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text, which can be searched and has the font of the page
    "svg.hashsalt": "remnant",  # the same ids each time
    "pdf.fonttype": 42,
    "text.parse_math": False,  # names may contain a dollar sign
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class LineStyle:
    """How a line is drawn, with its name in the legend."""

    label: str
    colour: str
    dash: Dash = "solid"
    marker: str = ""

    @property
    def css(self) -> str:
        """Return the colour as a CSS variable."""
        return CSS[self.colour]


def line_styles(labels: Sequence[str]) -> dict[str, LineStyle]:
    """Return a style for each label; after seven lines colours repeat, with another dash and marker.

    Solid and dashed lines alternate, so that both of two equal lines can be seen.
    """
    count = len(SERIES)
    return {
        label: LineStyle(
            label,
            SERIES[number % count],
            DASHES[number % 2 + 2 * (number // (2 * count) % 2)],
            MARKERS[(number + number // count) % len(MARKERS)],
        )
        for number, label in enumerate(labels)
    }
