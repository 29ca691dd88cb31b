"""What a worker does: it runs a job, and returns the outcome."""

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from remnant.config import Config, resolve
from remnant.errors import Busy, Interrupted, RemnantError
from remnant.experiment.loggers import Logger
from remnant.experiment.loggers.mlflow import MLflow
from remnant.experiment.loggers.tensorboard import TensorBoard
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.sweep.status import folder_of

ERROR_FILE = "error.txt"


@dataclass(frozen=True)
class Job:
    """A run to execute, as plain values."""

    key: str
    config: Mapping[str, Any]
    out: str
    data_dir: str | None = None
    save_every: float = 10.0
    strict: bool = False
    force: bool = False
    tensorboard: bool = False
    mlflow: bool = False


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended: finished, failed, busy (another process runs it), stopped, or lost with its worker."""

    key: str
    state: str
    folder: str | None = None
    error: str | None = None
    files: Mapping[str, bytes] | None = None  # of a run on another machine


def work(job: Job) -> JobOutcome:
    """Run or resume the run of a job; a failure is written to error.txt in its folder."""
    out = Path(job.out)
    folder: Path | None = None
    try:
        config = resolve(job.config)
        data_dir = None if job.data_dir is None else Path(job.data_dir)
        options = Options(out, data_dir, job.force, job.save_every, job.strict)
        loggers: list[Logger] = [TensorBoard()] if job.tensorboard else []
        loggers += [MLflow()] if job.mlflow else []
        folder = execute(config, options, loggers)
    except Busy as error:
        return JobOutcome(job.key, "busy", error=str(error))
    except Interrupted as stop:
        return JobOutcome(job.key, "stopped", error=str(stop))
    except Exception as error:  # of any method, network or dataset: the other runs continue
        text = str(error) if isinstance(error, RemnantError) else traceback.format_exc()
        _write_error(job, text)
        return JobOutcome(job.key, "failed", error=_first_line(error))
    clear_errors(folder, out, job.key)
    return JobOutcome(job.key, "finished", folder.name)


def clear_errors(folder: Path, out: Path, key: str) -> None:
    """Remove the errors of a run that is finished; one may have failed after its last file was written."""
    for path in (folder / ERROR_FILE, _own_error_path(out, key)):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    text = str(error) if isinstance(error, RemnantError) else f"{type(error).__name__}: {error}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__


def _own_error_path(out: Path, key: str) -> Path:
    return out / ".sweep" / "errors" / f"{key[:16]}.txt"


def _error_path(job: Job, config: Config) -> Path:
    """Return where an error is written: in the run folder, or in that of the sweep if there is none."""
    folder = folder_of(config, Path(job.out))
    return _own_error_path(Path(job.out), job.key) if folder is None else folder / ERROR_FILE


def _write_error(job: Job, text: str) -> None:
    with contextlib.suppress(OSError, RemnantError):  # the outcome has the error as well
        path = _error_path(job, resolve(job.config))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Run the jobs that standard input has as lines of JSON, and answer each with a line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep stops its workers; a run that is active saves
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what extensions print must not mix with the answers
    for line in sys.stdin:
        outcome = work(Job(**json.loads(line)))
        print(json.dumps(asdict(outcome)), file=answers, flush=True)
