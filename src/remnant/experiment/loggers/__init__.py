"""Loggers, which receive the progress and the metrics of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from remnant.methods.protocol import StepDone, WorkPlan


@dataclass(frozen=True)
class RunStart:
    """Information about a run that starts or resumes."""

    folder: Path
    tasks: int
    plan: WorkPlan
    done: dict[str, float]  # planned steps already finished, by kind of work
    steps: int  # steps already finished
    records: Sequence[dict[str, Any]]  # metrics already recorded


class Logger(Protocol):
    """Base class of loggers; a subclass overrides the methods it needs."""

    def start(self, run: RunStart) -> None:
        """Receive the start of a new or resumed run."""
        return

    def step(self, event: StepDone, purity: float | None) -> None:
        """Receive a finished step, with the purity of the buffer in percent."""
        return

    def record(self, record: dict[str, Any]) -> None:
        """Receive the metrics of an epoch, a split of samples or a task."""
        return

    def note(self, text: str) -> None:
        """Receive a message for the user; it may be called before `start`."""
        return

    def end(self) -> None:
        """Close the logger; the run may have failed."""
        return
