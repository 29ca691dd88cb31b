import contextlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from run_helpers import RunIn, StopAt, assert_identical, records, result
from torch import nn

from remnant.config import resolve
from remnant.data import Dataset, Spec, data_dir, load
from remnant.data.dataset import InMemory
from remnant.errors import Interrupted, RemnantError
from remnant.experiment import build, checkpoint, evaluate
from remnant.experiment.loggers import Logger, RunStart
from remnant.experiment.loggers.console import Quiet, Speed
from remnant.experiment.run import execute
from remnant.experiment.runner import Options, Run
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import StepDone
from remnant.methods.replay import ReplayLearner

FIT = {"method": "aer-abs", "tasks": 2, "epochs": 2}


def test_metrics_have_a_line_for_each_epoch_and_each_task(run_in: RunIn) -> None:
    lines = (run_in(tiny_config()) / "metrics.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert events == (["epoch"] * 4 + ["task"]) * 5
    losses = [json.loads(line)["loss"] for line in lines if json.loads(line)["event"] == "epoch"]
    assert len(set(losses)) == 20
    assert all(loss is not None and loss > 0 for loss in losses)


@pytest.mark.parametrize("method", ["aer-abs", "der++-aer-abs", "er-ace+alpha"])
@pytest.mark.slow
def test_an_interrupted_run_resumes_to_the_same_result(run_in: RunIn, tmp_path: Path, method: str) -> None:
    config = tiny_config(method=method)
    whole = run_in(config, "whole")
    for steps in (1, 3, 17, 40):
        out = tmp_path / f"cut-{steps}"
        with pytest.raises(Interrupted, match=r"stopped after step .*\nRun the same command again to resume"):
            execute(config, Options(out=out), [StopAt(steps)])
        resumed = StopAt(0)
        folder = execute(config, Options(out=out), [resumed])
        assert f"resuming after step {steps}" in resumed.notes[0]
        assert_identical(whole, folder)


def test_the_seconds_of_a_resumed_run_are_those_of_its_parts(tmp_path: Path) -> None:
    config = tiny_config(tasks=2, epochs=1, method="er")
    start = time.monotonic()
    with pytest.raises(Interrupted):
        execute(config, Options(out=tmp_path), [StopAt(1)])
    result = json.loads((execute(config, Options(out=tmp_path), []) / "result.json").read_text())
    assert 0 < result["seconds"] < time.monotonic() - start


def test_a_resumed_run_deletes_what_a_killed_process_left_half_written(tmp_path: Path) -> None:
    config = tiny_config(tasks=2, epochs=1, method="er")
    with pytest.raises(Interrupted):
        execute(config, Options(out=tmp_path), [StopAt(1)])
    (folder,) = tmp_path.iterdir()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    for name in (f".an-earlier-name.csv.{ended.pid}.part", f"checkpoint/.00000009-ab.{ended.pid}.part"):
        (folder / name).write_bytes(b"half")
    execute(config, Options(out=tmp_path), [])
    assert list(folder.rglob("*.part")) == []


class Clocked(StopAt):
    """Every step takes a second, and the remaining time is recorded."""

    def start(self, run: RunStart) -> None:
        self.now, self.left_after = 0.0, list[str]()
        self.speed = Speed(run, lambda: self.now)

    def step(self, event: StepDone, purity: float | None) -> None:
        self.now += 1
        self.speed.add(event)
        self.left_after.append(self.speed.left)
        super().step(event, purity)


def test_a_resumed_run_knows_how_much_is_left(tmp_path: Path) -> None:
    fit = {"name": "buffer-fit", "epochs": 3, "batch": 16}
    config = tiny_config(method="aer-abs", tasks=2, epochs=2, consolidation=fit)
    whole = Clocked(0)
    folder = execute(config, Options(out=tmp_path / "whole"), [whole])
    assert whole.left_after == [f"{left} s" for left in reversed(range(len(whole.left_after)))]
    for steps in (5, 17, 20, 30):
        first, second = Clocked(steps), Clocked(0)
        with pytest.raises(Interrupted):
            execute(config, Options(out=tmp_path / f"cut-{steps}"), [first])
        cut = execute(config, Options(out=tmp_path / f"cut-{steps}"), [second])
        assert first.left_after + second.left_after == whole.left_after
        ends = [checkpoint.generations(path / "checkpoint")[0].read_bytes() for path in (folder, cut)]
        planned, again = (checkpoint.unpack(end)["history"]["planned"] for end in ends)
        assert again == pytest.approx(planned)
        assert sum(planned.values()) == pytest.approx(len(whole.left_after))


@pytest.mark.slow
def test_a_run_that_is_interrupted_many_times_ends_with_the_same_result(
    run_in: RunIn, tmp_path: Path
) -> None:
    config = tiny_config(momentum=0.9)
    whole = run_in(config, "whole")
    for _ in range(100):
        try:
            folder = execute(config, Options(out=tmp_path / "cut"), [StopAt(7)])
            break
        except Interrupted:
            continue
    assert_identical(whole, folder)


def test_momentum_resumes_exactly_in_any_memory_layout(run_in: RunIn, tmp_path: Path) -> None:
    config = tiny_config(momentum=0.9, channels_last=True, method="er")
    whole = run_in(config, "whole")
    for _ in range(2):
        with pytest.raises(Interrupted):
            execute(config, Options(out=tmp_path / "cut"), [StopAt(9)])
    assert_identical(whole, execute(config, Options(out=tmp_path / "cut"), [StopAt(0)]))


def test_a_run_with_a_damaged_checkpoint_resumes_from_the_previous_one(run_in: RunIn, tmp_path: Path) -> None:
    config = tiny_config()
    whole = run_in(config, "whole")
    for steps in (20, 9):
        with pytest.raises(Interrupted):
            execute(config, Options(out=tmp_path / "cut"), [StopAt(steps)])
    folder = tmp_path / "cut" / whole.name
    newest = checkpoint.generations(folder / "checkpoint")[0]
    newest.write_bytes(newest.read_bytes()[:500])
    logger = StopAt(0)
    execute(config, Options(out=tmp_path / "cut"), [logger])
    assert "damaged" in logger.notes[0]
    assert "the previous one is used" in logger.notes[0]
    assert_identical(whole, folder)


def test_a_loss_that_is_not_finite_stops_the_run_with_advice(run_in: RunIn, tmp_path: Path) -> None:
    with pytest.raises(RemnantError) as caught:
        run_in(tiny_config(lr=1e30, method="finetune"))
    text = str(caught.value)
    assert "the loss became" in text
    assert "task 1" in text
    assert text.endswith(": lr=0.1")  # and not a third of 1e30
    assert not list(tmp_path.rglob("result.json"))


def overflowing(spec: Spec) -> nn.Module:
    linear = nn.Linear(64, len(spec.classes))
    nn.init.constant_(linear.weight, 3e38)
    return nn.Sequential(nn.Flatten(), linear)


@pytest.mark.parametrize(("lr", "advice"), [(0.03, ": lr=0.01"), (1e-7, "check the inputs")])
def test_the_learning_rate_is_blamed_unless_it_is_tiny(run_in: RunIn, lr: float, advice: str) -> None:
    with pytest.raises(RemnantError, match=advice):
        run_in(tiny_config(method="finetune", lr=lr, net=overflowing))


@pytest.mark.parametrize(
    "changes",
    [
        {"lr": 1e3, "buffer_size": 5, "epochs": 6},
        {"lr": 1e10, "method": "finetune"},
        {"lr": 1e5, "method": "er"},
    ],
)
def test_a_run_that_diverges_has_no_result(run_in: RunIn, tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(RemnantError, match="Try a smaller learning rate"):
        run_in(tiny_config(**changes), save_every=0)
    assert not list(tmp_path.rglob("result.json"))
    for path in tmp_path.rglob("*.safetensors"):
        state = checkpoint.unpack(path.read_bytes())
        assert all(v.isfinite().all() for v in state["learner"]["weights"]["net"].values())


def test_divergence_in_a_consolidation_names_the_learning_rate_of_the_consolidation(run_in: RunIn) -> None:
    config = tiny_config(**FIT, consolidation={"name": "buffer-fit", "epochs": 30, "lr": 1e30})
    with pytest.raises(RemnantError, match=r"\(consolidate\), task 1.*consolidation\.lr="):
        run_in(config)


def test_the_last_good_checkpoint_is_named_and_kept(
    tmp_path: Path, quiet: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config()
    with pytest.raises(Interrupted):
        execute(config, Options(out=tmp_path), [StopAt(5)])
    saved = checkpoint.generations(next(tmp_path.iterdir()) / "checkpoint")
    train = ReplayLearner._train

    def diverge(self: ReplayLearner, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        outcome = train(self, *args, **kwargs)
        return replace(outcome, loss=outcome.loss * math.nan)

    monkeypatch.setattr(ReplayLearner, "_train", diverge)
    with pytest.raises(RemnantError, match=saved[0].name):
        execute(config, Options(out=tmp_path, save_every=0), [quiet])
    assert saved[0].exists()


class Ended(Logger):
    """Records whether it was started and ended."""

    calls = ""

    def start(self, run: RunStart) -> None:
        self.calls += "start "

    def end(self) -> None:
        self.calls += "end"


def test_loggers_are_ended_when_a_run_fails(tmp_path: Path) -> None:
    for lr in (0.1, 1e30):
        logger = Ended()
        try:
            execute(tiny_config(lr=lr, method="finetune"), Options(out=tmp_path), [logger])
        except RemnantError:
            assert lr == 1e30
        assert logger.calls == "start end"


class Refused(Logger):
    """Cannot be started."""

    def start(self, run: RunStart) -> None:
        raise RemnantError("no server")


class Failing(Logger):
    """Fails when it is ended."""

    def end(self) -> None:
        raise OSError("no connection")


def test_loggers_are_ended_when_another_logger_fails(tmp_path: Path) -> None:
    started, not_started = Ended(), Ended()
    with pytest.raises(RemnantError, match="no server"):
        execute(tiny_config(method="finetune"), Options(out=tmp_path), [started, Refused(), not_started])
    assert (started.calls, not_started.calls) == ("start end", "")
    first, last = Ended(), Ended()
    with pytest.raises(OSError, match="no connection"):
        execute(tiny_config(method="finetune"), Options(out=tmp_path), [first, Failing(), last])
    assert first.calls == last.calls == "start end"


def test_a_stream_with_fewer_samples_than_the_buffer_runs(run_in: RunIn) -> None:
    found = result(run_in(tiny_config(per_class=2, noise="none")))
    assert found["buffer"]["size"] < 20


def test_joint_training_is_evaluated_once_on_every_task(run_in: RunIn) -> None:
    found = result(run_in(tiny_config(method="joint")))
    assert len(found["accuracy"]) == 1
    assert None not in found["accuracy"][0]
    assert found["ff"] == 0
    assert found["buffer"] is None
    assert found["fwt"] is None
    assert found["accuracy_next"] == found["accuracy_untrained"] == []
    assert found["memorisation"][-1]["memorised"] is not None


def test_the_untrained_network_is_evaluated_once_and_the_next_task_before_it_is_learned(
    run_in: RunIn, tmp_path: Path
) -> None:
    config = tiny_config()
    whole = result(run_in(config, "whole"))
    stream = build.build_stream(config, None)
    untrained = evaluate.accuracy(build.build_learner(config, stream), stream.tests)
    assert whole["accuracy_untrained"] == untrained.class_incremental
    with pytest.raises(Interrupted):
        execute(config, Options(out=tmp_path / "cut"), [StopAt(40)])
    resumed = result(execute(config, Options(out=tmp_path / "cut"), [StopAt(0)]))
    assert resumed["accuracy_untrained"] == whole["accuracy_untrained"]
    # Class-incremental: classes that have not arrived yet are hardly ever predicted.
    assert max(whole["accuracy_next"]) < 20
    assert whole["fwt"] == resumed["fwt"]


def test_forgetting_epochs_are_measured_before_the_rollback(run_in: RunIn) -> None:
    lines = records(run_in(tiny_config(lr=0.3)), "epoch")
    # Rolled back after the first epoch: measured any later, the second epoch would start from its losses.
    assert lines[0]["phase"] == "forget"
    assert lines[0]["stream"]["loss_clean"] != lines[1]["stream"]["loss_clean"]
    later = [line for line in lines if line["task"] == 4]
    assert all(line["loss_noisy"] is None or line["loss_noisy"] > 0 for line in later)
    assert all(line["loss_clean"] > 0 for line in later)


def test_validation_does_not_use_the_test_split(run_in: RunIn, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(validation=0.25)
    usual = result(run_in(config, "usual"))

    def other_tests(name: str, folder: Path | None) -> Dataset:
        data = load(name, folder)
        blank = InMemory(torch.zeros_like(data.test.take(torch.arange(len(data.test)))))
        return replace(data, test=blank, test_y=data.test_y[::-1].copy())

    monkeypatch.setattr(build, "load", other_tests)
    blind = result(run_in(config, "blind"))
    assert usual["tested_on"] == blind["tested_on"] == "noisy validation split"
    assert usual["accuracy"] == blind["accuracy"]


@pytest.mark.parametrize(
    "changes",
    [
        {"class_order": "random", "split": [3, 3, 4]},
        {"noise": "none"},
        {"noise": "block:0.4"},
        {"schedule": "alternate:3", "replacement": "lass", "objective": "cross-entropy"},
        {"method": "er", "insertion": "lowest-loss:0.5", "replacement": "abs"},
        {"channels_last": True},
        {"buffer_size": 2},
        {"method": "der++", "batch": 3, "epochs": 1},
    ],
)
def test_any_combination_of_components_runs(run_in: RunIn, changes: dict[str, Any]) -> None:
    assert 0 <= result(run_in(tiny_config(**changes)))["faa"] <= 100


def test_each_consolidation_epoch_records_how_well_it_divided_the_buffer(run_in: RunIn) -> None:
    folder = run_in(tiny_config(**FIT, consolidation={"name": "mixmatch", "epochs": 3}))
    lines = records(folder, "consolidation")
    assert [(line["task"], line["epoch"]) for line in lines] == [(t, e) for t in (0, 1) for e in (0, 1, 2)]
    for line in lines:
        (division,) = line["division"]
        assert division.keys() >= {"trusted", "precision", "recall", "noisy_precision", "noisy_recall"}
        assert division["label_correction"] is None or 0 <= division["label_correction"] <= 100
        assert 0 < division["trusted"] <= 20
        assert line["loss"] > 0
    found = result(folder)["consolidation"]
    assert found["epochs"] == found["divisions"] == 6
    assert found["fallback"] == {}
    assert found["precision"] == pytest.approx(sum(x["division"][0]["precision"] for x in lines) / 6)


def test_two_networks_report_two_divisions(run_in: RunIn) -> None:
    config = tiny_config(**FIT, consolidation={"name": "dividemix", "epochs": 3, "warmup": 2})
    folder = run_in(config)
    shapes = [line["division"] and len(line["division"]) for line in records(folder, "consolidation")]
    assert shapes == [None, None, 2] * 2
    assert result(folder)["consolidation"]["divisions"] == 4


def test_epochs_that_only_write_record_no_loss_and_no_separation(run_in: RunIn) -> None:
    folder = run_in(tiny_config(method="gdumb", consolidation={"epochs": 3}))
    lines = records(folder, "epoch")
    assert len(lines) == 5
    for line in lines:
        assert line["phase"] == "write"
        assert line["loss"] is None
        assert line["stream"] is None
        assert line["separation"] is None  # nothing was trained, although samples of past tasks are stored


@pytest.mark.data
@pytest.mark.parametrize("noise", ["asymmetric:0.4", "file"])
def test_cifar10_trains_with_synthetic_noise_and_with_labels_from_a_file(
    run_in: RunIn, tmp_path: Path, noise: str
) -> None:
    folder = data_dir(None)
    truth = load("cifar10", folder).y
    np.savez(tmp_path / "labels.npz", shifted=(truth + (np.arange(len(truth)) % 5 == 0)) % 10)
    given: object = noise
    if noise == "file":
        given = {"name": "file", "path": str(tmp_path / "labels.npz"), "key": "shifted"}
    config = resolve(
        {"data": "cifar10", "per_class": 20, "net": "resnet18:4", "epochs": 2, "noise": given}
        | {"channels_last": True, "buffer_size": 30}
    )
    found = result(run_in(config, data_dir=folder))
    assert found["buffer"]["size"] == 30
    assert found["classes"][0] == ["airplane", "automobile"]


@pytest.mark.slow
def test_a_run_that_is_resumed_on_another_kind_of_machine_warns_and_lists_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.backends.cpu.get_cpu_capability()
    if before == "DEFAULT":
        pytest.skip("this processor has no other capability")
    with pytest.raises(Interrupted):
        execute(tiny_config(**FIT), Options(out=tmp_path), [StopAt(5)])
    folder = next(tmp_path.iterdir())
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    command = [sys.executable, "-m", "remnant", "run", folder, "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    warning = f"warning: this run is resumed with cpu_capability DEFAULT (before: {before})"
    assert warning in done.stdout
    assert "its results may not be bitwise identical" in done.stdout
    assert [e["cpu_capability"] for e in result(folder)["environments"]] == [before, "DEFAULT"]


def test_environments_are_listed_once_in_their_order_and_each_change_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = []
    for version in ("2.0", "2.0", "2.1", "2.0", "2.2"):
        monkeypatch.setattr(torch, "__version__", version)
        logger = StopAt(3 if version != "2.2" else 0)
        with contextlib.suppress(Interrupted):
            folder = execute(tiny_config(**FIT), Options(out=tmp_path), [logger])
        warnings.append([note.partition(";")[0] for note in logger.notes if "warning" in note])
    expected = "warning: this run is resumed with torch {} (before: {})"
    pairs = [("2.1", "2.0"), ("2.0", "2.1"), ("2.2", "2.0")]
    assert warnings == [[], [], *([expected.format(*pair)] for pair in pairs)]
    assert [e["torch"] for e in result(folder)["environments"]] == ["2.0", "2.1", "2.2"]


def forge(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the newest checkpoint, with a valid digest."""
    (path, *_) = checkpoint.generations(folder / "checkpoint")
    state = checkpoint.unpack(path.read_bytes())
    path.unlink()
    change(state)
    checkpoint.save(folder / "checkpoint", state)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("learner"),
        lambda state: state.pop("history"),
        lambda state: state.update(history=[]),
        lambda state: state["history"].update(steps="many"),
        lambda state: state["history"].update(more=1),
        lambda state: state["history"].update(steps=-1),
        lambda state: state["history"].update(seconds=math.nan),
        lambda state: state["history"].update(records=[1]),
        lambda state: state["history"].update(losses={"forget": [0.0]}),
        lambda state: state["history"].update(losses={"forget": ["0.0", 1]}),
        lambda state: state["learner"].pop("weights"),
        lambda state: state["learner"].update(weights={}),
        lambda state: state["learner"]["weights"]["net"].popitem(),
        lambda state: state["learner"].update(buffer=3),
        lambda state: state["learner"]["buffer"].pop("x"),
        lambda state: state["learner"]["buffer"].update(x=torch.zeros(20, 3, 8, 8, dtype=torch.uint8)),
        lambda state: state["learner"]["buffer"].update(y=torch.zeros(3, dtype=torch.long)),
        lambda state: state["learner"]["buffer"].update(size=1000),
        lambda state: state["learner"]["buffer"].update(size=-1),
        lambda state: state["learner"]["loop"].update(epoch="first"),
        lambda state: state["learner"]["loop"].pop("key"),
        lambda state: state["learner"]["loop"].update(key=[[1]]),
        lambda state: state["learner"]["loop"].update(epoch=-(10**18)),  # an endless loop
        lambda state: state["learner"]["loop"].update(step=-1),
        lambda state: state["learner"]["loop"]["order"].add_(1),
        lambda state: state["learner"]["selection"]["scores"].update(loss=torch.zeros(7)),
        lambda state: state["learner"]["rng"].update(order=torch.zeros(3)),
        lambda state: state["learner"].update(saved={"net": {}}),
        lambda state: state["learner"].update(seen=torch.zeros(4)),
    ],
)
def test_a_checkpoint_that_does_not_fit_the_method_is_an_error(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    with pytest.raises(Interrupted):
        execute(tiny_config(**FIT), Options(out=tmp_path), [StopAt(5)])
    folder = next(tmp_path.iterdir())
    forge(folder, change)
    before = sorted(folder.rglob("*"))
    with pytest.raises(RemnantError, match=r"its content does not fit \(\w+: .+\)\. .*force=True"):
        execute(tiny_config(**FIT), Options(out=tmp_path), [])
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda state: state["learner"]["selection"]["policy"].update(candidates="many"), "TypeError"),
        (lambda state: state["learner"]["selection"]["scores"].update(clock=10**30), "RuntimeError|Overflow"),
        (lambda state: state["learner"]["loop"].update(order=torch.arange(1000)), "IndexError"),
        (lambda state: state["learner"]["buffer"]["y"].fill_(99), "IndexError"),
        (lambda state: state["history"].update(tasks=2), "IndexError"),
        (lambda state: state["history"].update(records=[{}]), "KeyError"),
    ],
)
def test_a_value_that_makes_a_resumed_run_fail_later_is_an_error(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    with pytest.raises(Interrupted):
        execute(tiny_config(**FIT), Options(out=tmp_path), [StopAt(5)])
    forge(next(tmp_path.iterdir()), change)
    message = rf"the resumed run failed.* \(({why}).*: .+; \w+\.py, line \d+\)\. .*force=True"
    with pytest.raises(RemnantError, match=message):
        execute(tiny_config(**FIT), Options(out=tmp_path), [])


def test_a_bug_in_a_run_that_was_not_resumed_is_not_hidden(tmp_path: Path) -> None:
    class Broken(Logger):
        def step(self, event: StepDone, purity: float | None) -> None:
            raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        execute(tiny_config(**FIT), Options(out=tmp_path), [Broken()])


def test_metrics_are_written_again_completely_at_the_end(run_in: RunIn, tmp_path: Path) -> None:
    class Deleting(Logger):
        def record(self, record: dict[str, Any]) -> None:
            next(tmp_path.glob("deleted/*/metrics.jsonl")).unlink(missing_ok=True)

    config = tiny_config(**FIT)
    folder = execute(config, Options(out=tmp_path / "deleted"), [Deleting()])
    assert_identical(run_in(config), folder)


def test_loggers_get_the_last_loss_that_was_read_from_a_device() -> None:
    seen = list[float | None]()
    logger = SimpleNamespace(step=lambda event, purity: seen.append(event.loss))
    run: Any = SimpleNamespace(
        _buffer=lambda: None, losses=SimpleNamespace(last={"learn": 0.5}), loggers=[logger],
        purity=(0, 0, None),
    )  # fmt: skip
    place: dict[str, Any] = {"task": 0, "epoch": 1, "step": 2, "steps": 3, "samples": 4, "phase": Phase.LEARN}
    Run._log_step(run, StepDone(**place, loss=None, unread=torch.tensor(0.7)))
    Run._log_step(run, StepDone(**place, loss=0.25))
    assert seen == [0.5, 0.25]
