"""What an epoch may do (Sec. 3.1, Alg. 1): a phase is a value, computed here and nowhere else."""

import enum
from collections.abc import Callable
from dataclasses import dataclass


class Phase(enum.Flag):
    """What is allowed in an epoch; the named unions are the ones that methods use."""

    TRAIN = enum.auto()  # take gradient steps on the stream
    REPLAY = enum.auto()  # add the replay term L_R (Eq. 2)
    WRITE = enum.auto()  # let the memory change (Alg. 1 lines 9-10)
    ROLLBACK = enum.auto()  # restore the weights when the epoch ends (Alg. 1 line 12)
    CONSOLIDATE = enum.auto()  # learn from the memory alone, at the end of a task (Sec. 3.3)

    STANDARD = TRAIN | REPLAY | WRITE
    LEARN = TRAIN | REPLAY  # "buffer learning"
    FORGET = TRAIN | WRITE | ROLLBACK  # "buffer forgetting"
    IDLE = 0


Schedule = Callable[[int, int], Phase]  # (epoch, epochs) -> what this epoch may do


@dataclass(frozen=True)
class Always:
    """Train, replay and write in every epoch: ordinary replay."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.STANDARD


@dataclass(frozen=True)
class StreamOnly:
    """Train on the stream alone; no memory."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.TRAIN


@dataclass(frozen=True)
class Alternate:
    """AER: every `period`-th epoch forgets, starting with the first; the last one always learns."""

    period: int = 2  # 2 is the paper: forget, learn, forget, learn

    def __post_init__(self) -> None:
        if self.period < 2:
            raise ValueError(
                f"period is the distance between forgetting epochs, at least 2, got {self.period}"
            )

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        forgets = epoch % self.period == 0 and epoch < epochs - 1
        return Phase.FORGET if forgets else Phase.LEARN


@dataclass(frozen=True)
class WriteFirst:
    """Write in the first epoch of a task, before wrong labels have been learned; replay in all."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.LEARN if epoch else Phase.STANDARD


@dataclass(frozen=True)
class Collect:
    """Go through a task once, to store rows; whatever is learned is learned from the memory."""

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase of an epoch."""
        return Phase.IDLE if epoch else Phase.WRITE


SCHEDULES: dict[str, Schedule] = {
    "always": Always(),
    "alternate": Alternate(),
    "stream-only": StreamOnly(),
    "write-first-epoch": WriteFirst(),
    "collect": Collect(),
}


def phases(schedule: Schedule, epochs: int) -> list[Phase]:
    """Return the phases of a task.

    >>> [phase.name for phase in phases(Alternate(), 5)]
    ['FORGET', 'LEARN', 'FORGET', 'LEARN', 'LEARN']
    """
    return [schedule(epoch, epochs) for epoch in range(epochs)]
