"""What a person sees while a run goes on: a live display in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from remnant.protocol import StepDone


@dataclass(frozen=True)
class Plan:
    """How much there is to do."""

    tasks: int
    epochs: int
    steps: int  # in all
    done: int  # steps done before this process


class Screen(Protocol):
    """Where a run reports to."""

    def begin(self, plan: Plan) -> None:
        """Start, or go on."""
        ...

    def step(self, event: StepDone, purity: float | None) -> None:
        """Show a step."""
        ...

    def record(self, record: dict[str, Any]) -> None:
        """Show a metrics line: an epoch or a task has ended."""
        ...

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        ...

    def end(self) -> None:
        """Leave the display."""
        ...


class Speed:
    """Images a second, and the time left at this pace."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan, self._clock, self._start = plan, clock, clock()
        self._steps = self._images = 0

    def add(self, images: int) -> None:
        """Count a step."""
        self._steps += 1
        self._images += images

    @property
    def images_per_second(self) -> float:
        """Return rows of the stream a second."""
        return self._images / max(self._clock() - self._start, 1e-9)

    @property
    def left(self) -> str:
        """Return the time left, as minutes:seconds."""
        spent = self._clock() - self._start
        remaining = self._plan.steps - self._plan.done - self._steps
        return duration(spent / max(self._steps, 1) * remaining)


def duration(seconds: float) -> str:
    """Write a duration for a person.

    >>> [duration(s) for s in (4.2, 95, 7384)]
    ['4 s', '1:35 min', '2:03 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
    return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d} h"


def epoch_line(record: dict[str, Any], plan: Plan) -> str:
    """Write an epoch's metrics in one line."""
    memory, separation = record["memory"], record["separation"]
    purity = f"  purity {memory['purity']:5.1f} %" if memory and memory["purity"] is not None else ""
    apart = f"  separation {separation:.2f}" if separation is not None else ""
    return (
        f"task {record['task'] + 1}/{plan.tasks}  epoch {record['epoch'] + 1:2d}/{plan.epochs}  "
        f"{record['phase']:8s}  loss {record['loss']:.3f}{purity}{apart}"
    )


def task_line(record: dict[str, Any]) -> str:
    """Write the accuracies after a task in one line."""
    cells = "  ".join(f"{value:5.1f}" for value in record["accuracy"])
    return f"after task {record['task'] + 1}: accuracy per task  {cells}"


class Quiet:
    """Says nothing but notes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, plan: Plan) -> None:
        """Start."""

    def step(self, event: StepDone, purity: float | None) -> None:
        """Show nothing."""

    def record(self, record: dict[str, Any]) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Leave."""


class Lines(Quiet):
    """One line per epoch and per task: for logs."""

    def begin(self, plan: Plan) -> None:
        """Start."""
        self._plan, self._speed = plan, Speed(plan)

    def step(self, event: StepDone, purity: float | None) -> None:
        """Count a step."""
        self._speed.add(event.images)

    def record(self, record: dict[str, Any]) -> None:
        """Print a line."""
        if record["event"] == "task":
            self.note(task_line(record))
            return
        pace = f"  {self._speed.images_per_second:5.0f} images/s  {self._speed.left} left"
        self.note(epoch_line(record, self._plan) + pace)


class Live(Quiet):
    """A bar that moves, in a terminal."""

    def begin(self, plan: Plan) -> None:
        """Start the display."""
        self._plan, self._speed = plan, Speed(plan)
        self._progress = Progress(
            TextColumn("{task.description}\n{task.fields[now]}"),  # two lines fit 80 columns
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:>3.0f} %\n{task.fields[left]}"),
            console=self._console,
            refresh_per_second=8,
        )
        self._bar: TaskID = self._progress.add_task(
            "starting", total=plan.steps, completed=plan.done, now="", left=""
        )
        self._progress.start()

    def step(self, event: StepDone, purity: float | None) -> None:
        """Move the bar."""
        self._speed.add(event.images)
        pure = "" if purity is None else f"  purity {purity:.0f} %"
        phase = str(event.phase.name).lower()
        self._progress.update(
            self._bar,
            advance=1,
            description=(
                f"task {event.task + 1}/{self._plan.tasks} epoch {event.epoch + 1}/"
                f"{self._plan.epochs} [bold]{phase:8s}[/] {event.step:3d}/{event.steps}"
            ),
            now=f"loss {event.loss:.2f}{pure}  {self._speed.images_per_second:.0f} images/s",
            left=f"{self._speed.left} left",
        )

    def record(self, record: dict[str, Any]) -> None:
        """Print the accuracies after a task above the bar."""
        if record["event"] == "task":
            self.note(task_line(record))

    def end(self) -> None:
        """Leave the display."""
        self._progress.stop()


def screen(quiet: bool) -> Screen:
    """Return the display that fits standard output."""
    if quiet:
        return Quiet(Console(stderr=True))
    console = Console()
    return Live(console) if console.is_terminal else Lines(console)
