"""Methods of another build, as a user meets them: named, run, cut, measured and held to their budget."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_config
from rich.console import Console
from test_kill import run_to_step
from test_runner import RunIn, assert_identical

from remnant.config import Config, resolve
from remnant.errors import RemnantError
from remnant.experiment import make_the_learner, make_the_stream
from remnant.memory import Memory
from remnant.progress import Quiet
from remnant.protocol import StepDone
from remnant.runner import Options, run
from remnant.schedule import Phase
from remnant.spr import SprLearner

SPR = {"expert_steps": 4, "base_steps": 4, "batch": 10, "features": 6, "finetune_epochs": 2}
CNLL = {"warmup_epochs": 1, "finetune_epochs": 2, "batch": 8, "clean_kept": 3, "noisy_kept": 3}
FIT = {"epochs": 8, "warmup": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "spr": {"learner": SPR},
    "cnll": {"learner": CNLL},
    "cnll.unlimited": {"learner": CNLL},
    "puridiver": {"consolidation": FIT},
    "puridiver.me": {"consolidation": FIT},
}
MEMORIES = {"spr": 2, "cnll": 5, "cnll.unlimited": 5, "puridiver": 1, "puridiver.me": 1}


def tiny(method: str, **changes: Any) -> Config:  # noqa: ANN401
    return tiny_config(method=method, tasks=2, epochs=2, **SETTINGS[method], **changes)


def result_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


@pytest.mark.parametrize("method", SETTINGS)
def test_killed_at_random_steps_and_continued_to_the_same_bytes(
    run_in: RunIn, tmp_path: Path, method: str
) -> None:
    config, rng = tiny(method), random.Random(method)
    whole, out = run_in(config, "whole"), tmp_path / "cut"
    for kill in range(4):
        steps, phase = rng.randint(2, 7), rng.choice([Phase.IDLE, Phase.CONSOLIDATE])
        assert run_to_step(config, out, steps, phase) == signal.SIGKILL, kill
    assert_identical(whole, run(config, Options(out=out), Quiet(Console(stderr=True))))


@pytest.mark.parametrize("method", SETTINGS)
def test_each_memory_is_reported_and_kept(run_in: RunIn, method: str) -> None:
    folder = run_in(tiny(method))
    result = result_of(folder)
    assert len(result["memories"]) == MEMORIES[method]
    for name, found in result["memories"].items():
        assert (folder / f"{name}.safetensors").exists() == (found["size"] > 0)
        assert (found["purity"] is None) == (found["size"] == 0)
        if MEMORIES[method] > 1:
            assert 0 <= found["mean_purity"] <= 100
    assert next(iter(result["memories"].values()))["size"] > 0
    assert result["memory_rows"]["peak"] > 0


@pytest.mark.parametrize(
    ("method", "tuned"),
    [
        ("spr", {"learner": {"expert_steps": 40, "lr": 1e-3, "finetune_epochs": 5}}),
        ("cnll", {"learner": {"warmup_lr": 0.1, "warmup_epochs": 2, "finetune_epochs": 3}}),
        ("puridiver", {"consolidation": {"lr": 0.1, "epochs": 63, "warmup": 30}}),
    ],
)
def test_rates_and_lengths_do_not_make_another_method(method: str, tuned: dict[str, Any]) -> None:
    assert resolve({"method": method, **tuned}).label == method


def test_a_delay_is_as_pure_as_the_stream(run_in: RunIn) -> None:
    folder = run_in(tiny_config(method="cnll", epochs=2, learner=CNLL, noise="symmetric:0.5"))
    assert result_of(folder)["memories"]["delay"]["mean_purity"] == pytest.approx(50, abs=5)


@pytest.mark.parametrize(
    ("method", "budget"),
    [("aer-abs", 500), ("puridiver", 500), ("spr", 1000), ("cnll", 2500), ("cnll.unlimited", None)],
)
def test_what_a_method_is_granted_with_the_buffer_of_the_paper(method: str, budget: int | None) -> None:
    assert resolve({"method": method, "buffer": 500}).learner.budget(500) == budget


def test_a_method_that_holds_more_than_it_is_granted_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SprLearner, "memories", lambda self: {"all": Memory(99, (1,)), "one": full(41)})
    with pytest.raises(RemnantError, match="holds 41 rows, and is granted 40 with buffer = 20"):
        run(tiny("spr"), Options(out=tmp_path))


def full(rows: int) -> Memory:
    memory = Memory(rows, (1,))
    memory.size = rows
    return memory


def test_the_peak_of_all_memories_is_recorded(run_in: RunIn) -> None:
    rows = result_of(run_in(tiny("spr")))["memory_rows"]
    assert rows["budget"] == 40
    assert 20 < rows["peak"] <= 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "cnll", "learner.noisy": 200}, "would hold 600 rows"),
        ({"method": "spr", "learner.purified": 101}, "granted 200; make one of them smaller"),
        ({"method": "spr", "objective": "asymmetric"}, "objective: spr makes no such choice"),
        ({"method": "spr", "buffer": 1}, "buffer: spr needs a memory of at least 2 rows, got 1"),
        ({"method": "er-ace", "learner": "cnll"}, "say method = cnll, if you meant that"),
        ({"method": "spr", "learner.expert_steps": 0}, "expected expert_steps >= 1, got 0"),
        ({"method": "aer-abs", "learner.delay": 3}, "replay has no setting 'delay'"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    table: dict[str, Any] = {}
    for key, value in given.items():
        kind, dot, setting = key.partition(".")
        table[kind] = {setting: value} if dot else value
    with pytest.raises(RemnantError, match=message):
        resolve(table)


def test_a_config_of_another_build_repeats_itself_without_idle_choices() -> None:
    config = tiny("cnll", buffer=30)
    assert resolve(config.table()) == config
    assert "objective" not in config.table()
    assert "finetune_lr" in config.table()["learner"]


@pytest.mark.parametrize("method", ["spr", "cnll", "puridiver"])
def test_the_plan_foresees_every_kind_of_work(method: str) -> None:
    config = tiny(method)
    stream = make_the_stream(config, None)
    rows = [len(task) for task in stream.tasks]
    plan = config.the_method().plan(rows, config.epochs, config.batch, config.buffer)
    learner, done = make_the_learner(config, stream), dict.fromkeys(plan, 0.0)
    for task in stream.tasks:
        for event in learner.learn(task):
            if isinstance(event, StepDone):
                done[event.work] += event.share
                assert event.epoch < plan[event.work].epochs
    exact = [work for work in plan if work != "fine-tuning"]  # how much is clean is not known before
    assert {work: done[work] for work in exact} == {work: plan[work].steps for work in exact}
    assert all(done.values())


def test_any_insertion_goes_with_a_memory_that_looks_at_features(run_in: RunIn) -> None:
    config = tiny_config(method="aer-abs", tasks=2, epochs=2, replacement="purity-diversity")
    assert result_of(run_in(config))["memory"]["size"] == config.buffer


def test_rates_of_replay_are_no_part_of_a_learner_of_another_build() -> None:
    assert tiny("spr", lr=0.5, momentum=0.9) == tiny("spr")
    assert "lr" not in tiny("spr").table()


@pytest.mark.parametrize("method", ["spr", "cnll"])
def test_the_smallest_buffer_will_do(run_in: RunIn, method: str) -> None:
    learner = {"expert_steps": 2, "base_steps": 2} if method == "spr" else {"finetune_epochs": 1}
    config = tiny_config(method=method, per_class=4, epochs=1, buffer=2, learner=learner)
    assert result_of(run_in(config))["memory_rows"]["peak"] <= config.learner.budget(2)


def test_a_buffer_larger_than_the_task_is_judged_all_the_same(run_in: RunIn) -> None:
    result = result_of(run_in(tiny("spr", buffer=500)))
    assert result["memories"]["purified"]["size"] > 0


def test_divergence_names_the_rate_to_lower(run_in: RunIn) -> None:
    learner = CNLL | {"finetune_lr": 1e30}
    with pytest.raises(RemnantError, match=r"\(fine-tuning\).*--set learner\.finetune_lr=3\.3e\+29"):
        run_in(tiny_config(method="cnll", epochs=2, learner=learner))
