"""Values by class: accuracy, suspect labels, scaled purity and diversity (Figure 4 of the paper)."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from remnant.errors import RemnantError
from remnant.report.figures.band import Band, Values, band
from remnant.report.figures.figure import LEFT, LETTER, WIDTH, Figure, Panel, draw_band
from remnant.report.figures.groups import Variant, seeds_sentence
from remnant.report.figures.style import LineStyle
from remnant.report.runs import FinishedRun
from remnant.settings import read_file
from remnant.suspects.table import cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMED = 20  # classes whose names fit below the axis

Diversities = Mapping[str, Mapping[str, float]]  # run folder -> class -> diversity


def class_accuracy(variants: Sequence[Variant]) -> Figure | None:
    """Return the final accuracy of each class, if nothing is measured between tasks."""
    shown = [variant for variant in variants if all(_accuracies(run) for run in variant.runs)]
    if not shown or not all(run.is_measured_once for variant in shown for run in variant.runs):
        return None
    tables = [[_accuracies(run) for run in variant.runs] for variant in shown]
    return _of_classes("class-accuracy", "Accuracy of each class", "accuracy in %", "", shown, tables)


def _accuracies(run: FinishedRun) -> Mapping[str, float]:
    return run.result.get("accuracy_per_class") or {}


def suspect_labels(variants: Sequence[Variant]) -> Figure | None:
    """Return the share of suspect labels in each class, if it is unknown which labels are wrong."""
    unknown = [v for v in variants if all(run.result.get("noise_rate") is None for run in v.runs)]
    shares = [(variant, [_suspect_shares(run) for run in variant.runs]) for variant in unknown]
    shares = [(variant, tables) for variant, tables in shares if all(tables)]
    if not shares:
        return None
    about = "Share of the labels of each class that are suspect, after suspects.csv. "
    shown, tables = [variant for variant, _ in shares], [tables for _, tables in shares]
    return _of_classes(
        "suspects", "Suspect labels of each class", "suspect labels in %", about, shown, tables
    )


def _suspect_shares(run: FinishedRun) -> dict[str, float]:
    """Return the percentage of suspect labels of each class; nothing for a run that lists none."""
    path = run.folder / "suspects.csv"
    if not run.result.get("suspects") or not path.is_file():
        return {}
    counts: Counter[tuple[str, str]] = Counter()
    try:
        for row in csv.DictReader(io.StringIO(read_file(path).decode(errors="replace"), newline="")):
            counts[row["given"], row["is_suspect"]] += 1
    except (OSError, LookupError, csv.Error) as error:
        raise RemnantError(
            f"{path}: expected the suspect labels of a run, but it is damaged ({error!r}). Repeat the "
            "command that started the run with --force."
        ) from error
    texts = {name: cell(name).encode(errors="backslashreplace").decode() for name in run.classes}
    totals = {name: counts[text, "true"] + counts[text, "false"] for name, text in texts.items()}
    return {name: 100 * counts[texts[name], "true"] / total for name, total in totals.items() if total}


def _of_classes(
    name: str,
    title: str,
    unit: str,
    about: str,
    shown: Sequence[Variant],
    tables: Sequence[Sequence[Mapping[str, float]]],
) -> Figure:
    """Return a figure of one value for each class, in the order of arrival."""
    classes = shown[0].runs[0].classes
    draw = partial(_draw_points, bands=_bands(shown, tables, classes), classes=classes)
    panel = Panel(draw, "", "", unit, bottom=_room(classes))
    return Figure(name, title, about + seeds_sentence(shown), (panel,), tuple(v.style for v in shown))


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
    """Return mean and error for each class; a class without samples has the value 0."""
    found = []
    for variant, runs in zip(variants, tables, strict=True):
        rows: list[Values] = [{n: table.get(name, 0.0) for n, name in enumerate(classes)} for table in runs]
        found.append((variant.style, band(rows)))
    return found


def _are_horizontal(classes: Sequence[str]) -> bool:
    """Return whether the names of the classes fit side by side."""
    longest = max(map(len, classes))
    return longest <= 2 or (longest + 2) * len(classes) * LETTER <= WIDTH - LEFT


def _room(classes: Sequence[str]) -> float:
    """Return the height of the class names below the axis, in inches."""
    if _are_horizontal(classes) or len(classes) > MOST_NAMED:
        return 0.3
    return min(1.1, 0.2 + 0.07 * max(map(len, classes)))


def _draw_classes(axes: "Axes", bands: Sequence[tuple[LineStyle, Band]], classes: Sequence[str]) -> None:
    for style, values in bands:
        draw_band(axes, style, values)
    _name_classes(axes, classes)


def _draw_points(axes: "Axes", bands: Sequence[tuple[LineStyle, Band]], classes: Sequence[str]) -> None:
    """Draw points with error bars side by side, as there is nothing between two classes."""
    for number, (style, values) in enumerate(bands):
        x = [place + 0.6 * ((number + 0.5) / len(bands) - 0.5) for place in values.x]
        axes.errorbar(
            x, values.mean, yerr=values.error, color=style.colour, marker=style.marker, linestyle="none",
            markersize=5, capsize=2, clip_on=False,
        )  # fmt: skip
    _name_classes(axes, classes)
    axes.set_xlim(-0.5, len(classes) - 0.5)
    axes.grid(visible=False, axis="x")


def _name_classes(axes: "Axes", classes: Sequence[str]) -> None:
    if len(classes) <= MOST_NAMED:
        axes.set_xticks(range(len(classes)), list(classes), rotation=0 if _are_horizontal(classes) else 90)
    axes.set_ylim(bottom=0)
