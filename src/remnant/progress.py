"""What a person sees while a run goes on: a live display in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from remnant.protocol import STREAM, Plan, StepDone

SILENCE = 60.0  # seconds after which a log says that the run goes on


@dataclass(frozen=True)
class Ahead:
    """How much there is to do."""

    tasks: int
    plan: Plan
    done: dict[str, float] = field(default_factory=dict)  # steps of each work, before this process

    def left(self, work: str) -> float:
        """Return the steps of a kind of work that are left, as far as can be told."""
        return self.plan[work].steps - self.done.get(work, 0.0)


class Screen(Protocol):
    """Where a run reports to."""

    def begin(self, ahead: Ahead) -> None:
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

    def __init__(self, ahead: Ahead, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._last = self._start
        self._images = 0
        self._left = {work: ahead.left(work) for work in ahead.plan}
        self._done = dict.fromkeys(ahead.plan, 0.0)
        self._spent = dict.fromkeys(ahead.plan, 0.0)

    def add(self, event: StepDone) -> None:
        """Count a step."""
        now, work = self._clock(), event.work
        self._images += event.images
        self._left[work] -= event.share
        self._done[work] += event.share
        self._spent[work] += now - self._last
        self._last = now

    @property
    def images_per_second(self) -> float:
        """Return rows a second."""
        return self._images / max(self._clock() - self._start, 1e-9)

    @property
    def left(self) -> str:
        """Return the time left; a kind of step not seen yet is taken to cost what others do."""
        done, spent = self._done, self._spent
        overall = sum(spent.values()) / max(sum(done.values()), 1e-9)
        pace = {work: spent[work] / done[work] if done[work] else overall for work in done}
        return duration(sum(pace[work] * max(0.0, steps) for work, steps in self._left.items()))


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


def epoch_line(record: dict[str, Any], ahead: Ahead) -> str:
    """Write an epoch's metrics in one line."""
    memory, separation = record["memory"], record["separation"]
    purity = f"  purity {memory['purity']:5.1f} %" if memory and memory["purity"] is not None else ""
    apart = f"  separation {separation:.2f}" if separation is not None else ""
    return (
        f"task {record['task'] + 1}/{ahead.tasks}  epoch {record['epoch'] + 1:2d}/"
        f"{ahead.plan[STREAM].epochs}  "
        f"{record['phase']:8s}  {loss_of(record)}{purity}{apart}"
    )


def position(event: StepDone, ahead: Ahead) -> str:
    """Say where a step is."""
    epochs = ahead.plan[event.work].epochs
    return f"task {event.task + 1}/{ahead.tasks} epoch {event.epoch + 1}/{epochs}"


def loss_of(record: dict[str, Any]) -> str:
    """Write a loss, if there is one."""
    return "" if record["loss"] is None else f"loss {record['loss']:.3f}"


def consolidation_line(record: dict[str, Any], ahead: Ahead) -> str:
    """Write a consolidation epoch's metrics in one line."""
    division = (record["division"] or [{}])[0]
    found = f"  {division['trusted']} rows trusted" if "trusted" in division else ""
    if division.get("precision") is not None:
        found += f", {division['precision']:.1f} % of them right"
    if "plain" in division:
        found = f"  plain cross-entropy: {division['plain']}"
    return (
        f"task {record['task'] + 1}/{ahead.tasks}  {record['work']} {record['epoch'] + 1:3d}/"
        f"{ahead.plan[record['work']].epochs}  {loss_of(record)}{found}"
    )


def ends_cycle(epoch: int, epochs: int) -> bool:
    """Whether a consolidation epoch is the last one before a warm restart, or of all.

    >>> [epoch for epoch in range(20) if ends_cycle(epoch, 20)]
    [0, 2, 6, 14, 19]
    """
    return epoch == epochs - 1 or (epoch + 2) & (epoch + 1) == 0


def task_line(record: dict[str, Any]) -> str:
    """Write the accuracies after a task in one line."""
    cells = "  ".join(f"{value:5.1f}" for value in record["accuracy"])
    return f"after task {record['task'] + 1}: accuracy per task  {cells}"


class Quiet:
    """Says nothing but notes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, ahead: Ahead) -> None:
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
    """One line per epoch and per task, and one now and then in a long epoch: for logs."""

    def begin(self, ahead: Ahead) -> None:
        """Start."""
        self._ahead, self._speed, self._said = ahead, Speed(ahead), time.monotonic()

    def step(self, event: StepDone, purity: float | None) -> None:
        """Count a step, and say so if nothing has been said for long."""
        self._speed.add(event)
        if time.monotonic() - self._said > SILENCE:
            loss = "" if event.loss is None else f"  loss {event.loss:.3f}"
            self._say(f"{position(event, self._ahead)}  {event.label}{loss}")

    def record(self, record: dict[str, Any]) -> None:
        """Print a line."""
        if record["event"] == "task":
            self.note(task_line(record))
        elif record["event"] == "epoch":
            self._say(epoch_line(record, self._ahead))
        elif record["event"] == "consolidation" and self._ends_cycle(record):
            self._say(consolidation_line(record, self._ahead))

    def _ends_cycle(self, record: dict[str, Any]) -> bool:
        return ends_cycle(record["epoch"], self._ahead.plan[record["work"]].epochs)

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self.note(f"{line}  {self._speed.images_per_second:5.0f} images/s  {self._speed.left} left")


class Live(Quiet):
    """A bar that moves, in a terminal."""

    def begin(self, ahead: Ahead) -> None:
        """Start the display."""
        self._ahead, self._speed = ahead, Speed(ahead)
        self._progress = Progress(
            TextColumn("{task.description}\n{task.fields[now]}"),  # two lines fit 80 columns
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:>3.0f} %\n{task.fields[left]}"),
            console=self._console,
            refresh_per_second=8,
        )
        self._bar: TaskID = self._progress.add_task(
            "starting",
            total=sum(work.steps for work in ahead.plan.values()),
            completed=round(sum(ahead.done.values())),
            now="",
            left="",
        )
        self._progress.start()

    def step(self, event: StepDone, purity: float | None) -> None:
        """Move the bar."""
        self._speed.add(event)
        pure = "" if purity is None else f"purity {purity:.0f} %  "
        loss = "" if event.loss is None else f"loss {event.loss:.2f}  "
        self._progress.update(
            self._bar,
            advance=event.share,
            description=(
                f"{position(event, self._ahead)} [bold]{event.label:8s}[/] {event.step:3d}/{event.steps}"
            ),
            now=f"{loss}{pure}{self._speed.images_per_second:.0f} images/s",
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
