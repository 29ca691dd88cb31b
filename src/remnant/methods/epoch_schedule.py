"""Schedules: the phase of each epoch of a task (Sec. 3.1, Alg. 1)."""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from remnant.settings import setting


class Phase(enum.Flag):
    """What is done in an epoch, as flags and as the named combinations that methods use."""

    TRAIN = enum.auto()  # take gradient steps on the stream
    REPLAY = enum.auto()  # add the replay term L_R (Eq. 2)
    WRITE = enum.auto()  # insert samples into the buffer (Alg. 1 lines 9-10)
    ROLLBACK = enum.auto()  # restore the weights at the end of the epoch (Alg. 1 line 12)
    CONSOLIDATE = enum.auto()  # train on the buffer alone at the end of a task (Sec. 3.3)

    STANDARD = TRAIN | REPLAY | WRITE
    LEARN = TRAIN | REPLAY  # "buffer learning"
    FORGET = TRAIN | WRITE | ROLLBACK  # "buffer forgetting"
    IDLE = 0

    @property
    def label(self) -> str:
        """Return the name in results and logs, such as `forget`."""
        return str(self.name).lower()


Schedule = Callable[[int, int], Phase]  # (epoch, epochs) -> phase of this epoch


@dataclass(frozen=True)
class Always:
    """Train, replay and write to the buffer in every epoch: standard replay."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.STANDARD


@dataclass(frozen=True)
class StreamOnly:
    """Train on the stream alone, without a buffer."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.TRAIN


@dataclass(frozen=True)
class Alternate:
    """AER: every `period`-th epoch, from the first on, is a forgetting epoch; the last one never is."""

    period: int = setting(2, "epochs from one forgetting epoch to the next; 2 in the paper")

    def __post_init__(self) -> None:
        if self.period < 2:
            raise ValueError(
                f"expected period >= 2, the distance between forgetting epochs, got {self.period}"
            )

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        forgets = epoch % self.period == 0 and epoch < epochs - 1
        return Phase.FORGET if forgets else Phase.LEARN


@dataclass(frozen=True)
class WriteFirst:
    """Replay in every epoch; write to the buffer only in the first, before noisy labels are memorised."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.LEARN if epoch else Phase.STANDARD


@dataclass(frozen=True)
class ReplayOnly:
    """Train and replay in every epoch; the buffer is written at the end of the task, when it is rebuilt."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.LEARN


@dataclass(frozen=True)
class Collect:
    """Write to the buffer in one pass over the task, without training: all training is on the buffer."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.IDLE if epoch else Phase.WRITE


SCHEDULES: dict[str, Schedule] = {
    "always": Always(),
    "alternate": Alternate(),
    "stream-only": StreamOnly(),
    "write-first-epoch": WriteFirst(),
    "replay-only": ReplayOnly(),
    "collect": Collect(),
}


def phases(schedule: Schedule, epochs: int) -> list[Phase]:
    """Return the phases of the epochs of a task.

    >>> [phase.name for phase in phases(Alternate(), 5)]
    ['FORGET', 'LEARN', 'FORGET', 'LEARN', 'LEARN']
    """
    return [schedule(epoch, epochs) for epoch in range(epochs)]
