"""Every method keeps to the protocol: it builds a learner, plans its work, and is a value in a config."""

from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any, get_type_hints

import pytest
from conftest import tiny_config, tiny_net, tiny_setup, tiny_stream

from remnant.config import Config, resolve
from remnant.errors import RemnantError
from remnant.experiment.build import build_learner, build_stream
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import (
    Algorithm,
    EpochDone,
    Problem,
    SamplesSplit,
    StepDone,
    TaskLearner,
    Training,
)
from remnant.methods.registry import METHODS
from remnant.rng import Generators
from remnant.settings import settings

SPR = {"expert_steps": 4, "base_steps": 4, "batch": 10, "features": 6, "finetune_epochs": 2}
CNLL = {"warmup_epochs": 1, "finetune_epochs": 2, "batch": 8, "clean_kept": 3, "noisy_kept": 3}
SHORT: dict[str, dict[str, Any]] = {
    "spr": {"algorithm": SPR},
    "cnll": {"algorithm": CNLL},
    "puridiver": {"consolidation": {"epochs": 8, "warmup": 1}},
    "aer-abs": {},
    "gdumb": {"consolidation": {"epochs": 3}},
}
MEMBERS = ("unused", "about", "build", "plan", "check", "time_steps")
LEARNER = ("learn", "predict", "network", "statistics", "buffers", "state_dict", "load_state_dict")


def tiny(method: str, **changes: Any) -> Config:  # noqa: ANN401
    return tiny_config(method=method, tasks=2, epochs=2, **SHORT[method], **changes)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_a_frozen_value_that_builds_a_learner(name: str) -> None:
    method, stream = METHODS[name], tiny_stream()
    assert all(hasattr(method, member) for member in MEMBERS)
    assert is_dataclass(method)
    with pytest.raises(FrozenInstanceError):
        method.about = "another"  # type: ignore[misc]
    assert hash(method) == hash(METHODS[name])
    learner = method.build(tiny_setup(stream), tiny_net(stream), Generators.from_seed(0), noise_rate=0.3)
    assert all(callable(getattr(learner, member)) for member in LEARNER)


def test_settings_that_a_method_does_not_read_are_fields_of_training() -> None:
    known = {field.name for field in fields(Training)}
    for name, method in METHODS.items():
        assert set(method.unused) <= known, name
        assert not {"epochs", "batch"} & set(method.unused), name  # the runner needs both


def test_a_learner_is_given_a_task_and_returns_events() -> None:
    hints = get_type_hints(TaskLearner.learn)
    assert hints["task"].__name__ == "Task"
    assert "noise_rate" in get_type_hints(Algorithm.build)
    assert not {"truth", "stream", "observed"} & get_type_hints(Algorithm.build).keys()


@pytest.mark.parametrize(
    ("phase", "kind", "work"),
    [
        (Phase.STANDARD, "", "standard"),
        (Phase.FORGET, "", "forget"),
        (Phase.LEARN, "", "learn"),
        (Phase.TRAIN, "", "train"),
        (Phase.WRITE, "", "write"),
        (Phase.CONSOLIDATE, "", "consolidate"),
        (Phase.CONSOLIDATE, "warm-up", "warm-up"),
    ],
)
def test_the_kind_of_work_is_the_name_of_the_phase_unless_it_is_given(
    phase: Phase, kind: str, work: str
) -> None:
    assert StepDone(0, 0, 1, 2, phase, 0.5, 8, kind=kind).work == work
    assert EpochDone(0, 0, phase, kind=kind).work == work


def test_problems_with_the_same_text_are_equal() -> None:
    assert Problem.of("too small", "buffer_size") == Problem.of("too small", "method")
    assert Problem.of("too small", "a", "b").keys == {"a", "b"}


@pytest.mark.parametrize("method", SHORT)
def test_the_plan_contains_every_kind_of_work_with_its_steps(method: str) -> None:
    config = tiny(method)
    stream = build_stream(config, None)
    works = config.to_method().plan(config.setup(), [len(task) for task in stream.tasks]).works
    learner, done = build_learner(config, stream), dict.fromkeys(works, 0.0)
    for task in stream.tasks:
        for event in learner.learn(task):
            if isinstance(event, StepDone):
                done[event.work] += event.planned
                assert event.epoch < works[event.work].epochs
                assert 1 <= event.step <= event.steps
            elif isinstance(event, EpochDone):
                assert event.work in works
            else:
                assert isinstance(event, SamplesSplit)
                assert method in ("spr", "cnll")
    exact = [kind for kind in works if kind != "fine-tuning"]  # the number of clean samples is not known
    assert {kind: done[kind] for kind in exact} == {kind: works[kind].steps for kind in exact}
    assert all(done.values())


def test_the_learning_rate_of_every_kind_of_work_is_a_setting() -> None:
    for name in METHODS:
        config = resolve({"method": name})
        for kind, work in config.to_method().plan(config.setup(), [100]).works.items():
            component, _, setting = work.lr.rpartition(".")
            owner = settings(getattr(config, component)) if component else Config.model_fields
            assert setting in owner, (name, kind)


@pytest.mark.parametrize(
    ("method", "budget"),
    [("aer-abs", 500), ("puridiver", 500), ("spr", 1000), ("cnll", 2500), ("cnll.unlimited", None)],
)
def test_the_budget_with_the_buffer_size_of_the_paper(method: str, budget: int | None) -> None:
    config = resolve({"method": method, "buffer_size": 500})
    assert config.to_method().plan(config.setup(), [10]).buffer_budget == budget


@pytest.mark.parametrize(
    ("method", "tuned"),
    [
        ("spr", {"algorithm": {"expert_steps": 40, "lr": 1e-3, "finetune_epochs": 5}}),
        ("cnll", {"algorithm": {"warmup_lr": 0.1, "warmup_epochs": 2, "finetune_epochs": 3}}),
        ("puridiver", {"consolidation": {"lr": 0.1, "epochs": 63, "warmup": 30}}),
    ],
)
def test_tuned_settings_do_not_change_the_name_of_a_method(method: str, tuned: dict[str, Any]) -> None:
    assert resolve({"method": method, **tuned}).label == method


def test_a_config_of_an_algorithm_with_its_own_training_loop_repeats_itself() -> None:
    config = tiny("cnll", buffer_size=30)
    assert resolve(config.table()) == config
    assert "objective" not in config.table()
    assert "finetune_lr" in config.table()["algorithm"]


def test_the_optimizer_settings_of_replay_are_ignored_by_algorithms_with_their_own() -> None:
    assert tiny("spr", lr=0.5, momentum=0.9) == tiny("spr")
    assert "lr" not in tiny("spr").table()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "cnll", "algorithm": {"noisy": 200}}, "got 600; reduce one of them"),
        ({"method": "spr", "algorithm": {"purified": 101}}, "expected at most 200 samples"),
        (
            {"method": "spr", "objective": "asymmetric"},
            "objective: spr does not use this component",
        ),
        (
            {"method": "spr", "buffer_size": 1},
            "buffer_size: spr needs a buffer of at least 2 samples, got 1",
        ),
        ({"method": "er-ace", "algorithm": "cnll"}, "set method=cnll instead"),
        ({"method": "spr", "algorithm": {"expert_steps": 0}}, "expected expert_steps >= 1, got 0"),
        ({"method": "aer-abs", "algorithm": {"delay": 3}}, "replay has no setting 'delay'"),
    ],
)
def test_settings_that_an_algorithm_cannot_use_are_errors(given: dict[str, Any], words: str) -> None:
    with pytest.raises(RemnantError, match=words):
        resolve(given)
