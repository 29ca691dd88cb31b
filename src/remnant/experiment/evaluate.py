"""Evaluation of a learner: accuracy on the test splits, and the buffers compared with the true labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from remnant.buffer import Buffer
from remnant.engine.inference import CHUNK, cross_entropy
from remnant.experiment import metrics
from remnant.methods.consolidation.division import Division
from remnant.methods.protocol import TaskLearner
from remnant.stream import Stream, Task, TestSplit
from remnant.suspects.scores import DEFAULT, SCORES, Evidence, Score, Sum
from remnant.suspects.table import Scored, scored

MEASURED = 500  # samples of a task on which memorisation is measured: about 1 % of an epoch on CIFAR-10
SEPARATED = 2500  # stored samples on which separation is measured

PURITIES = (
    *("noisy", "purity", "purity_distinct", "purity_per_task", "purity_per_class"),
    "purity_per_class_scaled",
)
SUSPECTS = (
    *("auroc", "average_precision", "precision_at_errors", "precision", "recall", "label_correction"),
    "scores",
)
NOT_SEPARATED: dict[str, float | None] = dict.fromkeys(("separation", "loss_clean", "loss_noisy"))


@dataclass(frozen=True)
class Accuracy:
    """Accuracies in percent on the test splits so far."""

    class_incremental: list[float]  # one per task: argmax over all classes
    task_incremental: list[float]  # argmax over the classes of the task
    per_class: dict[int, float]


def accuracy(learner: TaskLearner, tests: tuple[TestSplit, ...]) -> Accuracy:
    """Evaluate a learner on the test split of each task."""
    class_incremental, task_incremental = [], []
    of_class: dict[int, list[Tensor]] = {}  # is_correct of its samples, in all tasks that have them
    for test in tests:
        # In chunks: the samples of a task need not fit in RAM.
        logits = torch.cat([learner.predict(test.source.take(ids)).cpu() for ids in test.id.split(CHUNK)])
        is_correct = logits.argmax(1) == test.y
        classes = torch.tensor(test.classes)
        class_incremental.append(percent(is_correct))
        task_incremental.append(percent(classes[logits[:, classes].argmax(1)] == test.y))
        for label in test.classes:
            if (test.y == label).any():
                of_class.setdefault(label, []).append(is_correct[test.y == label])
    per_class = {label: percent(torch.cat(found)) for label, found in of_class.items()}
    return Accuracy(class_incremental, task_incremental, per_class)


def percent(is_correct: Tensor) -> float:
    """Return the percentage of True values; NaN for an empty tensor."""
    return 100 * int(is_correct.sum()) / len(is_correct) if len(is_correct) else float("nan")


def is_clean(buffer: Buffer, stream: Stream) -> Tensor | None:
    """Return which stored labels are clean, (size,); None if the true labels are unknown."""
    samples = buffer.samples()
    return None if stream.truth is None else stream.truth[samples.id] == samples.y.cpu()


def purity(buffer: Buffer, stream: Stream) -> float | None:
    """Return the purity of a buffer in percent; None if it is empty, or if the true labels are unknown."""
    clean = is_clean(buffer, stream)
    return None if clean is None else metrics.purity(clean)


def buffer_report(buffer: Buffer, stream: Stream, task: int) -> dict[str, Any]:
    """Return size, purity (percent), balance and duplicates of a buffer during a task."""
    samples, clean, names = buffer.samples(), is_clean(buffer, stream), stream.spec.classes
    y = samples.y.cpu()
    seen = stream.classes_seen(task)
    counts = metrics.class_counts(y)
    purities: dict[str, Any] = dict.fromkeys(PURITIES)
    if clean is not None:
        per_task = metrics.purity_by(buffer.task[: len(buffer)], clean)
        per_class = metrics.purity_by(y, clean)
        scaled = metrics.scaled_by_occurrence(per_class, counts, seen)
        purities = {
            "noisy": int((~clean).sum()),
            "purity": metrics.purity(clean),
            "purity_distinct": metrics.purity_of_distinct(samples.id, clean),
            "purity_per_task": {str(k): v for k, v in per_task.items()},
            "purity_per_class": {names[k]: v for k, v in per_class.items()},
            "purity_per_class_scaled": {names[k]: v for k, v in scaled.items()},
        }
    return {
        "size": len(buffer),
        **purities,
        "class_counts": {names[k]: v for k, v in counts.items()},
        "balance": metrics.balance(y, seen),
        "duplicates": metrics.duplicates(samples.id),
    }


def buffer_purities(learner: TaskLearner, stream: Stream) -> dict[str, Any]:
    """Return size and purity of each buffer."""
    buffers = learner.buffers().items()
    return {name: {"size": len(buffer), "purity": purity(buffer, stream)} for name, buffer in buffers}


def task_report(learner: TaskLearner, stream: Stream, task: int) -> dict[str, Any]:
    """Return the record of a finished task: accuracies so far, and on the next task, and the buffers."""
    tests = (
        stream.tests if len(stream.tasks) == 1 else stream.tests[: task + 1]
    )  # joint training has one task
    measured, following = accuracy(learner, tests), accuracy(learner, stream.tests[len(tests) :][:1])
    buffer, names = next(iter(learner.buffers().values()), None), stream.spec.classes
    return {
        "event": "task",
        "task": task,
        "accuracy": measured.class_incremental,
        "accuracy_task_incremental": measured.task_incremental,
        "accuracy_per_class": {names[c]: v for c, v in measured.per_class.items()},
        "accuracy_next": next(iter(following.class_incremental), None),
        "buffer": None if buffer is None else buffer_report(buffer, stream, task),
        "buffers": buffer_purities(learner, stream),
    }


def division_report(division: Division, buffer: Buffer, stream: Stream) -> list[dict[str, Any]]:
    """Return for each network how well its division agrees with the true labels, or why it has none.

    label_correction is the percentage of the noisy samples with a new label whose new label is the true one.
    """
    reports: list[dict[str, Any]] = []
    for posterior, reason in zip(division.clean, division.fallback, strict=True):
        if reason:
            reports.append({"fallback": reason})
            continue
        is_trusted = posterior > 0.5
        is_new = ~is_trusted if division.relabel is None else division.relabel
        found = _agreement(is_trusted, is_new, division.predicted, buffer, stream)
        reports.append({"trusted": int(is_trusted.sum()), **found})
    return reports


def _agreement(
    is_trusted: Tensor, is_new: Tensor, predicted: Tensor | None, buffer: Buffer, stream: Stream
) -> dict[str, float | None]:
    """Compare trusted labels and new labels with the true labels; None if these are unknown."""
    if stream.truth is None:
        return dict.fromkeys(("label_correction", *metrics.DETECTION))
    samples, correction = buffer.samples(), None
    truth, y = stream.truth[samples.id], samples.y.cpu()
    if predicted is not None:
        correction = metrics.recovered(predicted[is_new], y[is_new], truth[is_new])
    return {"label_correction": correction, **metrics.detection(is_trusted, truth == y)}


def losses(learner: TaskLearner, buffer: Buffer, slots: Tensor) -> Tensor:
    """Return the losses of stored samples by the current network."""
    logits = torch.cat([learner.predict(buffer.x[part]) for part in slots.split(CHUNK)])
    return cross_entropy(logits, buffer.y[slots])


def separation(learner: TaskLearner, buffer: Buffer, stream: Stream, task: int) -> dict[str, float | None]:
    """Return the AUROC of the loss, noisy against clean, and the mean losses, of samples of past tasks.

    Of many samples, those that are evenly spaced in the buffer are measured, so that an epoch does not take
    longer with a larger buffer. As Figure 1 of the paper shows, replay lowers the AUROC towards 1/2,
    and forgetting raises it again.
    """
    past, is_known = torch.nonzero(buffer.task[: len(buffer)] < task).flatten(), is_clean(buffer, stream)
    if not len(past) or is_known is None:
        return NOT_SEPARATED
    count = min(len(past), SEPARATED)
    past = past[torch.arange(count) * len(past) // count]
    clean, loss = is_known[past], losses(learner, buffer, past)
    return {"separation": metrics.auroc(loss[clean], loss[~clean]), **metrics.mean_losses(loss, clean)}


def fit_report(learner: TaskLearner, buffer: Buffer | None, stream: Stream, task: int) -> dict[str, Any]:
    """Return how well the network fits clean and noisy samples, of the buffer and of the stream."""
    found = NOT_SEPARATED if buffer is None else separation(learner, buffer, stream, task)
    return {**found, "stream": memorisation(learner, stream.tasks[task], stream)}


def memorisation(learner: TaskLearner, task: Task, stream: Stream) -> dict[str, float | None] | None:
    """Return how well the network fits clean and noisy samples of a task, on evenly spaced samples of it.

    None if the true labels are unknown.
    """
    if stream.truth is None:
        return None
    count = min(len(task), MEASURED)
    chosen = torch.arange(count) * len(task) // count
    logits = torch.cat([learner.predict(task.take(part).x).cpu() for part in chosen.split(CHUNK)])
    predicted, observed, truth = logits.argmax(1), task.y[chosen], stream.truth[task.id[chosen]]
    return {
        **metrics.mean_losses(cross_entropy(logits, observed), truth == observed),
        "memorised": metrics.memorised(predicted, observed, truth),
        "recovered": metrics.recovered(predicted, observed, truth),
    }


def suspects_report(found: Scored, stream: Stream, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Return how many labels are suspect and, if the true labels are known, how well they were detected.

    noise_rate is the estimate in percent. auroc, average_precision and precision_at_errors are fractions;
    precision, recall and label_correction are percentages: suspect labels that are noisy, noisy labels that
    are suspect, and noisy labels whose suggested label is the true one. `scores` has the detection by every
    known score.
    """
    report: dict[str, Any] = {
        "score": DEFAULT,
        "samples": len(found.id),
        "suspect": int(found.is_suspect.sum()),
        "noise_rate": 100 * found.noise_rate,
        **dict.fromkeys(SUSPECTS),
    }
    if stream.truth is None:
        return report
    truth = stream.truth[found.id]
    is_noisy, scores = truth != found.y, known_scores(evidence)
    return report | {
        **detection(found.score, is_noisy),
        "precision": metrics.percentage(is_noisy[found.is_suspect]),
        "recall": metrics.percentage(found.is_suspect[is_noisy]),
        "label_correction": metrics.recovered(found.suggested, found.y, truth),
        "scores": {name: detection(scored(evidence, score).score, is_noisy) for name, score in scores},
    }


def detection(score: Tensor, is_noisy: Tensor) -> dict[str, float | None]:
    """Return how well low scores (n,) detect noisy labels, as fractions."""
    doubt = -score
    return {
        "auroc": metrics.auroc(doubt[~is_noisy], doubt[is_noisy]),
        "average_precision": metrics.average_precision(doubt, is_noisy),
        "precision_at_errors": metrics.precision_at_errors(doubt, is_noisy),
    }


def known_scores(evidence: Sequence[Evidence]) -> Iterator[tuple[str, Score | Sum]]:
    """Yield the scores that the evidence has values for; there is a rise only with forgetting epochs."""
    for name, score in SCORES.items():
        if score(evidence[0]).isfinite().all():
            yield name, score
