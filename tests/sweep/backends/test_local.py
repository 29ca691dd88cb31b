"""Runs in worker processes; the tests with runs that are killed are slow."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_helpers import TINY_GRID

from remnant.errors import RemnantError
from remnant.sweep.backends.local import LocalWorkers
from remnant.sweep.backends.worker import Job, JobOutcome
from remnant.sweep.grid import expand

CONFIGS = expand(TINY_GRID | {"method": ["er", "aer-abs"], "seed": 0})


def jobs(out: Path) -> list[Job]:
    return [Job(config.digest(), config.table(), str(out)) for config in CONFIGS]


def wait(workers: LocalWorkers) -> JobOutcome:
    while not (outcomes := workers.poll(1.0)):
        pass
    return outcomes[0]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_log_that_is_no_file_is_an_error(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "workers.log")
    with pytest.raises(RemnantError, match=r"workers\.log: cannot be written"):
        LocalWorkers(1, tmp_path)


def test_a_worker_that_is_killed_is_reported_and_replaced(tmp_path: Path) -> None:
    workers = LocalWorkers(1, tmp_path / ".sweep")
    first, _ = jobs(tmp_path)
    try:
        workers.submit(first)
        assert workers.free() == 0
        os.kill(workers.pids()[0], signal.SIGKILL)
        lost = wait(workers)
        assert (lost.key, lost.state) == (first.key, "lost")
        assert "SIGKILL" in str(lost.error)
        assert workers.free() == 1
    finally:
        workers.close()


@pytest.mark.slow
def test_a_process_executes_one_job_after_another(tmp_path: Path) -> None:
    workers = LocalWorkers(1, tmp_path / ".sweep")
    try:
        pids = []
        for job in jobs(tmp_path):
            workers.submit(job)
            assert wait(workers).state == "finished"
            pids += workers.pids()
        assert len(set(pids)) == 1
    finally:
        workers.close()
