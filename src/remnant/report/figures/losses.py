"""Values after each epoch: losses (Figures 1 and A of the paper), and the purity of the buffer."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from remnant.errors import RemnantError
from remnant.report.figures.band import Band, Values, band
from remnant.report.figures.figure import Figure, Panel, draw_band, whole_numbers
from remnant.report.figures.groups import Variant, seeds_sentence
from remnant.report.figures.style import CLEAN, NOISY, SHADE, LineStyle
from remnant.report.runs import FinishedRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TASK = 1  # the paper shows the second task, the first one with samples of a past task in the buffer
KINDS = {
    "loss_clean": LineStyle("clean labels", CLEAN, "solid", "o"),
    "loss_noisy": LineStyle("noisy labels", NOISY, "dashed", "s"),
}


def buffer_losses(variants: Sequence[Variant]) -> Figure | None:
    """Return Figure 1: losses of clean and noisy buffer samples of the first task during the second."""
    panels, shown = [], []
    for variant in variants:
        epochs = [[e for e in run.result["separation"] if e["task"] == TASK] for run in variant.runs]
        bands = {kind: band([_by_epoch(e, kind) for e in epochs]) for kind in KINDS}
        if any(values.is_measured for values in bands.values()):
            forgetting = [e["epoch"] + 1 for e in epochs[0] if e["phase"] == "forget"]
            draw = partial(_draw_losses, bands=bands, forgetting=forgetting)
            panels.append(Panel(draw, variant.label, "epoch of the second task", "loss"))
            shown.append(variant)
    if not panels:
        return None
    caption = (
        "Mean loss of the buffer samples of the first task while the second is learned (Figure 1 of the "
        "paper). In shaded epochs replay is off, and losses are measured before the weights are restored. "
    )
    return Figure(
        "buffer-losses",
        "Losses of clean and noisy samples in the buffer",
        caption + seeds_sentence(shown),
        tuple(panels),
        tuple(KINDS.values()),
    )


def _draw_losses(axes: "Axes", bands: Mapping[str, Band], forgetting: Sequence[int]) -> None:
    for epoch in forgetting:
        axes.axvspan(epoch - 0.5, epoch + 0.5, color=SHADE, linewidth=0, zorder=0)
    for kind, style in KINDS.items():
        draw_band(axes, style, bands[kind])
    whole_numbers(axes, max(x for values in bands.values() for x in values.x))
    axes.set_ylim(bottom=0)


def _by_epoch(epochs: Sequence[Mapping[str, Any]], key: str) -> Values:
    return {e["epoch"] + 1: e[key] for e in epochs}


def stream_losses(variants: Sequence[Variant]) -> Figure | None:
    """Return Figure A: how fast noisy samples of the stream are learned during the second task."""
    measures = {
        "loss_noisy": ("loss of noisy samples", "loss"),
        "memorised": ("noisy samples predicted as labelled", "%"),
    }
    shown: dict[str, Variant] = {}
    panels = []
    for key, (title, unit) in measures.items():
        bands = []
        for variant in variants:
            epochs = [[e for e in run.result["memorisation"] if e["task"] == TASK] for run in variant.runs]
            values = band([_by_epoch(e, key) for e in epochs])
            if values.is_measured:
                bands.append((variant.style, values))
                shown[variant.label] = variant
        if bands:
            panels.append(Panel(partial(_draw_epochs, bands=bands), title, "epoch of the second task", unit))
    if not panels:
        return None
    caption = (
        "Fit of the noisy samples of the current task, the second one (Figure A of the paper): slow learning "
        "of noisy labels is better. In forgetting epochs it is measured before the weights are restored. "
    )
    return Figure(
        "stream-losses",
        "Learning of noisy labels in the stream",
        caption + seeds_sentence(list(shown.values())),
        tuple(panels),
        tuple(variant.style for variant in shown.values()),
    )


def _draw_epochs(axes: "Axes", bands: Sequence[tuple[LineStyle, Band]]) -> None:
    for style, values in bands:
        draw_band(axes, style, values)
    whole_numbers(axes, max(x for _, values in bands for x in values.x))
    axes.set_ylim(bottom=0)


def training_loss(variants: Sequence[Variant]) -> Figure | None:
    """Return the training loss of each epoch, if nothing is measured between tasks."""
    if not all(run.is_measured_once for variant in variants for run in variant.runs):
        return None
    bands = [(variant, band([_training_losses(run) for run in variant.runs])) for variant in variants]
    bands = [(variant, values) for variant, values in bands if values.is_measured]
    if not bands:
        return None
    draw = partial(_draw_epochs, bands=[(v.style, values) for v, values in bands])
    shown = [variant for variant, _ in bands]
    caption = "Mean loss of the steps of each epoch. Epochs that forget are left out: they replay nothing. "
    return Figure(
        "training-loss",
        "Training loss",
        caption + seeds_sentence(shown),
        (Panel(draw, "", "epoch", "loss"),),
        tuple(variant.style for variant in shown),
    )


def _training_losses(run: FinishedRun) -> Values:
    """Return the loss of each epoch but those that forget, whose loss has no part of the buffer."""
    epochs = list(enumerate(_epochs(run), 1))
    return {number: e.get("loss") for number, e in epochs if e.get("phase") != "forget"}


def purity_by_epoch(variants: Sequence[Variant]) -> Figure | None:
    """Return the purity of the buffer after each epoch of all tasks."""
    bands = [(variant, band([_purities(run) for run in variant.runs])) for variant in variants]
    bands = [(variant, values) for variant, values in bands if values.is_measured]
    if not bands:
        return None
    last = max(x for _, values in bands for x in values.x)
    ends = _task_ends(bands[0][0].runs[0])
    draw: Callable[[Axes], None] = partial(
        _draw_purities, bands=[(v.style, values) for v, values in bands], ends=ends, last=last
    )
    shown = [variant for variant, _ in bands]
    caption = "Percentage of clean labels in the buffer after each epoch; vertical lines separate tasks. "
    return Figure(
        "buffer-purity",
        "Purity of the buffer",
        caption + seeds_sentence(shown),
        (Panel(draw, "", "epoch", "clean labels in %"),),
        tuple(variant.style for variant in shown),
    )


def _draw_purities(
    axes: "Axes", bands: Sequence[tuple[LineStyle, Band]], ends: Sequence[int], last: float
) -> None:
    _draw_epochs(axes, bands)
    axes.grid(visible=False, axis="x")
    for end in ends:
        axes.axvline(end + 0.5, color=axes.spines["left"].get_edgecolor(), linewidth=0.6, dashes=(2, 3))
    axes.set_ylim(0, 102)


def _epochs(run: FinishedRun) -> list[dict[str, Any]]:
    try:
        return [record for record in run.records() if record["event"] == "epoch"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RemnantError(
            f"{run.folder / 'metrics.jsonl'}: expected the metrics of a run, but it is damaged ({error}). "
            "Repeat the command that started the run, which writes it again."
        ) from error


def _purities(run: FinishedRun) -> Values:
    """Return the purity after each epoch, counted over all tasks."""
    return {
        number + 1: None if epoch["buffer"] is None else epoch["buffer"]["purity"]
        for number, epoch in enumerate(_epochs(run))
    }


def _task_ends(run: FinishedRun) -> list[int]:
    """Return the number of epochs before the start of each task but the first."""
    tasks = [epoch["task"] for epoch in _epochs(run)]
    return [number for number in range(1, len(tasks)) if tasks[number] != tasks[number - 1]]
