from pathlib import Path

import pytest
from conftest import tiny_config
from own_files import table_of_images
from report_runs import measured
from run_folders import write_run
from run_helpers import RunIn, StopAt

from remnant.errors import Busy, Interrupted
from remnant.experiment.lock import locked
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.report.folders import remove_run, run_state


def test_a_finished_run_has_its_accuracy_and_size(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", measured("er", 3))
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "file").write_bytes(bytes(100_000))
    found = run_state(folder)
    assert (found.state, found.method, found.data, found.noise, found.seed, found.faa) == (
        "finished", "er", "digits", "symmetric:0.4", "3", "73.0",
    )  # fmt: skip
    assert 100_000 < found.size < 110_000


def test_interrupted_running_and_damaged_runs_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        execute(tiny_config(), Options(out=tmp_path), [StopAt(3)])
    (folder,) = tmp_path.iterdir()
    found = run_state(folder)
    assert (found.state, found.method, found.data, found.faa) == ("interrupted", "aer-abs", "digits", "-")
    with locked(folder):
        assert run_state(folder).state == "running"
        with pytest.raises(Busy):
            remove_run(folder)
    (folder / "result.json").write_text("{}")
    assert run_state(folder).state == "damaged"
    (folder / "config.toml").write_text("not toml")
    assert run_state(folder).method == "-"


def test_own_data_are_shown_by_their_name(tmp_path: Path) -> None:
    table = table_of_images(tmp_path, ["a", "b"] * 8)
    config = tiny_config(data=f"table:{table}", tasks=1, split=[], noise="none", method="er")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text(config.toml())
    assert run_state(tmp_path / "run").data == "table"


def test_only_what_a_run_wrote_is_removed(run_in: RunIn) -> None:
    folder = run_in(tiny_config(epochs=2, tasks=2))
    (folder / "report.html").write_text("drawn")
    (folder / "notes.txt").write_text("mine")
    assert remove_run(folder) == ["notes.txt"]
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    assert remove_run(folder) == []
    assert not folder.exists()
