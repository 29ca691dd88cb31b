"""Accuracies: while tasks are learned, on each task (the accuracy matrix), and how much of them is lost."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from remnant.experiment.metrics import mean
from remnant.report.figures.band import Band, Values, band
from remnant.report.figures.figure import WIDTH, Figure, Panel, draw_band, whole_numbers
from remnant.report.figures.groups import Variant, seeds_sentence
from remnant.report.figures.style import CLEAN, INK, LineStyle
from remnant.report.runs import FinishedRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Sequence[float | None]
MOST_NUMBERED = 12  # tasks of a matrix whose cells have room for a number


def incremental_accuracy(variants: Sequence[Variant]) -> Figure | None:
    """Return the accuracy over the tasks so far, after each task; joint training is one point at the end."""
    if all(len(run.result["accuracy"]) < 2 for variant in variants for run in variant.runs):
        return None
    tasks = max(len(run.result["classes"]) for variant in variants for run in variant.runs)
    bands = [(v.style, band([_incremental(run) for run in v.runs])) for v in variants]
    draw = partial(_draw_by_task, bands=bands, tasks=tasks, bounds=(0, 102))
    caption = "Mean accuracy over the tasks seen so far, among all classes (class-incremental). "
    return Figure(
        "accuracy",
        "Accuracy after each task",
        caption + seeds_sentence(variants),
        (Panel(draw, "", "tasks learned", "accuracy in %"),),
        tuple(variant.style for variant in variants),
    )


def _incremental(run: FinishedRun) -> Values:
    rows: list[Row] = run.result["accuracy"]
    first = 1 + len(run.result["classes"]) - len(rows)  # joint training has the last row only
    return {first + n: mean([value for value in row if value is not None]) for n, row in enumerate(rows)}


def forgetting(variants: Sequence[Variant]) -> Figure | None:
    """Return the final forgetting of each task but the last."""
    bands = [(variant, band([_forgotten(run) for run in variant.runs])) for variant in variants]
    bands = [(variant, values) for variant, values in bands if values.is_measured]
    if not bands:
        return None
    shown = [variant for variant, _ in bands]
    tasks = max(len(values.x) for _, values in bands)
    draw = partial(_draw_by_task, bands=[(v.style, values) for v, values in bands], tasks=tasks, bounds=None)
    caption = (
        "Best accuracy of a task before the last one was learned, minus its final accuracy; lower is better. "
    )
    return Figure(
        "forgetting",
        "Forgetting of each task",
        caption + seeds_sentence(shown),
        (Panel(draw, "", "task", "points"),),
        tuple(variant.style for variant in shown),
    )


def _forgotten(run: FinishedRun) -> Values:
    rows: list[Row] = run.result["accuracy"]
    last = len(rows) - 1
    best = [max(v for row in rows[:last] if (v := row[task]) is not None) for task in range(last)]
    return {task + 1: best[task] - (rows[last][task] or 0.0) for task in range(last)}


def _draw_by_task(
    axes: "Axes", bands: Sequence[tuple[LineStyle, Band]], tasks: int, bounds: tuple[float, float] | None
) -> None:
    for style, values in bands:
        draw_band(axes, style, values)
    whole_numbers(axes, tasks)
    if bounds:
        axes.set_ylim(*bounds)
    else:
        axes.axhline(0, color=INK, linewidth=0.6)


def accuracy_matrices(variants: Sequence[Variant]) -> Figure | None:
    """Return the accuracy on each task after each task, one matrix per method."""
    panels, shown = [], []
    for variant in variants:
        matrix = _mean_matrix(variant.runs)
        if len(matrix) > 1:
            panels.append(
                Panel(
                    partial(_draw_matrix, matrix=matrix),
                    variant.label,
                    "task",
                    "tasks learned",
                    height=WIDTH * 0.85,
                )
            )
            shown.append(variant)
    if not panels:
        return None
    caption = (
        "Accuracy in percent on each task (columns) after each task was learned (rows), among all classes; "
        "the last row is the final accuracy. "
    )
    return Figure("accuracy-matrix", "Accuracy on each task", caption + seeds_sentence(shown), tuple(panels))


def _mean_matrix(runs: Sequence[FinishedRun]) -> list[list[float | None]]:
    """Return the mean over seeds; runs of one method have the same tasks."""
    matrices: list[list[Row]] = [run.result["accuracy"] for run in runs]
    return [
        [
            mean([v for v in cells if v is not None]) if None not in cells else None
            for cells in zip(*rows, strict=True)
        ]
        for rows in zip(*matrices, strict=True)
    ]


def _draw_matrix(axes: "Axes", matrix: Sequence[Row]) -> None:
    from matplotlib.patches import Rectangle

    tasks = len(matrix[0])
    for row, cells in enumerate(matrix):
        for column, value in enumerate(cells):
            if value is None:
                continue
            place = (column + 0.52, row + 0.52)
            axes.add_patch(
                Rectangle(place, 0.96, 0.96, color=CLEAN, alpha=0.04 + 0.56 * value / 100, linewidth=0)
            )
            if tasks <= MOST_NUMBERED:
                axes.text(column + 1, row + 1, f"{value:.0f}", ha="center", va="center", fontsize=8)
    axes.set_xlim(0.5, tasks + 0.5)
    axes.set_ylim(len(matrix) + 0.5, 0.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if tasks <= MOST_NUMBERED:
        axes.set_xticks(range(1, tasks + 1))
        axes.set_yticks(range(1, len(matrix) + 1))
