"""What every learner is to the runner: it learns tasks, yields events, predicts, and can be saved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from remnant.memory import Memory
from remnant.schedule import Phase
from remnant.stream import Task

STREAM, CONSOLIDATE = "stream", "consolidate"  # the works of every method that replays


@dataclass(frozen=True)
class Work:
    """Steps of one kind, as far as they can be told beforehand."""

    steps: int  # in all tasks
    epochs: int  # that a step says it is in one of


Plan = dict[str, Work]  # by the name of the work


@dataclass(frozen=True)
class StepDone:
    """A step was taken, or rows were stored; the learner's state may be saved now."""

    task: int
    epoch: int
    step: int  # counted from 1
    steps: int  # in this epoch
    phase: Phase
    loss: float | None  # None where nothing was trained
    images: int  # rows of the stream, or of a memory
    share: float = 1.0  # of the steps that were planned; an epoch of fewer steps counts as a whole
    work: str = STREAM  # what kind of step this is: a name in the learner's plan

    @property
    def label(self) -> str:
        """Return what is going on: the phase on the stream, the work elsewhere."""
        return str(self.phase.name).lower() if self.work == STREAM else self.work


@dataclass(frozen=True, eq=False)
class Division:
    """The rows of a memory, n, divided for each of K networks into trusted and doubted labels."""

    clean: Tensor  # (K, n) how probably each label is right; above 1/2 it is trusted
    plain: tuple[str, ...]  # (K,) why network k takes all labels as they are instead; "": it does not
    relabel: Tensor | None = None  # (n,) doubted rows whose labels are mended; else they are left out

    @classmethod
    def of(cls, posteriors: Sequence[Tensor | str]) -> "Division":
        """Divide by posteriors, or say why there is none."""
        rows = max((len(p) for p in posteriors if isinstance(p, Tensor)), default=0)
        reasons = [p if isinstance(p, str) else "" if (p > 0.5).any() else NOBODY for p in posteriors]
        clean = [p if isinstance(p, Tensor) else torch.ones(rows) for p in posteriors]
        return cls(torch.stack([c.double() for c in clean]), tuple(reasons))


NOBODY = "no label is trusted"


@dataclass(frozen=True)
class EpochDone:
    """An epoch has ended and nothing has been rolled back yet: the moment to look, not to save."""

    task: int
    epoch: int
    phase: Phase
    division: Division | None = None  # by which the memory was consolidated
    work: str = STREAM


@dataclass(frozen=True)
class Sorted:
    """Rows went from one memory to others and none was emptied yet: a moment to look, not to save."""

    task: int
    epoch: int


Event = StepDone | EpochDone | Sorted


class Learner(Protocol):
    """A learner knows nothing of files, terminals or truth."""

    def learn(self, task: Task) -> Iterator[Event]:
        """Learn a task, or what is left of it."""
        ...

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (B, C) for raw inputs."""
        ...

    def memories(self) -> dict[str, Memory]:
        """Return each memory by its name."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes, as nested dicts of tensors and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        ...
