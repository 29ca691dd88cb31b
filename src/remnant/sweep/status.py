"""The state of the runs of a sweep, read from their folders."""

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from remnant.config import Config
from remnant.errors import RemnantError
from remnant.experiment.result import damage, is_finished, read_result
from remnant.settings import read_file

OPEN = ("waiting", "running", "elsewhere")


@dataclass
class Cell:
    """A run of a sweep, and what is known of it."""

    config: Config
    out: Path = Path("runs")
    state: str = "waiting"  # running, elsewhere (in another process), finished, failed, stopped
    folder: Path | None = None
    error: str | None = None
    attempts: int = 0
    started: float = 0.0  # when this process started it
    started_at: float = 0.0  # its progress then
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        self.key = self.config.digest()

    @property
    def is_open(self) -> bool:
        """Return whether the run is neither finished nor given up."""
        return self.state in OPEN

    @property
    def title(self) -> str:
        """Return the name of the run folder without its hash."""
        return self.config.run_name()


def folder_of(config: Config, out: Path) -> Path | None:
    """Return the folder of a run with this config, finished or not; the newest if the data have changed."""
    found = [folder for folder in _candidates(config, out) if _has_config(folder, config)]
    return max(found, key=lambda folder: (is_finished(folder), folder.stat().st_mtime), default=None)


def finished_folder(config: Config, out: Path) -> Path | None:
    """Return the folder of a finished and intact run with this config and these extension sources."""
    for folder in _candidates(config, out):
        try:
            is_same = is_finished(folder) and read_result(folder).get("config_digest") == config.digest()
        except RemnantError:  # damaged; it is repaired when it is run again
            continue
        if is_same and not damage(folder):
            return folder
    return None


def _candidates(config: Config, out: Path) -> list[Path]:
    start = config.run_name() + "-"
    try:
        names = sorted(name for name in os.listdir(out) if name.startswith(start))
    except FileNotFoundError:
        return []
    return [out / name for name in names if len(name) == len(start) + 8]


def _has_config(folder: Path, config: Config) -> bool:
    try:
        return read_file(folder / "config.toml") == config.toml().encode()
    except OSError:
        return False


def progress(folder: Path | None, config: Config) -> float:
    """Return the finished fraction of a run, by its epochs in metrics.jsonl."""
    try:
        text = b"" if folder is None else read_file(folder / "metrics.jsonl")
        events = [json.loads(line)["event"] for line in text.splitlines() if line.endswith(b"}")]
    except (OSError, ValueError, LookupError, TypeError):  # missing or damaged; it is written again
        return 0.0
    tasks = events.count("task")
    since = events[len(events) - events[::-1].index("task") :] if tasks else events
    of_buffer = getattr(config.consolidation, "epochs", 0)
    epochs = sum(event in ("epoch", "consolidation") for event in since)
    return min(1.0, (tasks + min(1.0, epochs / (config.epochs + of_buffer))) / _task_count(config))


def _task_count(config: Config) -> int:
    """Return the number of tasks of a run, which follows from a table if its rows determine the tasks."""
    if config.method == "joint":
        return 1
    if config.tasks == "column":
        return len(set(config.data.listing.task))
    return len(config.class_counts()) or int(str(config.tasks).removeprefix("arrival:"))


def seconds_left(cell: Cell, done: float, now: float | None = None) -> float | None:
    """Return the remaining time of a run at the speed since this process started it; None if unknown."""
    gained = done - cell.started_at
    if cell.state != "running" or gained <= 0:
        return None
    return ((time.monotonic() if now is None else now) - cell.started) * (1 - done) / gained
