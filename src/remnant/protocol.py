"""What every learner is to the runner: it learns tasks, yields events, predicts, and can be saved."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from remnant.memory import Memory
from remnant.schedule import Phase
from remnant.stream import Task


@dataclass(frozen=True)
class StepDone:
    """A gradient step was taken; the learner's state may be saved now."""

    task: int
    epoch: int
    step: int  # counted from 1
    steps: int  # in this epoch
    phase: Phase
    loss: float
    images: int  # rows of the stream


@dataclass(frozen=True)
class EpochDone:
    """An epoch has ended and nothing has been rolled back yet: the moment to look, not to save."""

    task: int
    epoch: int
    phase: Phase


Event = StepDone | EpochDone


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
