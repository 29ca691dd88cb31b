"""The interface of methods: an `Algorithm` builds a `TaskLearner`, which yields events while it learns.

The runner depends on these types only. Learners do not access files, terminals or true labels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from remnant.buffer.buffer import Buffer
from remnant.data.dataset import Spec
from remnant.methods.epoch_schedule import Phase
from remnant.rng import Generators
from remnant.stream import Task

if TYPE_CHECKING:
    from remnant.methods.consolidation.division import Division
    from remnant.suspects.trajectory import Statistics


@dataclass(frozen=True)
class Training:
    """Settings of training on the stream."""

    epochs: int  # per task
    batch: int  # samples of the stream, and of the buffer, in a step
    lr: float
    lr_drops: tuple[float, ...] = ()  # fractions of the epochs after which the learning rate is divided by 10
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Setup:
    """The settings of a run that every method receives."""

    spec: Spec
    training: Training
    buffer_size: int
    device: torch.device = torch.device("cpu")


@dataclass(frozen=True)
class Work:
    """Planned steps of one kind, such as forgetting epochs or consolidation."""

    steps: int  # in all tasks
    epochs: int  # per task, as counted by the events of these steps
    lr: str = "lr"  # name of the setting with its learning rate


@dataclass(frozen=True)
class WorkPlan:
    """Planned steps by kind, and how many samples all buffers together may hold (None: any number)."""

    works: dict[str, Work]
    buffer_budget: int | None


@dataclass(frozen=True)
class StepDone:
    """A step has finished, or samples were stored; the learner's state may be saved now."""

    task: int
    epoch: int
    step: int  # counted from 1
    steps: int  # in this epoch
    phase: Phase
    loss: float | None  # None if nothing was trained, or if it is not read yet
    samples: int  # of the stream or of a buffer
    planned: float = 1.0  # planned steps that it counts for; not 1 if an epoch has more or fewer
    kind: str = ""  # key of the work plan; by default the name of the phase
    unread: Tensor | None = field(default=None, compare=False)  # the loss, on a device that computes it later

    @property
    def work(self) -> str:
        """Return the kind of work: a key of the work plan."""
        return self.kind or self.phase.label


@dataclass(frozen=True)
class EpochDone:
    """An epoch has ended, before any rollback: metrics are measured now, but the state must not be saved."""

    task: int
    epoch: int
    phase: Phase
    division: "Division | None" = None  # of the buffer into clean and noisy labels, if there is one
    kind: str = ""

    @property
    def work(self) -> str:
        """Return the kind of work: a key of the work plan."""
        return self.kind or self.phase.label


@dataclass(frozen=True)
class SamplesSplit:
    """Samples were split between buffers: metrics are measured now, but the state must not be saved."""

    task: int
    epoch: int


class NewNet(Protocol):
    """Builds networks by name; the initial weights depend on the name and the seed of the run only."""

    def __call__(self, name: str, *, normed_head: bool = False) -> nn.Module:
        """Return a new network; with `normed_head` its logits are batch-normalised."""
        ...


Event = StepDone | EpochDone | SamplesSplit


class TaskLearner(Protocol):
    """A method during training, with its networks and buffers."""

    def learn(self, task: Task) -> Iterator[Event]:
        """Learn a task, or resume it."""
        ...

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (B, C) of raw inputs."""
        ...

    def network(self) -> nn.Module:
        """Return the network that predicts."""
        ...

    def statistics(self, task: Task) -> "Statistics | None":
        """Return what training has computed about the samples of the current task.

        None for a method that does not train on the stream.
        """
        ...

    def buffers(self) -> dict[str, Buffer]:
        """Return the buffers by name; the first one is replayed."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state as nested dicts of tensors and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        ...


@dataclass(frozen=True)
class Problem:
    """Why settings cannot be used; reported only if none of `keys` has another problem already."""

    keys: frozenset[str] = field(compare=False)
    text: str

    @classmethod
    def of(cls, text: str, *keys: str) -> "Problem":
        """Create a problem of these settings."""
        return cls(frozenset(keys), text)


Build = Callable[["Algorithm", Setup], TaskLearner]


class Algorithm(Protocol):
    """A method with its settings: a frozen dataclass that builds a learner.

    Its fields are components, which are keys of a config (`objective`, `schedule`, ...), or plain
    settings, which are called `algorithm.NAME` in a config.
    """

    unused: ClassVar[tuple[str, ...]]  # settings of a run that it does not use

    @property
    def about(self) -> str:
        """Return a description in one line."""
        ...

    def build(self, setup: Setup, new_net: NewNet, rng: Generators, noise_rate: float | None) -> TaskLearner:
        """Build the learner; `noise_rate`, None if unknown, is for methods that assume it to be known."""
        ...

    def plan(self, setup: Setup, samples: Sequence[int]) -> WorkPlan:
        """Return the planned steps for tasks with these numbers of samples."""
        ...

    def check(self, setup: Setup, name: str) -> Iterator[Problem]:
        """Yield the problems of the settings; messages refer to the method as `name`."""
        ...

    def time_steps(self, setup: Setup, build: Build, task: Task) -> dict[str, list[float]]:
        """Return the seconds of a few steps of each kind of work, which are measured and discarded."""
        ...
