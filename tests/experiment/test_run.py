import contextlib
import resource
import signal
import threading
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, tiny_config, tiny_data
from filelock import FileLock
from run_helpers import RunIn, StopAt, assert_identical, in_child, kill_self, result, without_cost
from safetensors.torch import load_file

import remnant
from remnant.config import recipe, resolve
from remnant.errors import Interrupted, RemnantError
from remnant.experiment import checkpoint
from remnant.experiment.loggers import Logger
from remnant.experiment.loggers.console import Quiet
from remnant.experiment.result import check_run
from remnant.experiment.run import by_other_code, execute
from remnant.experiment.runner import Options


class Notes(Logger):
    """Collects messages."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_writes_the_documented_files(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    names = {path.name for path in folder.iterdir()}
    assert {"config.toml", "metrics.jsonl", "result.json", "buffer.safetensors", "checkpoint"} <= names
    assert not any(name.endswith(".part") for name in names)


@pytest.mark.parametrize("method", ["aer-abs", "der++-aer-abs", "er", "joint"])
def test_two_runs_of_one_config_give_the_same_bytes(run_in: RunIn, method: str) -> None:
    config = tiny_config(method=method)
    assert_identical(run_in(config, "a"), run_in(config, "b"))


def test_another_seed_gives_another_result(run_in: RunIn) -> None:
    a, b = run_in(tiny_config(seed=0)), run_in(tiny_config(seed=1))
    assert without_cost(a)["accuracy"] != without_cost(b)["accuracy"]


def test_the_written_config_repeats_the_run(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    again = run_in(resolve(recipe.read(str(folder / "config.toml"))), "again")
    assert again.name == folder.name
    assert_identical(folder, again)


def test_a_finished_run_is_not_repeated(run_in: RunIn, tmp_path: Path) -> None:
    folder = run_in(tiny_config(), "runs")
    before = (folder / "result.json").stat().st_mtime_ns
    logger = Notes()
    assert execute(tiny_config(), Options(out=tmp_path / "runs"), [logger]) == folder
    assert (folder / "result.json").stat().st_mtime_ns == before
    (note,) = logger.notes
    assert note.startswith("this run is already finished")
    assert note.endswith("--force (force=True) repeats it")


def test_a_damaged_checkpoint_of_a_finished_run_is_reported(run_in: RunIn, tmp_path: Path) -> None:
    folder = run_in(tiny_config(), "runs")
    newest = checkpoint.generations(folder / "checkpoint")[0]
    newest.write_bytes(newest.read_bytes()[:-1])
    logger = Notes()
    execute(tiny_config(), Options(out=tmp_path / "runs"), [logger])
    (note,) = logger.notes
    assert f"{newest} is damaged: " in note
    assert note.endswith("the run is finished, delete this file")


def test_a_run_that_was_finished_by_other_code_is_reported(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_in(tiny_config(method="finetune"))
    then = result(folder)["git"]
    monkeypatch.setattr("remnant.experiment.run.git_commit", lambda: then)
    assert by_other_code(folder) == (
        "" if "dirty" not in str(then) else f" with the code of commit {then} (now {then})"
    )
    monkeypatch.setattr("remnant.experiment.run.git_commit", lambda: "abc")
    assert by_other_code(folder) == f" with the code of commit {then} (now abc)"


def test_a_run_folder_under_another_parent_is_not_resumed_in_silence(run_in: RunIn, tmp_path: Path) -> None:
    folder = run_in(tiny_config(method="finetune", epochs=1), "my runs")
    logger = Notes()
    again = remnant.run(folder, out=tmp_path / "runs", loggers=[logger])
    assert again == tmp_path / "runs" / folder.name
    assert logger.notes == [
        f"{folder} is not resumed: the run folder is {again}; --out '{folder.parent}' resumes it"
    ]
    logger.notes.clear()
    assert remnant.run(folder, out=folder.parent, loggers=[logger]) == folder
    assert not any("is not resumed" in note for note in logger.notes)


@pytest.mark.parametrize("content", ["", "seed = 1\n"])
def test_the_changed_config_of_a_finished_run_starts_no_other_run(run_in: RunIn, content: str) -> None:
    config = tiny_config(method="finetune", epochs=1)
    folder = run_in(config)
    (folder / "config.toml").write_text(content)
    with pytest.raises(RemnantError, match=r"config\.toml: expected the config of this run, .* Repeat"):
        remnant.run(folder, out=folder.parent)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    execute(config, Options(out=folder.parent), [])
    assert not any(check_run(folder).values())
    assert remnant.run(folder, out=folder.parent) == folder


def test_the_changed_config_of_an_interrupted_run_starts_no_other_run(tmp_path: Path) -> None:
    config = tiny_config(method="finetune", epochs=1)
    with pytest.raises(Interrupted):
        execute(config, Options(out=tmp_path), [StopAt(3)])
    (folder,) = tmp_path.iterdir()
    original = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(original.replace("epochs = 1", "epochs = 2"))
    with pytest.raises(RemnantError, match=r"it has changed since the last checkpoint\)\. Repeat"):
        remnant.run(folder, out=tmp_path, loggers=[])
    assert list(tmp_path.iterdir()) == [folder]
    (folder / "config.toml").write_text(original)
    assert remnant.run(folder, out=tmp_path, loggers=[]) == folder
    assert not any(check_run(folder).values())


def test_force_restarts_from_the_beginning(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    (folder / "metrics.jsonl").write_text("something else\n")
    (folder / "tensorboard").mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "checkpoint" / "weights.safetensors").write_text("mine")
    before = (folder / "result.json").stat().st_mtime_ns
    run_in(tiny_config(), force=True)
    assert (folder / "result.json").stat().st_mtime_ns != before
    assert "something else" not in (folder / "metrics.jsonl").read_text()
    assert not (folder / "tensorboard").exists()
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "checkpoint" / "weights.safetensors").read_text() == "mine"


def test_two_processes_cannot_work_on_one_run(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    with (
        FileLock(folder / ".lock"),
        pytest.raises(RemnantError, match="another process is working on this run"),
    ):
        run_in(tiny_config(), force=True)
    assert (folder / "result.json").exists()


def test_the_result_of_a_finished_run_can_be_read_while_its_folder_is_locked(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    with FileLock(folder / ".lock"):
        assert run_in(tiny_config()) == folder


def test_a_folder_that_cannot_be_written_is_an_error(quiet: Quiet, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RemnantError, match="--out"):
        execute(tiny_config(), Options(out=tmp_path / "file"), [quiet])


def test_a_run_whose_folder_is_half_cleared_does_not_count_as_finished(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    (folder / "config.toml").unlink()
    (folder / "config.toml").mkdir()
    with pytest.raises(RemnantError, match=r"config\.toml: cannot be removed \(Is a directory\)"):
        run_in(tiny_config(), force=True)
    assert not (folder / "result.json").exists()
    assert (folder / "metrics.jsonl").exists()


def test_a_run_works_in_a_thread(run_in: RunIn) -> None:
    folders: list[Path] = []
    thread = threading.Thread(target=lambda: folders.append(run_in(tiny_config(method="finetune"))))
    thread.start()
    thread.join()
    assert result(folders[0])["finished"]


def test_the_number_of_threads_is_restored(run_in: RunIn) -> None:
    before = torch.get_num_threads()
    run_in(tiny_config(threads=2, method="finetune", epochs=1))
    assert torch.get_num_threads() == before


# --- run, from Python --------------------------------------------------------------------------------

SHORT: dict[str, Any] = {"method": "finetune", "per_class": 12, "net": "small:4", "epochs": 1}


def test_run_starts_from_a_recipe_a_file_a_table_or_a_config(tmp_path: Path) -> None:
    folder = remnant.run(out=tmp_path, **SHORT)
    assert folder.name.startswith("digits-finetune-symmetric-0.4-s0-")
    again: list[Any] = [
        str(folder),
        folder,
        folder / "config.toml",
        resolve(tomllib.loads((folder / "config.toml").read_text())),
    ]
    again += [recipe.read("digits") | SHORT]
    for start in again:
        assert remnant.run(start, out=tmp_path) == folder
    assert remnant.run("digits", out=str(tmp_path), **SHORT) == folder


def test_run_changes_settings_by_name(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"net.width": 8, "noise": "symmetric:0.2"}
    config = resolve(TINY | SHORT)
    for start in (config, config.table()):
        folder = remnant.run(start, out=tmp_path, **changes)
        table = tomllib.loads((folder / "config.toml").read_text())
        assert table["net"] == {"name": "small", "width": 8}
        assert table["noise"] == {"name": "symmetric", "rate": 0.2}
        assert table["epochs"] == 1
    other = remnant.run(
        resolve(TINY | {"method": "aer-abs", "epochs": 1, "schedule": "always"}), out=tmp_path, method="er"
    )
    assert result(other)["method"] == "er"


def test_run_names_the_run_after_the_dataset_unless_there_is_a_recipe(tmp_path: Path) -> None:
    data = tiny_data()
    changes: dict[str, Any] = SHORT | {"data": data, "tasks": 3, "per_class": 0}
    assert remnant.run(out=tmp_path, **changes).name.startswith("tiny-finetune-")
    assert remnant.run("digits", out=tmp_path, **changes).name.startswith("digits-finetune-")
    assert remnant.run(out=tmp_path, name="mine", **changes).name.startswith("mine-finetune-")


def test_run_prints_messages_to_stderr_or_passes_them_to_loggers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = remnant.run(out=tmp_path, **SHORT)
    assert capsys.readouterr() == ("", f"{folder}: 5 steps in 5 task(s)\n")
    remnant.run(out=tmp_path, loggers=[], **SHORT)
    assert capsys.readouterr() == ("", "")
    remnant.run(out=tmp_path, **SHORT)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("this run is already finished")
    logger = StopAt(0)
    remnant.run(out=tmp_path, loggers=[logger], **SHORT)
    assert logger.notes[0].startswith("this run is already finished")
    remnant.run(out=tmp_path, loggers=[logger], force=True, **SHORT)
    assert len(logger.notes) == 1


def test_run_reports_mistakes_in_all_settings_at_once(tmp_path: Path) -> None:
    with pytest.raises(RemnantError) as caught:
        remnant.run(out=tmp_path, epoch=3, lr=-1.0)
    assert "unknown key 'epoch'; did you mean 'epochs'?" in str(caught.value)
    assert "lr: " in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("loggers", [[print], [Notes], print, Notes(), [Notes(), 3]])
def test_loggers_that_are_no_loggers_are_an_error(tmp_path: Path, loggers: Any) -> None:  # noqa: ANN401
    with pytest.raises(RemnantError, match=r"loggers: expected .*, got .*(print|Notes|3)"):
        remnant.run(out=tmp_path, loggers=loggers, **SHORT)


@pytest.mark.parametrize("out", ["a" * 300, "file/x", "/proc/x", "loop/x", "null\0"])
def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(RemnantError, match=r"the run folder cannot be used .*--out \(out="):
        remnant.run(out=tmp_path / out, **SHORT)


def test_settings_that_are_not_utf_8_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "caf\udce9.npy"
    np.save(path, np.zeros(1437, dtype=int))
    with pytest.raises(RemnantError, match=r"expected settings that can be written in UTF-8, .*caf.udce9"):
        remnant.run(out=tmp_path / "runs", noise=f"file:{path}", **SHORT)
    assert not (tmp_path / "runs").exists()


def test_a_run_folder_that_is_not_utf_8_works(tmp_path: Path) -> None:
    folder = remnant.run(out=tmp_path / "caf\udce9", **SHORT)
    assert result(folder)["finished"]
    assert not any(check_run(folder).values())


def test_an_interrupted_run_is_not_swallowed_by_a_loop_over_runs(tmp_path: Path) -> None:
    started = []

    def run_all() -> None:
        for seed in range(3):
            started.append(seed)
            with contextlib.suppress(Exception):
                remnant.run(out=tmp_path, seed=seed, loggers=[StopAt(2)], **SHORT)

    with pytest.raises(KeyboardInterrupt, match="stopped after step"):
        run_all()
    assert started == [0]


def test_too_little_memory_is_an_error(tmp_path: Path) -> None:
    def work() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 10**8, used + 10**8))
        with pytest.raises(RemnantError, match="expected enough free memory, but it ran out"):
            remnant.run(out=tmp_path, **SHORT | {"net": "small:2048"})
        kill_self()

    assert in_child(work) == signal.SIGKILL
    assert not list(tmp_path.rglob("*.part"))


# --- datasets whose true labels are unknown ----------------------------------------------------------

SETTINGS = {"tasks": 3, "epochs": 2, "buffer_size": 8, "batch": 8, "net": "small:4"}
NOISY = tiny_data().y[::-1].copy()


def test_training_does_not_depend_on_the_true_labels_and_their_metrics_are_null(tmp_path: Path) -> None:
    unknown, known = (replace(tiny_data(), y=NOISY, truth=truth) for truth in (None, tiny_data().truth))
    folders = [remnant.run(data=data, out=tmp_path, **SETTINGS) for data in (unknown, known)]
    without, with_truth = (result(folder) for folder in folders)
    for key in ("accuracy", "fwt", "noise"):
        assert without[key] == with_truth[key]
    a, b = (load_file(folder / "buffer.safetensors") for folder in folders)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert b.keys() - a.keys() == {"truth"}  # for reports
    measured = with_truth["buffer"]
    needs_truth = {k for k in measured if k == "noisy" or k.startswith("purity")}
    assert {k for k, v in without["buffer"].items() if v is None} == needs_truth
    assert measured["class_counts"] == without["buffer"]["class_counts"]
    assert measured["purity"] is not None
    assert with_truth["noise_rate"] == 100 * (tiny_data().y != NOISY).mean()
    assert without["noise_rate"] is None
    assert without["memorisation"] == []
    assert {e[name] for e in without["separation"] for name in ("auroc", "loss_clean", "loss_noisy")} == {
        None
    }


def test_divisions_of_unknown_labels_are_not_compared_with_anything(tmp_path: Path) -> None:
    data, mixmatch = replace(tiny_data(), y=NOISY, truth=None), {"name": "mixmatch", "epochs": 2}
    found = result(remnant.run(data=data, out=tmp_path, consolidation=mixmatch, **SETTINGS))["consolidation"]
    assert found["divisions"] == 6
    assert found["precision"] is found["noisy_f1"] is found["label_correction"] is None


def test_noise_is_not_added_to_labels_that_are_not_known_to_be_clean(tmp_path: Path) -> None:
    for truth, words in ((None, "of tiny are unknown"), (NOISY, "of tiny differ from its labels")):
        data = replace(tiny_data(), truth=truth)
        with pytest.raises(RemnantError, match=rf"{words}.*noise=none.*truth=y"):
            remnant.run(data=data, noise="symmetric:0.4", out=tmp_path, **SETTINGS)
    assert not list(tmp_path.iterdir())


def test_co_teaching_needs_a_forget_rate_if_the_noise_rate_is_unknown(tmp_path: Path) -> None:
    data, settings = replace(tiny_data(), truth=None), SETTINGS | {"consolidation.epochs": 2}
    with pytest.raises(RemnantError, match=r"consolidation\.forget_rate: .*of tiny is unknown.*=0\.2"):
        remnant.run(data=data, method="er+coteaching", out=tmp_path, **settings)
    assert not list(tmp_path.iterdir())
    settings["consolidation.forget_rate"] = 0.25
    found = result(remnant.run(data=data, method="er+coteaching", out=tmp_path, **settings))
    assert found["method"] == "er+coteaching"


def test_a_run_without_a_recipe_prints_its_defaults(tmp_path: Path) -> None:
    logger = Notes()
    remnant.run(data=tiny_data(), out=tmp_path, loggers=[logger], **SETTINGS)
    assert logger.notes[0] == "no recipe, defaults are used: noise=none method=aer-abs lr=0.1"
