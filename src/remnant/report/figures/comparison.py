"""One value per method: DER++ with and without AER and ABS (Figure 3), alpha (Table A), cost (Table B)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from remnant.report.figures.band import Band, band
from remnant.report.figures.figure import LEFT, LETTER, LINE, Figure, Panel, draw_band, fitted
from remnant.report.figures.groups import Variant, seeds_sentence
from remnant.report.figures.style import LineStyle, line_styles
from remnant.report.runs import FinishedRun
from remnant.report.tables.variants import base_method

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALPHA = "insertion.alpha"
LONGEST = 1.85  # width of a label beside the axes, in inches
Measure = Callable[[FinishedRun], float | None]


def logit_replay(variants: Sequence[Variant]) -> Figure | None:
    """Return Figure 3: the accuracy of DER++ alone and with AER, ABS and training on the buffer."""
    shown = [variant for variant in variants if variant.group.method.startswith("der++")]
    if len(shown) < 2:
        return None
    panel = _dots(shown, _accuracy, "", "final average accuracy in %")
    caption = "DER++ alone and with alternate replay and balanced sampling (Figure 3 of the paper). "
    return Figure("der", "DER++ with alternate replay", caption + seeds_sentence(shown), (panel,))


def cost(variants: Sequence[Variant]) -> Figure | None:
    """Return time and memory of each method (Table B of the paper)."""
    if len(variants) < 2:
        return None
    panels = (
        _dots(variants, _minutes, "time", "minutes"),
        _dots(variants, _memory, "memory", "MB, largest resident set"),
    )
    caption = "Time, including measurements, and largest memory of the process, on the machine of each run. "
    return Figure("cost", "Time and memory", caption + seeds_sentence(variants), panels)


def _accuracy(run: FinishedRun) -> float:
    return float(run.result["faa"])


def _minutes(run: FinishedRun) -> float:
    return float(run.result["seconds"]) / 60


def _memory(run: FinishedRun) -> float | None:
    value = run.result.get("peak_rss_mb")
    return None if value is None else float(value)


def _dots(variants: Sequence[Variant], measure: Measure, title: str, unit: str) -> Panel:
    """Return a panel with one point per variant and its standard error, the first one at the top."""
    bands = [(variant.style, band([{0: measure(run)} for run in variant.runs])) for variant in variants]
    labels = [fitted(variant.label, LONGEST, lines=3) for variant in variants]
    left = 0.2 + LETTER * max(len(line) for label in labels for line in label.split("\n"))
    height = 0.8 + (0.09 + LINE * max(1 + label.count("\n") for label in labels)) * len(variants)
    draw = partial(_draw_dots, bands=bands, labels=labels)
    return Panel(draw, title, unit, left=max(LEFT, left), height=height)


def _draw_dots(axes: "Axes", bands: Sequence[tuple[LineStyle, Band]], labels: Sequence[str]) -> None:
    for row, (style, values) in enumerate(bands):
        (centre,), (error,) = values.mean, values.error
        axes.errorbar(
            centre,
            row,
            xerr=error,
            color=style.colour,
            marker=style.marker,
            markersize=6,
            capsize=3,
            clip_on=False,
        )
    axes.set_yticks(range(len(bands)), labels)
    axes.set_ylim(len(bands) - 0.4, -0.6)
    axes.set_xlim(0, 1.08 * max(values.upper[0] for _, values in bands))
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=4)


def alpha_sensitivity(variants: Sequence[Variant]) -> Figure | None:
    """Return the accuracy by alpha, the fraction of a batch that is not inserted (Table A of the paper)."""
    lines: dict[str, list[Variant]] = {}
    for variant in variants:
        if ALPHA in variant.runs[0].settings():
            lines.setdefault(_without_alpha(variant), []).append(variant)
    lines = {label: found for label, found in lines.items() if len(found) > 1}
    if not lines:
        return None
    styles = line_styles(list(lines))
    bands = [(styles[label], _by_alpha(found)) for label, found in lines.items()]
    shown = [variant for found in lines.values() for variant in found]
    caption = (
        "Final average accuracy by alpha, the fraction of each batch with the highest losses, which is not "
        "inserted into the buffer (Table A of the paper). "
    )
    panel = Panel(partial(_draw_alpha, bands=bands), "", "alpha", "final average accuracy in %")
    return Figure(
        "alpha", "Sensitivity to alpha", caption + seeds_sentence(shown), (panel,), tuple(styles.values())
    )


def _without_alpha(variant: Variant) -> str:
    """Return the label of a variant without alpha."""
    settings = {key: value for key, value in variant.group.settings.items() if key != ALPHA}
    return replace(variant.group, method=base_method(variant.group.method), settings=settings).title


def _by_alpha(variants: Sequence[Variant]) -> Band:
    return band([{float(run.settings()[ALPHA]): _accuracy(run)} for v in variants for run in v.runs])


def _draw_alpha(axes: "Axes", bands: Sequence[tuple[LineStyle, Band]]) -> None:
    for style, values in bands:
        draw_band(axes, style, values)
    axes.set_xlim(-0.03, 1.0)
