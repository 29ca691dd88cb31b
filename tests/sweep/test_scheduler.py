from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_helpers import TINY_GRID, inline

from remnant.config import Config
from remnant.experiment.lock import locked
from remnant.sweep import scheduler
from remnant.sweep.claims import Claims
from remnant.sweep.grid import expand
from remnant.sweep.scheduler import SweepOptions, run_cells
from remnant.sweep.status import Cell

Sweep = Callable[..., list[Cell]]
CONFIGS = expand(TINY_GRID | {"method": ["finetune", "er"], "seed": 0})


def nothing(cells: object) -> None:
    return


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.setattr(scheduler, "RECHECK", 0.0)

    def run(configs: list[Config], *outcomes: str, **options: object) -> list[Cell]:
        monkeypatch.setattr(scheduler, "start_workers", inline(*outcomes))
        return run_cells(configs, SweepOptions(tmp_path, **options), nothing)  # type: ignore[arg-type]

    return run


def states(cells: list[Cell]) -> list[str]:
    return [cell.state for cell in cells]


def test_finished_runs_are_skipped_and_repeated_with_force(sweep: Sweep) -> None:
    first = sweep(CONFIGS)
    assert states(first) == ["finished", "finished"]
    assert [cell.attempts for cell in sweep(CONFIGS)] == [0, 0]
    assert [cell.attempts for cell in sweep(CONFIGS, force=True)] == [1, 1]


def test_a_run_that_fails_does_not_stop_the_others_and_its_error_is_in_its_folder(sweep: Sweep) -> None:
    bad = expand(TINY_GRID | {"method": "er", "lr": 1e30, "seed": 0})
    failed, good = sweep([*bad, CONFIGS[0]])
    assert (failed.state, good.state) == ("failed", "finished")
    assert failed.error is not None
    assert "smaller learning rate" in failed.error
    assert failed.folder is not None
    assert "smaller learning rate" in (failed.folder / "error.txt").read_text()


def test_the_error_of_a_run_that_failed_after_its_last_file_is_removed(sweep: Sweep) -> None:
    (cell,) = sweep(CONFIGS[:1])
    assert cell.folder is not None
    (cell.folder / "error.txt").write_text("Input/output error")
    sweep(CONFIGS[:1])
    assert not (cell.folder / "error.txt").exists()


def test_an_error_before_there_is_a_run_folder_is_in_that_of_the_sweep(sweep: Sweep, tmp_path: Path) -> None:
    (failed,) = sweep(
        expand(TINY_GRID | {"data": "cifar10", "net": "resnet18:4"}), data_dir=tmp_path / "nowhere"
    )
    assert failed.state == "failed"
    (file,) = (tmp_path / ".sweep" / "errors").iterdir()
    assert "remnant data get cifar10" in file.read_text()


def test_a_run_whose_worker_dies_is_tried_again_three_times_at_most(sweep: Sweep) -> None:
    (cell,) = sweep(CONFIGS[:1], "lost", "lost")
    assert (cell.state, cell.attempts) == ("finished", 3)
    (cell,) = sweep(CONFIGS[1:], "lost", "lost", "lost")
    assert (cell.state, cell.attempts, cell.error) == ("failed", 3, "as the test wants it")


def test_a_run_that_another_sweep_has_claimed_is_waited_for(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, seen = Claims(tmp_path), []
    other.take(CONFIGS[0].digest())

    def show(cells: list[Cell]) -> None:
        seen.append(states(cells))
        if seen[-1] == ["elsewhere", "finished"] and len(seen) < 5:
            other.close()

    monkeypatch.setattr(scheduler, "start_workers", inline())
    cells = run_cells(CONFIGS, SweepOptions(tmp_path), show)  # type: ignore[arg-type]
    assert states(cells) == ["finished", "finished"]
    assert seen[0][0] == "elsewhere"


def test_a_run_folder_that_is_locked_by_another_command_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIGS[0]
    monkeypatch.setattr(scheduler, "RECHECK", 0.0)
    monkeypatch.setattr(scheduler, "start_workers", inline())
    (cell,) = run_cells([config], SweepOptions(tmp_path / "first"), nothing)
    assert cell.folder is not None
    lock = locked(tmp_path / "second" / cell.folder.name)
    lock.__enter__()
    seen: list[list[str]] = []

    def show(cells: object) -> None:
        seen.append(states(cells))  # type: ignore[arg-type]
        if len(seen) == 2:
            lock.__exit__(None, None, None)

    (cell,) = run_cells([config], SweepOptions(tmp_path / "second"), show)
    assert cell.state == "finished"
    assert ["elsewhere"] in seen
