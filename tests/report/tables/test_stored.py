import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import finished, write_run

from remnant.errors import RemnantError
from remnant.report.tables.stored import by_epoch, condensed, load_runs, read_stored, store


def test_stored_runs_have_the_configs_and_results_of_the_runs(tmp_path: Path) -> None:
    runs = [finished("er", 0, 12.34567), finished("aer", 1, 50.0, insertion={"alpha": 0.75})]
    store(tmp_path / "results.json", runs)
    again = read_stored(tmp_path / "results.json")
    assert [run.config for run in again] == [run.config for run in runs]
    assert [(run.method, run.seed, run.result["faa"]) for run in again] == [
        ("er", 0, 12.346),
        ("aer", 1, 50.0),
    ]
    assert list(again[0].records()) == []


def test_settings_that_all_runs_share_are_stored_once_and_each_run_is_a_line(tmp_path: Path) -> None:
    store(tmp_path / "results.json", [finished("er", seed) for seed in range(3)])
    head, *lines, _ = (tmp_path / "results.json").read_text().splitlines()
    assert json.loads(head[: -len(', "runs": [')] + "}")["config"]["lr"] == 0.1
    assert len(lines) == 3
    assert "lr" not in lines[0]


def test_a_pipe_among_the_files_of_a_run_is_not_waited_for(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", finished())
    os.mkfifo(run / "pipe.json")
    assert len(load_runs([tmp_path])) == 1


def test_folders_of_files_are_not_stored(tmp_path: Path) -> None:
    run = finished("er", data="folder:/home/me/photos", noise={"name": "file", "path": "/home/me/labels.npy"})
    store(tmp_path / "results.json", [run])
    assert "/home" not in (tmp_path / "results.json").read_text()
    (again,) = read_stored(tmp_path / "results.json")
    assert (again.config["data"], again.config["noise"]["path"]) == ("folder:photos", "labels.npy")


def test_folders_of_the_same_name_are_told_apart_without_their_whole_path(tmp_path: Path) -> None:
    runs = [
        finished("er", data={"name": "folder", "path": f"/home/me/{place}/photos"}) for place in ("a", "b")
    ]
    store(tmp_path / "results.json", runs)
    assert "/home" not in (tmp_path / "results.json").read_text()
    again = read_stored(tmp_path / "results.json")
    assert [run.config["data"]["path"] for run in again] == ["a/photos", "b/photos"]


def test_means_over_epochs_replace_lists_with_an_entry_per_epoch() -> None:
    separation = [
        {"phase": p, "auroc": a}
        for p, a in (("learn", 0.5), ("forget", 0.75), ("learn", None), ("learn", 0.75))
    ]
    memorisation = [
        {"task": task, "memorised": value, "loss_noisy": loss}
        for task, value, loss in ((0, 10.0, 4.0), (0, 20.0, 2.0), (1, 40.0, 3.0))
    ]
    means = by_epoch({"separation": separation, "memorisation": memorisation})
    assert means == {"separation": {"learn": 0.625, "forget": 0.75}, "memorised": 30.0, "loss_noisy": 3.0}
    assert by_epoch({}) == {"separation": {}, "memorised": None, "loss_noisy": None}


def test_condensing_twice_changes_nothing() -> None:
    once = condensed(finished().result)
    assert condensed(once) == once


def test_runs_are_loaded_from_folders_and_files(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", finished("er"))
    store(tmp_path / "results" / "desk" / "b.json", [finished("aer")])
    assert [run.method for run in load_runs([tmp_path / "results", tmp_path / "runs"])] == ["aer", "er"]
    assert [run.method for run in load_runs([tmp_path / "results" / "desk" / "b.json"])] == ["aer"]


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"format": "remnant results 1"}'])
def test_another_file_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(RemnantError, match="expected results stored by"):
        read_stored(tmp_path / "x.json")


def test_a_changed_digit_in_stored_results_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    store(path, [finished("er", 0, 12.5)])
    path.write_text(path.read_text().replace("12.5", "92.5"))
    with pytest.raises(RemnantError, match="does not match its sha256"):
        read_stored(path)


def test_a_run_may_have_no_buffer() -> None:
    run = finished("finetune")
    assert condensed(replace(run, result={**run.result, "buffer": None}).result)["buffer"] is None
