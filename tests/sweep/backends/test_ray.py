"""The work of a task on another machine; whole sweeps on Ray are in tests/sweep/test_whole_sweeps.py."""

import json
from pathlib import Path

import pytest
from sweep_helpers import TINY_GRID

from remnant.errors import RemnantError
from remnant.sweep.backends import Resources
from remnant.sweep.backends.ray import RayWorkers, _work
from remnant.sweep.backends.worker import Job
from remnant.sweep.grid import expand

(CONFIG,) = expand(TINY_GRID | {"method": "er", "seed": 0})


def test_the_files_of_a_run_are_sent_back_from_a_machine_that_does_not_share_the_folder(
    tmp_path: Path,
) -> None:
    job = Job(CONFIG.digest(), CONFIG.table(), str(tmp_path / "runs"))
    outcome = _work(job, str(tmp_path), str(tmp_path / "no such mark"))
    assert outcome.files is not None
    assert list(outcome.files)[-1] == "result.json"  # it marks a run as finished
    assert {"config.toml", "metrics.jsonl", "buffer.safetensors"} <= outcome.files.keys()
    assert ".lock" not in outcome.files
    assert json.loads(outcome.files["result.json"])["finished"]
    (tmp_path / "mark").touch()
    assert _work(job, str(tmp_path), str(tmp_path / "mark")).files is None


def test_a_cluster_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(RemnantError, match="expected a Ray cluster at not-an-address"):
        RayWorkers(Resources("ray", address="not-an-address"), tmp_path)
