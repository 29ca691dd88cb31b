"""Errors of submitting jobs; whole sweeps with submitit are in tests/sweep/test_whole_sweeps.py."""

from pathlib import Path

import pytest

from remnant.errors import RemnantError
from remnant.sweep.backends import Resources
from remnant.sweep.backends.slurm import SlurmWorkers, _outcome

submitit = pytest.importorskip("submitit")


def test_a_machine_without_slurm_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RemnantError, match="expected the command sbatch, found none"):
        SlurmWorkers(Resources("slurm"), tmp_path)


@pytest.mark.slow
def test_a_job_that_was_cancelled_before_it_started_is_lost(tmp_path: Path) -> None:
    job = submitit.LocalExecutor(tmp_path).submit(print)
    job.cancel(check=False)
    job.wait()
    outcome = _outcome("key", job)
    assert (outcome.key, outcome.state) == ("key", "lost")
