"""Evaluation of a learner: accuracy on the test splits, and the buffers compared with the true labels."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from remnant.buffer import Buffer
from remnant.engine.inference import CHUNK, cross_entropy
from remnant.experiment import metrics
from remnant.methods.consolidation.division import Division
from remnant.methods.protocol import Learner
from remnant.stream import Stream, TestSplit


@dataclass(frozen=True)
class Accuracy:
    """Accuracies in percent on the test splits so far."""

    class_incremental: list[float]  # one per task: argmax over all classes
    task_incremental: list[float]  # argmax over the classes of the task
    per_class: dict[int, float]


def accuracy(learner: Learner, tests: tuple[TestSplit, ...]) -> Accuracy:
    """Evaluate a learner on the test split of each task."""
    class_incremental, task_incremental, per_class = [], [], {}
    for test in tests:
        # In chunks: the samples of a task need not fit in RAM.
        logits = torch.cat([learner.predict(test.source.take(ids)) for ids in test.id.split(CHUNK)])
        is_correct = logits.argmax(1) == test.y
        classes = torch.tensor(test.classes)
        class_incremental.append(percent(is_correct))
        task_incremental.append(percent(classes[logits[:, classes].argmax(1)] == test.y))
        for label in test.classes:
            if (test.y == label).any():
                per_class[label] = percent(is_correct[test.y == label])
    return Accuracy(class_incremental, task_incremental, per_class)


def percent(is_correct: Tensor) -> float:
    """Return the percentage of True values; NaN for an empty tensor."""
    return 100 * int(is_correct.sum()) / len(is_correct) if len(is_correct) else float("nan")


def is_clean(buffer: Buffer, stream: Stream) -> Tensor:
    """Return which stored labels are clean, (size,)."""
    samples = buffer.samples()
    return stream.truth[samples.id] == samples.y


def buffer_report(buffer: Buffer, stream: Stream, task: int) -> dict[str, Any]:
    """Return size, purity (percent), balance and duplicates of a buffer during a task."""
    samples, clean = buffer.samples(), is_clean(buffer, stream)
    stored, names = buffer.task[: len(buffer)], stream.spec.classes
    seen = sum(len(t.classes) for t in stream.tasks[: task + 1])
    return {
        "size": len(buffer),
        "noisy": int((~clean).sum()),
        "purity": metrics.purity(clean),
        "purity_per_task": {str(k): v for k, v in metrics.purity_by(stored, clean).items()},
        "purity_per_class": {names[k]: v for k, v in metrics.purity_by(samples.y, clean).items()},
        "balance": metrics.balance(samples.y, seen),
        "duplicates": metrics.duplicates(samples.id),
    }


def division_report(division: Division, buffer: Buffer, stream: Stream) -> list[dict[str, Any]]:
    """Return for each network how well its division agrees with the true labels, or why it has none."""
    clean = is_clean(buffer, stream)
    reports: list[dict[str, Any]] = []
    for posterior, reason in zip(division.clean, division.fallback, strict=True):
        if reason:
            reports.append({"fallback": reason})
            continue
        is_trusted = posterior > 0.5
        reports.append({"trusted": int(is_trusted.sum()), **metrics.detection(is_trusted, clean)})
    return reports


def losses(learner: Learner, buffer: Buffer, slots: Tensor) -> Tensor:
    """Return the losses of stored samples by the current network."""
    logits = torch.cat([learner.predict(buffer.x[part]) for part in slots.split(CHUNK)])
    return cross_entropy(logits, buffer.y[slots])


def separation(learner: Learner, buffer: Buffer, stream: Stream, task: int) -> float | None:
    """Return the AUROC of the loss, noisy against clean, over the stored samples of past tasks.

    As Figure 1 of the paper shows, replay lowers it towards 1/2, and forgetting raises it again.
    """
    past = torch.nonzero(buffer.task[: len(buffer)] < task).flatten()
    if not len(past):
        return None
    clean, loss = is_clean(buffer, stream)[past], losses(learner, buffer, past)
    return metrics.auroc(loss[clean], loss[~clean])
