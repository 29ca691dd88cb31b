"""Execution of the runs of a sweep: what is finished is skipped, what fails does not stop the others."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from remnant.config import Config
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import write_atomically
from remnant.experiment.lock import StopSignal
from remnant.sweep.backends import Resources, Workers, start_workers
from remnant.sweep.backends.worker import Job, JobOutcome, clear_errors
from remnant.sweep.claims import Claims
from remnant.sweep.display import Show
from remnant.sweep.status import Cell, finished_folder, folder_of, progress

ATTEMPTS = 3  # of a run whose worker dies
PAUSE = 0.5  # seconds between two looks at the workers
RECHECK = 3.0  # seconds between two looks at a run of another process


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep that do not affect its results."""

    out: Path = Path("runs")
    data_dir: Path | None = None
    save_every: float = 10.0
    strict: bool = False
    force: bool = False
    tensorboard: bool = False
    resources: Resources = Resources()
    mlflow: bool = False

    def job(self, cell: Cell) -> Job:
        """Return the job of a run; a second attempt resumes the first one."""
        out = self.out.absolute()
        data_dir = None if self.data_dir is None else str(self.data_dir.absolute())
        force = self.force and cell.attempts == 0
        return Job(
            cell.key, cell.config.table(), str(out), data_dir, self.save_every, self.strict, force,
            self.tensorboard,
            self.mlflow,
        )  # fmt: skip


def run_cells(configs: Sequence[Config], options: SweepOptions, show: Show) -> list[Cell]:
    """Run, resume or skip the runs of some configs, and return their final states.

    Runs that another process is working on are waited for. After SIGINT or SIGTERM the active runs are
    saved, and those that are not finished have the state `stopped`.
    """
    for config in configs:
        if objects := config.objects():
            raise RemnantError(
                f"expected settings that a config file can contain, got Python objects: {objects}"
            )
    sweep = Sweep([Cell(config, options.out) for config in configs], options)
    with StopSignal() as stop:
        try:
            while any(cell.is_open for cell in sweep.cells):
                if stop.received:
                    sweep.stop()
                sweep.start_jobs()
                for outcome in sweep.workers.poll(PAUSE):
                    sweep.receive(outcome)
                show(sweep.cells)
        finally:
            sweep.close()
    show(sweep.cells)
    return sweep.cells


class Sweep:
    """The cells of a sweep, the workers that run them, and the claims on them."""

    def __init__(self, cells: list[Cell], options: SweepOptions) -> None:
        self.cells, self.options = cells, options
        self.out = options.out
        self.claims = Claims(options.out)
        self.workers: Workers = start_workers(options.resources, options.out)
        self._by_key = {cell.key: cell for cell in cells}
        self._checked: dict[str, float] = {}  # when a run of another process was last looked at
        self._stopping = False

    def start_jobs(self) -> None:
        """Start as many runs as the workers can take; skip those that are finished."""
        for cell in self.cells:
            if self._stopping or not self.workers.free():
                return
            if cell.state == "waiting" or (cell.state == "elsewhere" and self._is_due(cell)):
                self._start(cell)

    def _is_due(self, cell: Cell) -> bool:
        return time.monotonic() - self._checked[cell.key] > RECHECK

    def _start(self, cell: Cell) -> None:
        if not self.claims.take(cell.key):
            self._set_elsewhere(cell)
            return
        must_run = self.options.force and cell.attempts == 0
        folder = None if must_run else finished_folder(cell.config, self.out)
        if folder is not None:
            clear_errors(folder, self.out, cell.key)
            self.claims.release(cell.key)
            cell.state, cell.folder = "finished", folder
            return
        self.workers.submit(self.options.job(cell))
        cell.state, cell.started, cell.attempts = "running", time.monotonic(), cell.attempts + 1
        cell.folder = folder_of(cell.config, self.out)
        cell.started_at = progress(cell.folder, cell.config)

    def _set_elsewhere(self, cell: Cell) -> None:
        cell.state = "elsewhere"
        self._checked[cell.key] = time.monotonic()

    def receive(self, outcome: JobOutcome) -> None:
        """Update the cell of a job that has ended."""
        cell = self._by_key[outcome.key]
        self.claims.release(cell.key)
        cell.error = outcome.error
        if outcome.state == "finished" and outcome.folder is not None:
            cell.folder = self.out / outcome.folder
            _collect(cell.folder, outcome)
            cell.state, cell.error = "finished", None
        elif self._stopping and outcome.state in ("stopped", "lost", "busy"):
            cell.state = "stopped"
        elif outcome.state == "busy":  # in a worker of a sweep that was killed, or in another command
            self._set_elsewhere(cell)
            cell.attempts -= 1
        elif outcome.state in ("lost", "stopped") and cell.attempts < ATTEMPTS:
            cell.state = "waiting"
        else:
            cell.state, cell.folder = "failed", folder_of(cell.config, self.out)

    def stop(self) -> None:
        """Start no more runs, and save the active ones."""
        if not self._stopping:
            self.workers.stop()
        self._stopping = True
        for cell in self.cells:
            if cell.state in ("waiting", "elsewhere"):
                cell.state = "stopped"

    def close(self) -> None:
        """End the workers, and give up all claims."""
        self.workers.close()
        self.claims.close()


def _collect(folder: Path, outcome: JobOutcome) -> None:
    """Write the files of a run on another machine; the results, which mark it as finished, are the last."""
    for name, content in (outcome.files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, content)
