from itertools import count
from types import SimpleNamespace

import pytest
import torch
from conftest import tiny_config

from remnant.experiment.build import build_learner, build_stream
from remnant.methods import timing
from remnant.methods.replay import ReplayLearner
from remnant.methods.timing import fill
from remnant.sweep.estimate import estimate, seconds_per_step, work_plan


@pytest.fixture(autouse=True)
def _steps_of_one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by a second whenever it is read."""
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=count().__next__))


def seconds(**changes: object) -> float:
    config = tiny_config(**changes)
    return estimate(config, build_stream(config, None)).seconds[0]


def test_an_estimate_has_the_plan_of_the_method_and_the_memory_in_use() -> None:
    config = tiny_config(method="aer-abs+fit")
    stream = build_stream(config, None)
    found = estimate(config, stream)
    assert work_plan(config, [24, 24]).works.keys() == {"forget", "learn", "consolidate"}
    assert found.megabytes > 50


def test_the_range_of_an_estimate_is_at_least_20_percent_to_each_side() -> None:
    config = tiny_config()  # 5 tasks of about 24 samples, 4 epochs each, in batches of 8
    stream = build_stream(config, None)
    steps = sum(work.steps for work in work_plan(config, [len(task) for task in stream.tasks]).works.values())
    assert steps >= 5 * 4 * 2
    assert estimate(config, stream).seconds == pytest.approx((0.8 * steps, 1.2 * steps))


def test_the_seconds_of_a_step_are_the_quartiles_if_they_are_far_apart() -> None:
    assert seconds_per_step([1.0, 2.0, 4.0, 8.0, 9.0]) == (2.0, 8.0)
    assert seconds_per_step([10.0, 10.0]) == (8.0, 12.0)
    assert seconds_per_step([10.0]) == (8.0, 12.0)


def test_consolidation_is_part_of_the_estimated_time() -> None:
    # 5 tasks of 4 epochs, 3 steps each; then 5 x 1000 epochs of 3 steps on the buffer: 250 times that.
    fit = {"name": "buffer-fit", "epochs": 1000, "batch": 8}
    assert seconds(consolidation=fit) > 20 * seconds(consolidation="none") > 0


@pytest.mark.parametrize(
    ("method", "short", "long"),
    [
        ("spr", {"base_steps": 4}, {"base_steps": 4000}),
        ("spr", {"expert_steps": 4}, {"expert_steps": 4000}),
        ("spr", {"finetune_epochs": 1}, {"finetune_epochs": 1000}),
        ("cnll", {"warmup_epochs": 1}, {"warmup_epochs": 1000}),
        ("cnll", {"finetune_epochs": 1}, {"finetune_epochs": 1000}),
    ],
)
def test_every_kind_of_work_is_part_of_the_estimated_time(
    method: str, short: dict[str, int], long: dict[str, int]
) -> None:
    few = {"expert_steps": 4, "base_steps": 4} if method == "spr" else {}
    assert seconds(method=method, algorithm=few | long) > 10 * seconds(method=method, algorithm=few | short)


def test_an_estimate_changes_nothing_that_a_run_uses() -> None:
    config = tiny_config()
    stream = build_stream(config, None)
    before = stream.fingerprint, [len(task) for task in stream.tasks]
    estimate(config, stream)
    assert (stream.fingerprint, [len(task) for task in stream.tasks]) == before


def test_the_estimate_of_puridiver_fills_the_buffer_with_samples_that_are_not_in_the_task() -> None:
    config = tiny_config(method="puridiver", buffer_size=30, consolidation={"epochs": 2, "warmup": 1})
    stream = build_stream(config, None)
    learner = build_learner(config, stream)
    assert isinstance(learner, ReplayLearner)
    fill(learner.buffer, stream.tasks[0], 10)
    assert not torch.isin(stream.tasks[0].id, learner.buffer.id).any()  # so that all are candidates
