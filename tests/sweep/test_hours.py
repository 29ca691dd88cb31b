from pathlib import Path

import pytest
from sweep_helpers import TINY_GRID, inline

from remnant.sweep import scheduler
from remnant.sweep.grid import expand
from remnant.sweep.hours import plan_sweep
from remnant.sweep.scheduler import SweepOptions, run_cells


def test_a_plan_counts_runs_and_measures_each_kind_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs, notes = expand(TINY_GRID | {"method": "finetune", "seed": "0-3"}), list[str]()
    monkeypatch.setattr(scheduler, "start_workers", inline())
    run_cells(configs[:1], SweepOptions(tmp_path), lambda cells: None)
    plan = plan_sweep(configs, tmp_path, None, notes.append)
    assert (plan.runs, plan.finished, plan.missing) == (4, 1, ())
    assert 0 < plan.seconds[0] <= plan.seconds[1]
    assert len(notes) == 1
    assert plan_sweep(configs, tmp_path, None, notes.append) == plan  # from the cache
    assert len(notes) == 1


def test_runs_without_their_data_are_named(tmp_path: Path) -> None:
    configs = expand({"recipe": "paper/cifar100", "method": "er", "seed": "0-1"})
    plan = plan_sweep(configs, tmp_path, tmp_path / "nowhere", lambda text: None)
    assert (plan.runs, plan.finished, plan.seconds) == (2, 0, (0, 0))
    (missing,) = plan.missing
    assert "remnant data get cifar100" in missing
