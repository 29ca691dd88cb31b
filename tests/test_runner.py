import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from filelock import FileLock
from rich.console import Console
from safetensors.torch import load_file

from remnant import checkpoint
from remnant.config import resolve
from remnant.data.source import Arrays, Dataset
from remnant.errors import Interrupted, RemnantError
from remnant.progress import Quiet, Speed
from remnant.protocol import StepDone
from remnant.runner import Options, run

RunIn = Callable[..., Path]
COST = ("seconds", "seconds_per_phase", "images_per_second", "peak_rss_mb")


def result(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return loaded


def without_cost(folder: Path) -> dict[str, Any]:
    return {key: value for key, value in result(folder).items() if key not in COST}


def final_state(folder: Path) -> dict[str, Any]:
    state = checkpoint.unpack(checkpoint.generations(folder / "checkpoint")[0].read_bytes())
    return state["learner"]  # type: ignore[no-any-return]


def flat(value: Any, path: str = "") -> dict[str, Any]:  # noqa: ANN401
    if not isinstance(value, dict):
        return {path: value.tolist() if isinstance(value, torch.Tensor) else value}
    return {k: v for key, part in value.items() for k, v in flat(part, f"{path}/{key}").items()}


def assert_identical(a: Path, b: Path) -> None:
    assert without_cost(a) == without_cost(b)
    for name in ("metrics.jsonl", "config.toml", "memory.safetensors"):
        if (a / name).exists() or (b / name).exists():
            assert (a / name).read_bytes() == (b / name).read_bytes(), name
    mine, other = flat(final_state(a)), flat(final_state(b))
    assert mine.keys() == other.keys()
    for key, value in mine.items():
        assert repr(value) == repr(other[key]), key


class StopAt(Quiet):
    """Asks the run to stop after so many steps, as Ctrl-C does."""

    def __init__(self, steps: int) -> None:
        super().__init__(Console(stderr=True))
        self.left = steps
        self.notes: list[str] = []

    def step(self, event: StepDone, purity: float | None) -> None:
        self.left -= 1
        if self.left == 0:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_leaves_the_files_it_promises(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    names = {path.name for path in folder.iterdir()}
    assert {"config.toml", "metrics.jsonl", "result.json", "memory.safetensors", "checkpoint"} <= names
    assert not any(name.endswith(".part") for name in names)


def test_result_json_keeps_its_contract(run_in: RunIn) -> None:
    found = result(run_in(tiny_config()))
    assert found["method"] == "aer-abs"
    assert found["noise"] == "symmetric:0.4"
    assert found["finished"] is True
    assert [len(row) for row in found["accuracy"]] == [5] * 5
    for t, row in enumerate(found["accuracy"]):
        assert all(0 <= value <= 100 for value in row[: t + 1])
        assert row[t + 1 :] == [None] * (4 - t)
    assert found["faa"] == pytest.approx(sum(found["accuracy"][-1]) / 5)
    assert {"size", "purity", "balance", "duplicates"} <= found["memory"].keys()
    assert found["memory"]["size"] == 20
    assert len(found["separation"]) == 5 * 4
    assert found["separation"][0] == {"task": 0, "epoch": 0, "phase": "forget", "auroc": None}
    assert found["versions"]["torch"] == torch.__version__
    for key in ("ff", "aia", "bwt", *COST, "git"):
        assert key in found


def test_metrics_have_a_line_for_each_epoch_and_each_task(run_in: RunIn) -> None:
    lines = (run_in(tiny_config()) / "metrics.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert events == (["epoch"] * 4 + ["task"]) * 5


def test_the_memory_file_holds_what_result_json_says(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    memory = load_file(folder / "memory.safetensors")
    assert memory["x"].dtype == torch.uint8
    assert len(memory["y"]) == result(folder)["memory"]["size"]
    from remnant.data import load

    truth = torch.from_numpy(load("digits", None).y)[memory["index"]]
    assert 100 * (truth == memory["y"]).double().mean() == pytest.approx(
        result(folder)["memory"]["purity"]
    )


@pytest.mark.parametrize("method", ["aer-abs", "der++-aer-abs", "er", "joint"])
def test_two_runs_of_one_config_give_the_same_bytes(run_in: RunIn, method: str) -> None:
    config = tiny_config(method=method)
    assert_identical(run_in(config, "a"), run_in(config, "b"))


def test_another_seed_gives_another_result(run_in: RunIn) -> None:
    a, b = run_in(tiny_config(seed=0)), run_in(tiny_config(seed=1))
    assert without_cost(a)["accuracy"] != without_cost(b)["accuracy"]


def test_the_written_config_repeats_the_run(run_in: RunIn, tmp_path: Path) -> None:
    from remnant import recipe

    folder = run_in(tiny_config())
    again = run_in(resolve(recipe.read(str(folder / "config.toml"))), "again")
    assert again.name == folder.name
    assert_identical(folder, again)


@pytest.mark.parametrize("method", ["aer-abs", "der++-aer-abs", "er-ace+alpha"])
@pytest.mark.parametrize("steps", [1, 3, 17, 40])
def test_a_stopped_run_goes_on_to_the_same_end(
    run_in: RunIn, tmp_path: Path, method: str, steps: int
) -> None:
    config = tiny_config(method=method)
    whole = run_in(config, "whole")
    screen = StopAt(steps)
    with pytest.raises(Interrupted, match="The same command goes on from there"):
        run(config, Options(out=tmp_path / "cut"), screen)
    going_on = StopAt(0)
    folder = run(config, Options(out=tmp_path / "cut"), going_on)
    assert f"going on after step {steps}" in going_on.notes[0]
    assert_identical(whole, folder)


class Clocked(StopAt):
    """Every step takes a second, and the time left is noted."""

    def begin(self, ahead: Any) -> None:  # noqa: ANN401
        self.now, self.said = 0.0, list[str]()
        self.speed = Speed(ahead, lambda: self.now)

    def step(self, event: StepDone, purity: float | None) -> None:
        self.now += 1
        self.speed.add(event)
        self.said.append(self.speed.left)
        super().step(event, purity)


@pytest.mark.parametrize("steps", [5, 17, 20, 30])
def test_a_run_that_goes_on_knows_how_much_is_left(tmp_path: Path, steps: int) -> None:
    fit = {"name": "buffer-fit", "epochs": 3, "batch": 16}
    config = tiny_config(method="aer-abs", tasks=2, epochs=2, consolidation=fit)
    whole, first, second = Clocked(0), Clocked(steps), Clocked(0)
    folder = run(config, Options(out=tmp_path / "whole"), whole)
    assert whole.said == [f"{left} s" for left in reversed(range(len(whole.said)))]
    with pytest.raises(Interrupted):
        run(config, Options(out=tmp_path / "cut"), first)
    cut = run(config, Options(out=tmp_path / "cut"), second)
    assert first.said + second.said == whole.said
    ends = [checkpoint.generations(path / "checkpoint")[0].read_bytes() for path in (folder, cut)]
    planned, again = (checkpoint.unpack(end)["history"]["planned"] for end in ends)
    assert again == pytest.approx(planned)
    assert sum(planned.values()) == pytest.approx(len(whole.said))


def test_a_run_stopped_again_and_again_ends_the_same(run_in: RunIn, tmp_path: Path) -> None:
    config = tiny_config(momentum=0.9)
    whole = run_in(config, "whole")
    for _ in range(100):
        try:
            folder = run(config, Options(out=tmp_path / "cut"), StopAt(7))
            break
        except Interrupted:
            continue
    assert_identical(whole, folder)


def test_momentum_resumes_exactly_in_any_memory_layout(run_in: RunIn, tmp_path: Path) -> None:
    config = tiny_config(momentum=0.9, channels_last=True, method="er")
    whole = run_in(config, "whole")
    for _ in range(2):
        with pytest.raises(Interrupted):
            run(config, Options(out=tmp_path / "cut"), StopAt(9))
    assert_identical(whole, run(config, Options(out=tmp_path / "cut"), StopAt(0)))


def test_a_damaged_checkpoint_falls_back_on_the_one_before(run_in: RunIn, tmp_path: Path) -> None:
    config = tiny_config()
    whole = run_in(config, "whole")
    for steps in (20, 9):
        with pytest.raises(Interrupted):
            run(config, Options(out=tmp_path / "cut"), StopAt(steps))
    folder = tmp_path / "cut" / whole.name
    newest = checkpoint.generations(folder / "checkpoint")[0]
    newest.write_bytes(newest.read_bytes()[:500])
    screen = StopAt(0)
    run(config, Options(out=tmp_path / "cut"), screen)
    assert "damaged" in screen.notes[0]
    assert_identical(whole, folder)


def test_a_finished_run_is_not_repeated(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    before = (folder / "result.json").stat().st_mtime_ns
    assert run_in(tiny_config()) == folder
    assert (folder / "result.json").stat().st_mtime_ns == before


def test_force_starts_over(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    (folder / "metrics.jsonl").write_text("something else\n")
    before = (folder / "result.json").stat().st_mtime_ns
    run_in(tiny_config(), force=True)
    assert (folder / "result.json").stat().st_mtime_ns != before
    assert "something else" not in (folder / "metrics.jsonl").read_text()


def test_two_processes_cannot_share_a_run(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    with (
        FileLock(folder / ".lock"),
        pytest.raises(RemnantError, match="another process is working on this run"),
    ):
        run_in(tiny_config(), force=True)
    assert (folder / "result.json").exists()


def test_a_finished_run_can_be_looked_at_while_its_folder_is_locked(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    with FileLock(folder / ".lock"):
        assert run_in(tiny_config()) == folder


def test_a_place_that_cannot_be_written_is_named(quiet: Quiet, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RemnantError, match="--out"):
        run(tiny_config(), Options(out=tmp_path / "file"), quiet)


def test_a_loss_that_explodes_stops_the_run_and_says_where(run_in: RunIn, tmp_path: Path) -> None:
    with pytest.raises(RemnantError) as caught:
        run_in(tiny_config(lr=1e30, method="finetune"))
    text = str(caught.value)
    assert "the loss became" in text
    assert "task 1" in text
    assert "--set lr=" in text
    assert not list(tmp_path.rglob("result.json"))


@pytest.mark.parametrize(
    "changes",
    [
        {"lr": 1e3, "buffer": 5, "epochs": 6},
        {"lr": 1e10, "method": "finetune"},
        {"lr": 1e5, "method": "er"},
    ],
)
def test_divergence_is_never_a_result(run_in: RunIn, tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(RemnantError, match="Try a smaller learning rate"):
        run_in(tiny_config(**changes), save_every=0)
    for path in tmp_path.rglob("*.safetensors"):
        state = checkpoint.unpack(path.read_bytes())
        assert all(v.isfinite().all() for v in state["learner"]["weights"]["net"].values())


def test_a_stream_too_small_to_fill_the_memory_still_runs(run_in: RunIn) -> None:
    found = result(run_in(tiny_config(per_class=2, noise="none")))
    assert found["memory"]["size"] < 20


def test_a_cleared_run_is_not_taken_for_finished(run_in: RunIn, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_in(tiny_config())

    def fail(path: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("shutil.rmtree", fail)
    with pytest.raises(RemnantError, match="cannot be cleared"):
        run_in(tiny_config(), force=True)
    assert not (folder / "result.json").exists()
    assert (folder / "metrics.jsonl").exists()


def test_a_run_may_live_in_a_thread(run_in: RunIn) -> None:
    import threading

    done: list[Path] = []
    thread = threading.Thread(target=lambda: done.append(run_in(tiny_config(method="finetune"))))
    thread.start()
    thread.join()
    assert result(done[0])["finished"]


def test_the_last_good_checkpoint_is_named_and_kept(
    tmp_path: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config()
    with pytest.raises(Interrupted):
        run(config, Options(out=tmp_path), StopAt(5))
    saved = checkpoint.generations(next(tmp_path.iterdir()) / "checkpoint")
    from remnant.learner import ReplayLearner

    monkeypatch.setattr(ReplayLearner, "_step", lambda *_: math.nan)
    with pytest.raises(RemnantError, match=saved[0].name):
        run(config, Options(out=tmp_path, save_every=0), quiet)
    assert saved[0].exists()


def test_joint_training_is_tested_on_every_task_once(run_in: RunIn) -> None:
    found = result(run_in(tiny_config(method="joint")))
    assert len(found["accuracy"]) == 1
    assert None not in found["accuracy"][0]
    assert found["ff"] == 0
    assert found["memory"] is None


def test_validation_never_looks_at_the_test_set(run_in: RunIn, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(validation=0.25)
    honest = result(run_in(config, "honest"))
    from remnant import experiment
    from remnant.data import load

    def poisoned(name: str, folder: Path | None) -> Dataset:
        data = load(name, folder)
        blank = Arrays(torch.zeros_like(data.test.take(torch.arange(len(data.test)))))
        return replace(data, test=blank, test_y=data.test_y[::-1].copy())

    monkeypatch.setattr(experiment, "load", poisoned)
    blind = result(run_in(config, "blind"))
    assert honest["tested_on"] == blind["tested_on"] == "noisy validation rows"
    assert honest["accuracy"] == blind["accuracy"]


@pytest.mark.parametrize(
    "changes",
    [
        {"class_order": "random", "split": [3, 3, 4]},
        {"noise": "none"},
        {"noise": "block:0.4"},
        {"schedule": "alternate:3", "replacement": "lass", "objective": "cross-entropy"},
        {"method": "er", "insertion": "lowest-loss:0.5", "replacement": "abs"},
        {"channels_last": True},
        {"buffer": 2},
        {"method": "der++", "batch": 3, "epochs": 1},
    ],
)
def test_any_combination_of_choices_runs(run_in: RunIn, changes: dict[str, Any]) -> None:
    assert 0 <= result(run_in(tiny_config(**changes)))["faa"] <= 100


def test_the_number_of_threads_is_put_back(run_in: RunIn) -> None:
    before = torch.get_num_threads()
    run_in(tiny_config(threads=2, method="finetune", epochs=1))
    assert torch.get_num_threads() == before


@pytest.mark.data
@pytest.mark.parametrize("noise", ["asymmetric:0.4", "file"])
def test_real_cifar10_trains_with_made_and_with_given_labels(
    run_in: RunIn, tmp_path: Path, noise: str
) -> None:
    from remnant.data import data_dir, load

    folder = data_dir(None)
    truth = load("cifar10", folder).y
    np.savez(tmp_path / "labels.npz", shifted=(truth + (np.arange(len(truth)) % 5 == 0)) % 10)
    given: object = noise
    if noise == "file":
        given = {"name": "file", "path": str(tmp_path / "labels.npz"), "key": "shifted"}
    config = resolve(
        {"data": "cifar10", "per_class": 20, "net": "resnet18:4", "epochs": 2, "noise": given}
        | {"channels_last": True, "buffer": 30}
    )
    found = result(run_in(config, data_dir=folder))
    assert found["memory"]["size"] == 30
    assert found["classes"][0] == ["airplane", "automobile"]


FIT = {"method": "aer-abs", "tasks": 2, "epochs": 2}


def lines_of(folder: Path, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def test_each_consolidation_epoch_says_how_well_it_divided(run_in: RunIn) -> None:
    folder = run_in(tiny_config(**FIT, consolidation={"name": "mixmatch", "epochs": 3}))
    lines = lines_of(folder, "consolidation")
    assert [(line["task"], line["epoch"]) for line in lines] == [
        (t, e) for t in (0, 1) for e in (0, 1, 2)
    ]
    for line in lines:
        (division,) = line["division"]
        assert division.keys() >= {"trusted", "precision", "recall", "noisy_precision", "noisy_recall"}
        assert 0 < division["trusted"] <= 20
        assert line["loss"] > 0
    found = result(folder)["consolidation"]
    assert found["epochs"] == found["divisions"] == 6
    assert found["plain"] == {}
    assert found["precision"] == pytest.approx(sum(x["division"][0]["precision"] for x in lines) / 6)


def test_epochs_without_a_division_are_counted_with_the_reason(run_in: RunIn) -> None:
    config = tiny_config(**FIT, buffer=2, consolidation={"name": "mixmatch", "epochs": 3})
    found = result(run_in(config))["consolidation"]
    assert found["plain"] == {"fewer than 3 rows": 6}
    assert found["precision"] is None


def test_two_networks_report_two_divisions(run_in: RunIn) -> None:
    config = tiny_config(**FIT, consolidation={"name": "dividemix", "epochs": 3, "warmup": 2})
    folder = run_in(config)
    shapes = [line["division"] and len(line["division"]) for line in lines_of(folder, "consolidation")]
    assert shapes == [None, None, 2] * 2
    assert result(folder)["consolidation"]["divisions"] == 4


def test_a_run_without_consolidation_says_so(run_in: RunIn) -> None:
    assert result(run_in(tiny_config()))["consolidation"] is None


def test_gdumb_has_a_whole_accuracy_matrix_and_so_forgetting(run_in: RunIn) -> None:
    folder = run_in(tiny_config(method="gdumb", consolidation={"epochs": 3}))
    found = result(folder)
    assert found["method"] == "gdumb"
    assert [sum(value is not None for value in row) for row in found["accuracy"]] == [1, 2, 3, 4, 5]
    assert isinstance(found["ff"], float)
    lines = lines_of(folder, "epoch")
    assert len(lines) == 5
    for line in lines:
        assert line["phase"] == "write"
        assert line["loss"] is None
        assert line["separation"] is None  # nothing was trained, though rows of past tasks are stored


def test_the_time_of_consolidation_is_told_apart(run_in: RunIn) -> None:
    folder = run_in(tiny_config(**FIT, consolidation={"name": "buffer-fit", "epochs": 3}))
    assert set(result(folder)["seconds_per_phase"]) == {"forget", "learn", "consolidate"}


def test_divergence_inside_a_consolidation_is_named(run_in: RunIn) -> None:
    config = tiny_config(**FIT, consolidation={"name": "buffer-fit", "epochs": 30, "lr": 1e30})
    with pytest.raises(RemnantError, match=r"\(consolidate\), task 1.*consolidation\.lr="):
        run_in(config)
