"""Progress of a run on the console: a live display in a terminal, plain lines elsewhere."""

import textwrap
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from remnant.engine.learning_rate import ends_cycle
from remnant.errors import printable
from remnant.experiment.loggers import Logger, RunStart
from remnant.methods.protocol import StepDone

PAUSE = 10.0  # seconds between log lines about epochs, at least
SILENCE = 60.0  # seconds without output after which a log line is printed


class Speed:
    """Samples per second, and the remaining time at the speed so far."""

    def __init__(self, run: RunStart, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._last = self._start
        self._samples = 0
        works = run.plan.works
        self._left = {kind: work.steps - run.done.get(kind, 0.0) for kind, work in works.items()}
        self._done = dict.fromkeys(works, 0.0)
        self._spent = dict.fromkeys(works, 0.0)

    def add(self, event: StepDone) -> None:
        """Count a step."""
        now, kind = self._clock(), event.work
        self._samples += event.samples
        self._left[kind] -= event.planned
        self._done[kind] += event.planned
        self._spent[kind] += now - self._last
        self._last = now

    @property
    def samples_per_second(self) -> float:
        """Return the samples per second."""
        return self._samples / max(self._clock() - self._start, 1e-9)

    @property
    def left(self) -> str:
        """Return the remaining time; kinds of steps not seen yet are assumed to take as long as others."""
        done, spent = self._done, self._spent
        overall = sum(spent.values()) / max(sum(done.values()), 1e-9)
        pace = {kind: spent[kind] / done[kind] if done[kind] else overall for kind in done}
        return duration(sum(pace[kind] * max(0.0, steps) for kind, steps in self._left.items()))


def duration(seconds: float) -> str:
    """Format a duration.

    >>> [duration(s) for s in (4.2, 95, 7384)]
    ['4 s', '1:35 min', '2:03 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
    return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d} h"


def epoch_line(record: dict[str, Any], run: RunStart) -> str:
    """Format the metrics of an epoch."""
    buffer, separation = record["buffer"], record["separation"]
    purity = ""
    if buffer and buffer["size"]:
        known = "unknown" if buffer["purity"] is None else f"{buffer['purity']:5.1f} %"
        purity = f"  purity {known}"
    separated = f"  separation {separation:.2f}" if separation is not None else ""
    return (
        f"task {record['task'] + 1}/{run.tasks}  epoch {record['epoch'] + 1:2d}/"
        f"{run.plan.works[record['phase']].epochs}  "
        f"{record['phase']:8s}  {loss_of(record)}{purity}{separated}"
    )


def position(event: StepDone, run: RunStart) -> str:
    """Format the position of a step."""
    epochs = run.plan.works[event.work].epochs
    return f"task {event.task + 1}/{run.tasks} epoch {event.epoch + 1}/{epochs}"


def loss_of(record: dict[str, Any]) -> str:
    """Format the loss, if there is one."""
    return "" if record["loss"] is None else f"loss {record['loss']:.3f}"


def consolidation_line(record: dict[str, Any], run: RunStart) -> str:
    """Format the metrics of a consolidation epoch."""
    division = (record["division"] or [{}])[0]
    found = f"  {division['trusted']} labels trusted" if "trusted" in division else ""
    if division.get("precision") is not None:
        found += f", {division['precision']:.1f} % of them clean"
    if "fallback" in division:
        found = f"  plain cross-entropy: {division['fallback']}"
    return (
        f"task {record['task'] + 1}/{run.tasks}  {record['work']} {record['epoch'] + 1:3d}/"
        f"{run.plan.works[record['work']].epochs}  {loss_of(record)}{found}"
    )


def task_line(record: dict[str, Any]) -> str:
    """Format the accuracies after a task."""
    cells = "  ".join(f"{value:5.1f}" for value in record["accuracy"])
    return f"after task {record['task'] + 1}: accuracy per task  {cells}"


class Quiet(Logger):
    """Prints messages only."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note(self, text: str) -> None:
        """Print a message; it may contain names of files, whose control characters are escaped."""
        text = printable(text)
        if self._console.is_terminal:  # wrapped between words; long paths are not broken
            wrapper = textwrap.TextWrapper(
                self._console.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
            text = "\n".join(wrapper.fill(line) for line in text.split("\n"))
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Warnings(Quiet):
    """Prints warnings only, such as that a file is damaged."""

    def note(self, text: str) -> None:
        """Print a message if it is a warning."""
        if text.startswith("warning: "):
            super().note(text)


class OneLine(Quiet):
    """Prints one line when a run starts, and messages."""

    def start(self, run: RunStart) -> None:
        """Print what is going to be done."""
        steps = sum(work.steps for work in run.plan.works.values())
        self.note(f"{run.folder}: {steps:,} steps in {run.tasks} task(s)")


class Lines(Quiet):
    """Prints a line per task, and one per epoch unless epochs are short; for log files.

    Of epochs that end within `PAUSE` of the line before, nothing is printed; metrics.jsonl has all of them.
    """

    def start(self, run: RunStart) -> None:
        """Start measuring the speed."""
        self._run, self._speed, self._printed = run, Speed(run), time.monotonic()

    def step(self, event: StepDone, purity: float | None) -> None:
        """Count a step, and print it if nothing was printed for a while."""
        self._speed.add(event)
        if time.monotonic() - self._printed > SILENCE:
            loss = "" if event.loss is None else f"  loss {event.loss:.3f}"
            self._print(f"{position(event, self._run)}  {event.work}{loss}")

    def record(self, record: dict[str, Any]) -> None:
        """Print a line of metrics."""
        if record["event"] == "task":
            self.note(task_line(record))
        elif time.monotonic() - self._printed < PAUSE:
            return
        elif record["event"] == "epoch":
            self._print(epoch_line(record, self._run))
        elif record["event"] == "consolidation" and self._ends_cycle(record):
            self._print(consolidation_line(record, self._run))

    def _ends_cycle(self, record: dict[str, Any]) -> bool:
        return ends_cycle(record["epoch"], self._run.plan.works[record["work"]].epochs)

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        self.note(f"{line}  {self._speed.samples_per_second:5.0f} samples/s  {self._speed.left} left")


class Live(Quiet):
    """Shows a progress bar in a terminal."""

    def start(self, run: RunStart) -> None:
        """Start the display."""
        self._run, self._speed = run, Speed(run)
        self._progress = Progress(
            TextColumn("{task.description}\n{task.fields[now]}"),  # two lines fit 80 columns
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:>3.0f} %\n{task.fields[left]}"),
            console=self._console,
            refresh_per_second=8,
        )
        self._bar: TaskID = self._progress.add_task(
            "starting",
            total=sum(work.steps for work in run.plan.works.values()),
            completed=round(sum(run.done.values())),
            now="",
            left="",
        )
        self._progress.start()

    def step(self, event: StepDone, purity: float | None) -> None:
        """Advance the bar."""
        self._speed.add(event)
        pure = "" if purity is None else f"purity {purity:.0f} %  "
        loss = "" if event.loss is None else f"loss {event.loss:.2f}  "
        self._progress.update(
            self._bar,
            advance=event.planned,
            description=(
                f"{position(event, self._run)} [bold]{event.work:8s}[/] {event.step:3d}/{event.steps}"
            ),
            now=f"{loss}{pure}{self._speed.samples_per_second:.0f} samples/s",
            left=f"{self._speed.left} left",
        )

    def record(self, record: dict[str, Any]) -> None:
        """Print the accuracies after a task above the bar."""
        if record["event"] == "task":
            self.note(task_line(record))

    def end(self) -> None:
        """Close the display."""
        self._progress.stop()


def console_logger(quiet: bool) -> Logger:
    """Return the logger for standard output: live in a terminal, lines elsewhere."""
    if quiet:
        return Warnings(Console(stderr=True))
    console = Console()
    return Live(console) if console.is_terminal else Lines(console)


def progress_logger() -> Logger:
    """Return the logger for standard error, for runs from Python: live in a terminal, one line elsewhere."""
    console = Console(stderr=True)
    return Live(console) if console.is_terminal else OneLine(console)
