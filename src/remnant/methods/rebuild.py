"""Rebuilding the buffer at the end of a task, from what all of its epochs say about its samples.

Until a task ends, all of its samples are still there, so nothing has to be stored before. M slots, n samples
of the task.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.buffer import Buffer
from remnant.settings import expect, setting
from remnant.stream import Task
from remnant.suspects.threshold import LEARNED, log_odds

# (buffer, task, mean margins (n,) of its samples, generator) -> None; changes the buffer
Rebuild = Callable[[Buffer, Task, Tensor, torch.Generator], None]


@dataclass(frozen=True)
class NoRebuild:
    """Write to the buffer during training only."""

    def __call__(self, buffer: Buffer, task: Task, margin: Tensor, rng: torch.Generator) -> None:
        """Leave the buffer unchanged."""


@dataclass(frozen=True)
class Trusted:
    """TRACE: all classes get equally many slots, and new samples are drawn from those with trusted labels.

    Where the labels of a class are doubtful, those with the highest mean margins are trusted, otherwise all
    of them, because the samples with the highest margins are also the easiest ones.
    """

    share: float = setting(0.25, "fraction of a class that is trusted if its labels are doubtful")

    def __post_init__(self) -> None:
        expect({"share in (0, 1]": 0 < self.share <= 1}, self)

    def __call__(self, buffer: Buffer, task: Task, margin: Tensor, rng: torch.Generator) -> None:
        """Replace what was stored in this task, and remove random samples of classes above their quota."""
        buffer.remove(buffer.id[: len(buffer)][buffer.task[: len(buffer)] == task.number])
        quotas = equal_quotas(buffer.capacity, torch.cat([buffer.samples().y.cpu(), task.y.cpu()]).unique())
        shrink(buffer, quotas, task, rng)
        for label in task.y.unique().tolist():
            samples = torch.nonzero(task.y == label).flatten()
            free = quotas[label] - int((buffer.samples().y == label).sum())
            chosen = shuffled(samples[self.is_trusted(margin[samples], free)], rng)[:free]
            buffer.put(torch.arange(len(chosen)) + len(buffer), task.take(chosen), task.number)

    def is_trusted(self, margin: Tensor, free: int) -> Tensor:
        """Return which samples of a class are trusted, from their mean margins (n,): enough for its slots."""
        margin = margin.double()
        odds = log_odds(margin)
        if odds is None or not (odds < 0).any() or margin[odds < 0].mean() >= LEARNED:
            return torch.ones(len(margin), dtype=torch.bool)
        count = max(1, round(self.share * len(margin)), min(free, len(margin)))
        return margin >= margin.topk(count).values[-1]


def equal_quotas(slots: int, labels: Tensor) -> dict[int, int]:
    """Return the number of slots of each class; the first classes get the remainder.

    >>> equal_quotas(8, torch.tensor([3, 5, 7]))
    {3: 3, 5: 3, 7: 2}
    """
    each, rest = divmod(slots, max(1, len(labels)))
    return {label: each + (i < rest) for i, label in enumerate(labels.tolist())}


def shrink(buffer: Buffer, quotas: dict[int, int], task: Task, rng: torch.Generator) -> None:
    """Remove random samples of each class until its quota remains.

    A class that the task has as well keeps k / (k + 1) of its quota, if its samples are from k tasks.
    """
    y, number = buffer.samples().y.cpu(), buffer.task[: len(buffer)]
    removed = []
    for label in y.unique().tolist():
        slots = torch.nonzero(y == label).flatten()
        tasks = len(number[slots].unique())
        kept = quotas[label] * tasks // (tasks + 1) if (task.y == label).any() else quotas[label]
        removed.append(shuffled(slots, rng)[kept:])
    if removed:
        buffer.remove(buffer.id[torch.cat(removed)])


def shuffled(values: Tensor, rng: torch.Generator) -> Tensor:
    """Return values in random order."""
    return values[torch.randperm(len(values), generator=rng)]


REBUILDS: dict[str, Rebuild] = {"none": NoRebuild(), "trusted": Trusted()}
