"""The progress of a sweep: a live table in a terminal, a line for each run that ends elsewhere."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from remnant.experiment.loggers.console import duration
from remnant.sweep.status import Cell, folder_of, progress, seconds_left

SHOWN = 15  # failed runs in the live table
STYLES = {"running": "cyan", "failed": "red", "elsewhere": "yellow", "finished": "green"}
EVERY = 1.0  # seconds between two readings of the run folders

Show = Callable[[Sequence[Cell]], None]


def counts_line(cells: Sequence[Cell], left: float | None = None) -> str:
    """Return how many runs are in which state.

    >>> from remnant.config import resolve
    >>> counts_line([Cell(resolve({}), state=state) for state in ("finished", "running", "running")], 90)
    '1 of 3 runs finished, 2 running, about 1:30 min left'
    """
    counts = Counter(cell.state for cell in cells)
    words = {"running": "running", "waiting": "waiting", "failed": "failed", "stopped": "stopped"}
    words["elsewhere"] = "in another process"
    parts = [f"{counts['finished']} of {len(cells)} runs finished"]
    parts += [f"{counts[state]} {word}" for state, word in words.items() if counts[state]]
    return ", ".join([*parts, *([] if left is None else [f"about {duration(left)} left"])])


def time_left(cells: Sequence[Cell], fractions: dict[str, float], now: float) -> float | None:
    """Return the remaining time of a sweep at the mean speed of its active runs; None if unknown."""
    active = [cell for cell in cells if cell.state == "running"]
    known = {c.key: left for c in active if (left := seconds_left(c, fractions[c.key], now)) is not None}
    if not known:
        return None
    whole = [
        known[c.key] / (1 - fractions[c.key])
        for c in active
        if fractions.get(c.key, 1) < 1 and c.key in known
    ]
    mean = sum(whole) / len(whole) if whole else 0.0
    waiting = sum(cell.state == "waiting" for cell in cells)
    rest = sum(known.values()) + (waiting + len(active) - len(known)) * mean
    return rest / len(active)


def live_table(cells: Sequence[Cell], fractions: dict[str, float], now: float) -> RenderableType:
    """Return the active and failed runs with progress and time left, and the number of all others."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    table.add_column("run", overflow="fold", ratio=1)
    for name in ("state", "done", "left"):
        table.add_column(name, justify="right", no_wrap=True)
    active = [cell for cell in cells if cell.state in ("running", "elsewhere")]
    for cell in [*active, *[cell for cell in cells if cell.state == "failed"][-SHOWN:]]:
        done = fractions.get(cell.key)
        left = seconds_left(cell, done or 0.0, now)
        text = cell.title if cell.state != "failed" else f"{cell.title}: {cell.error}"
        table.add_row(
            escape(text),
            f"[{STYLES[cell.state]}]{cell.state}[/]",
            "" if done is None else f"{100 * done:.0f} %",
            "" if left is None else duration(left),
        )
    table.add_section()
    table.add_row(counts_line(cells, time_left(cells, fractions, now)))
    return table


@contextlib.contextmanager
def shown(console: Console, quiet: bool = False) -> Iterator[Show]:
    """Yield a function that shows the states of all runs."""
    if quiet:
        yield lambda cells: None
    elif console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield _Readings(
                lambda cells, fractions: live.update(live_table(cells, fractions, time.monotonic()))
            )
    else:
        yield _EndedRuns(console)


class _Readings:
    """Reads the progress of the active runs from their folders, about once per second."""

    def __init__(self, draw: Callable[[Sequence[Cell], dict[str, float]], None]) -> None:
        self._draw, self._read = draw, 0.0

    def __call__(self, cells: Sequence[Cell]) -> None:
        if time.monotonic() - self._read < EVERY:
            return
        self._read, fractions = time.monotonic(), {}
        for cell in cells:
            if cell.state in ("running", "elsewhere"):
                cell.folder = cell.folder or folder_of(cell.config, cell.out)
                fractions[cell.key] = progress(cell.folder, cell.config)
        self._draw(cells, fractions)


class _EndedRuns:
    """Prints a line for each run that has ended."""

    def __init__(self, console: Console) -> None:
        self._console, self._ended = console, set[str]()

    def __call__(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            if not cell.is_open and cell.key not in self._ended:
                self._ended.add(cell.key)
                error = f": {cell.error}" if cell.state == "failed" else ""
                line = f"{len(self._ended):4d}/{len(cells)}  {cell.state:8s}  {cell.title}{error}"
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)
