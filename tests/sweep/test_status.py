import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tiny_config
from own_files import table_of_images

from remnant.sweep.status import Cell, finished_folder, folder_of, progress, seconds_left


def test_a_finished_run_is_found_by_its_config(run_in: Callable[..., Path], tmp_path: Path) -> None:
    config = tiny_config(method="finetune", epochs=1, split=[5, 5])
    assert finished_folder(config, tmp_path / "runs") is None
    folder = run_in(config)
    assert finished_folder(config, tmp_path / "runs") == folder
    assert folder_of(config, tmp_path / "runs") == folder
    assert finished_folder(tiny_config(method="finetune", epochs=2, split=[5, 5]), tmp_path / "runs") is None
    (folder / "metrics.jsonl").write_text("damaged")
    assert finished_folder(config, tmp_path / "runs") is None  # it has to be repaired
    assert folder_of(config, tmp_path / "runs") == folder


@pytest.mark.parametrize(
    ("events", "done"),
    [
        ([], 0.0),
        (["epoch"], 0.5 / 5),
        (["epoch", "epoch"], 1 / 5),
        (["epoch", "epoch", "task", "epoch"], 1.5 / 5),
        (["epoch", "epoch", "task"] * 5, 1.0),
    ],
)
def test_progress_is_the_fraction_of_finished_epochs(events: list[str], done: float, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"event": event}) + "\n" for event in events)
    (tmp_path / "metrics.jsonl").write_text(lines + '{"event": "ep')  # a line that is being written
    assert progress(tmp_path, tiny_config(epochs=2)) == pytest.approx(done)


def test_the_progress_of_a_run_without_a_folder_is_zero(tmp_path: Path) -> None:
    assert progress(None, tiny_config()) == progress(tmp_path / "nothing", tiny_config()) == 0.0


def test_the_progress_of_a_run_with_damaged_metrics_is_zero(tmp_path: Path) -> None:
    for text in ('{"event": }', '{"task": 0}', "[1]}", '{"event": "epoch"}\n\x00}'):
        (tmp_path / "metrics.jsonl").write_text(text)
        assert progress(tmp_path, tiny_config()) == 0.0


@pytest.mark.parametrize("tasks", ["column", "arrival:2"])
def test_the_tasks_of_a_table_count_as_those_of_classes(tasks: str, tmp_path: Path) -> None:
    table = table_of_images(tmp_path, ["a", "b"] * 8, task=[1] * 8 + [2] * 8)
    config = tiny_config(data=f"table:{table}", split=[], tasks=tasks, epochs=2)
    assert progress(None, config) == 0.0
    (tmp_path / "metrics.jsonl").write_text('{"event": "epoch"}\n' * 2)
    assert progress(tmp_path, config) == pytest.approx(1 / 2)


def test_the_time_left_follows_from_the_progress_of_this_process() -> None:
    # A run that was resumed at 50 % has done 25 points in 100 seconds: the last 25 take as long.
    cell = Cell(tiny_config(), state="running", started=1000.0, started_at=0.5)
    assert seconds_left(cell, 0.75, now=1100.0) == pytest.approx(100.0)
    assert seconds_left(cell, 0.5, now=1100.0) is None
    assert seconds_left(Cell(tiny_config()), 0.75, now=1100.0) is None
