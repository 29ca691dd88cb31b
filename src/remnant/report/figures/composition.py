"""The final buffer by class: scaled purity and diversity (Figure 4 of the paper)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from remnant.report.figures.band import Band, Values, band
from remnant.report.figures.figure import Figure, Panel, draw_band
from remnant.report.figures.groups import Variant, seeds_sentence
from remnant.report.figures.style import LineStyle
from remnant.report.runs import FinishedRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMED = 20  # classes whose names fit below the axis

Diversities = Mapping[str, Mapping[str, float]]  # run folder -> class -> diversity


def composition(variants: Sequence[Variant], diversities: Diversities) -> Figure | None:
    """Return purity and diversity of each class in the final buffer, both scaled by occurrence."""
    shown = [variant for variant in variants if any(_purities(run) for run in variant.runs)]
    if not shown:
        return None
    classes = shown[0].runs[0].classes
    measured: dict[str, Sequence[tuple[LineStyle, Band]]] = {
        "scaled purity of each class": _bands(
            shown, [[_purities(run) for run in v.runs] for v in shown], classes
        )
    }
    known = [v for v in shown if all(str(run.folder) in diversities for run in v.runs)]
    if known:
        tables = [[diversities[str(run.folder)] for run in v.runs] for v in known]
        measured["scaled diversity of each class"] = _bands(known, tables, classes)
    units = ("% of a balanced share", "")
    panels = tuple(
        Panel(partial(_draw_classes, bands=bands, classes=classes), title, y=unit, bottom=_room(classes))
        for (title, bands), unit in zip(measured.items(), units, strict=False)
    )
    caption = (
        "Final buffer by class, in order of arrival (Figure 4 of the paper). Scaled purity is the number of "
        "clean samples of a class in percent of its share in a balanced buffer; it exceeds 100 where a class "
        "has more. "
    )
    return Figure(
        "buffer-classes",
        "Scaled purity and diversity of each class" if known else "Scaled purity of each class",
        caption + (_DIVERSITY if known else _NO_DIVERSITY) + seeds_sentence(shown),
        panels,
        tuple(variant.style for variant in shown),
    )


_DIVERSITY = (
    "Diversity is the standard deviation of the features of a network trained jointly on clean labels, "
    "averaged over features, times the same share of samples; mislabelled samples raise it as well. "
)
_NO_DIVERSITY = (
    "Diversity needs a run of joint training without noise on this dataset among the runs: add one with "
    "--method joint --noise none. "
)


def _purities(run: FinishedRun) -> Mapping[str, float]:
    buffer: Mapping[str, Any] | None = run.result["buffer"]
    return (buffer or {}).get("purity_per_class_scaled") or {}


def _bands(
    variants: Sequence[Variant], tables: Sequence[Sequence[Mapping[str, float]]], classes: Sequence[str]
) -> list[tuple[LineStyle, Band]]:
    """Return mean and error for each class; a class without samples has the scaled value 0."""
    found = []
    for variant, runs in zip(variants, tables, strict=True):
        rows: list[Values] = [{n: table.get(name, 0.0) for n, name in enumerate(classes)} for table in runs]
        found.append((variant.style, band(rows)))
    return found


def _room(classes: Sequence[str]) -> float:
    """Return the height of the class names below the axis, in inches."""
    longest = max(map(len, classes))
    return 0.3 if longest <= 2 or len(classes) > MOST_NAMED else min(1.1, 0.2 + 0.07 * longest)


def _draw_classes(axes: "Axes", bands: Sequence[tuple[LineStyle, Band]], classes: Sequence[str]) -> None:
    for style, values in bands:
        draw_band(axes, style, values)
    if len(classes) <= MOST_NAMED:
        is_short = max(map(len, classes)) <= 2
        axes.set_xticks(range(len(classes)), list(classes), rotation=0 if is_short else 90)
    axes.set_ylim(bottom=0)
