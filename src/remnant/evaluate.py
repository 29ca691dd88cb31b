"""What is measured on a learner: accuracy on tests, and the state of its memories against the truth."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from remnant import metrics
from remnant.memory import Memory
from remnant.predict import CHUNK, cross_entropy
from remnant.protocol import Division, Learner
from remnant.stream import Stream, Test


@dataclass(frozen=True)
class Accuracy:
    """Percentages on the tests so far."""

    class_incremental: list[float]  # one per task: argmax over all classes
    task_incremental: list[float]  # argmax over the classes of the task
    per_class: dict[int, float]


def accuracy(learner: Learner, tests: tuple[Test, ...]) -> Accuracy:
    """Test a learner on each task."""
    overall, within, per_class = [], [], {}
    for test in tests:
        # A few rows at a time: those of a task need not fit in memory.
        logits = torch.cat([learner.predict(test.source.take(rows)) for rows in test.id.split(CHUNK)])
        is_right = logits.argmax(1) == test.y
        classes = torch.tensor(test.classes)
        overall.append(percent(is_right))
        within.append(percent(classes[logits[:, classes].argmax(1)] == test.y))
        for label in test.classes:
            if (test.y == label).any():
                per_class[label] = percent(is_right[test.y == label])
    return Accuracy(overall, within, per_class)


def percent(is_right: Tensor) -> float:
    """Return the share of True, in percent; nan of nothing."""
    return 100 * int(is_right.sum()) / len(is_right) if len(is_right) else float("nan")


def is_clean(memory: Memory, stream: Stream) -> Tensor:
    """Return which stored labels are right, (size,)."""
    rows = memory.rows()
    return stream.truth[rows.id] == rows.y


def memory_report(memory: Memory, stream: Stream, task: int) -> dict[str, Any]:
    """Return size, purity (percent), balance and duplicates of a memory during a task."""
    rows, clean = memory.rows(), is_clean(memory, stream)
    stored, names = memory.task[: len(memory)], stream.spec.classes
    seen = sum(len(t.classes) for t in stream.tasks[: task + 1])
    return {
        "size": len(memory),
        "wrong": int((~clean).sum()),
        "purity": metrics.purity(clean),
        "purity_per_task": {str(k): v for k, v in metrics.purity_by(stored, clean).items()},
        "purity_per_class": {names[k]: v for k, v in metrics.purity_by(rows.y, clean).items()},
        "balance": metrics.balance(rows.y, seen),
        "duplicates": metrics.duplicates(rows.id),
    }


def division_report(division: Division, memory: Memory, stream: Stream) -> list[dict[str, Any]]:
    """Return for each network how well its division meets the truth, or why it has none."""
    clean = is_clean(memory, stream)
    reports: list[dict[str, Any]] = []
    for posterior, reason in zip(division.clean, division.plain, strict=True):
        if reason:
            reports.append({"plain": reason})
            continue
        is_trusted = posterior > 0.5
        reports.append({"trusted": int(is_trusted.sum()), **metrics.detection(is_trusted, clean)})
    return reports


def separation(learner: Learner, memory: Memory, stream: Stream, task: int) -> float | None:
    """Return the AUROC of the loss, noisy against clean, over the stored rows of past tasks.

    It shows why alternation works (Fig. 1): replay drives it to 1/2, forgetting brings it back.
    """
    past = torch.nonzero(memory.task[: len(memory)] < task).flatten()
    if not len(past):
        return None
    clean = is_clean(memory, stream)[past]
    logits = torch.cat([learner.predict(memory.x[slots]) for slots in past.split(CHUNK)])
    loss = cross_entropy(logits, memory.y[past])
    return metrics.auroc(loss[clean], loss[~clean])
