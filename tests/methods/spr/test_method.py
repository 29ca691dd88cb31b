from dataclasses import replace
from typing import Any

import pytest
from conftest import tiny_net, tiny_setup, tiny_stream

from remnant.config import resolve
from remnant.data import entry
from remnant.errors import RemnantError
from remnant.methods.protocol import Algorithm, Setup, TaskLearner, Training, Work
from remnant.methods.spr import Spr
from remnant.methods.spr.learner import SprLearner
from remnant.rng import Generators


def digits(buffer_size: int, **changes: Any) -> Setup:  # noqa: ANN401
    return Setup(entry("digits").spec, Training(epochs=2, batch=32, lr=0.1, **changes), buffer_size)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"delay": 1}, "expected delay >= 2, or 0, got 1"),
        ({"purified": -1}, "expected purified >= 0, got -1"),
        ({"batch": 3}, "expected batch >= 4, or 0, got 3"),
        ({"lr": 0.0}, "expected lr > 0, got 0.0"),
        ({"temperature": float("nan")}, "expected temperature > 0, got nan"),
        ({"expert_steps": 0, "clip": -1.0}, "expected expert_steps >= 1, got 0; expected clip >= 0"),
        ({"finetune_batch": 2}, "expected finetune_batch >= 3, got 2"),
    ],
)
def test_settings_out_of_range_are_errors(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Spr(**settings)


def test_sizes_that_are_not_given_follow_from_the_buffer_size() -> None:
    sized = Spr(purified=30).sized(20)
    assert (sized.delay, sized.purified, sized.batch) == (20, 30, 20)
    assert Spr().sized(2).batch == 4  # half of a batch still has two images


def test_the_steps_of_a_fill_are_the_total_divided_by_the_epochs_rounded_up() -> None:
    assert Spr(expert_steps=7, base_steps=1).steps_per_fill(3) == (3, 1)
    assert Spr().steps_per_fill(25) == (160, 120)


def test_the_plan_of_a_hand_worked_example() -> None:
    spr = Spr(expert_steps=6, base_steps=3, finetune_epochs=5, finetune_batch=16)
    plan = spr.plan(digits(buffer_size=40), [100, 64])
    assert plan.buffer_budget == 80
    assert plan.works == {
        "write": Work(2 * (4 + 2), 2),
        "expert": Work(2 * (3 + 2) * 3, 2, "algorithm.lr"),  # 3 and 2 fills of 40 in each of 2 epochs
        "base": Work(2 * (3 + 2) * 2, 2, "algorithm.lr"),
        "classifier": Work(2 * 5 * 3, 5, "algorithm.finetune_lr"),  # 40 samples in batches of 16
    }


def test_buffers_larger_than_the_budget_are_a_problem() -> None:
    assert list(Spr().check(digits(100), "spr")) == []
    assert list(Spr(delay=150, purified=50).check(digits(100), "spr")) == []
    (problem,) = Spr(purified=101).check(digits(100), "spr")
    assert problem.text == (
        "algorithm: expected at most 200 samples in all buffers of spr with buffer_size = 100, got 201; "
        "reduce one of them, or increase buffer_size"
    )
    assert problem.keys == {"buffer_size", "algorithm"}


def test_a_buffer_of_one_sample_is_a_problem() -> None:
    (problem,) = Spr().check(digits(1), "spr")
    assert problem.text == "buffer_size: spr needs a buffer of at least 2 samples, got 1"


def test_spr_is_for_images_only() -> None:
    (problem,) = Spr().check(replace(digits(20), spec=entry("nw-ucla").spec), "spr")
    assert problem.text.startswith("algorithm: SPR requires images, but gets skeletons of nw-ucla")
    with pytest.raises(RemnantError, match="SPR requires images"):
        resolve({"data": "nw-ucla", "net": "efficientgcn-b0", "method": "spr"})


def test_build_returns_a_learner_with_the_sizes_filled_in() -> None:
    stream = tiny_stream()
    setup = tiny_setup(stream, buffer_size=12)
    learner = Spr(delay=5).build(setup, tiny_net(stream), Generators.from_seed(0), noise_rate=0.3)
    assert isinstance(learner, SprLearner)
    assert {name: buffer.capacity for name, buffer in learner.buffers().items()} == {
        "purified": 12, "delayed": 5
    }  # fmt: skip


def test_time_steps_measures_every_kind_of_work_in_a_few_steps() -> None:
    stream = tiny_stream()
    built: list[Spr] = []

    def build(method: Algorithm, setup: Setup) -> TaskLearner:
        assert isinstance(method, Spr)
        built.append(method)
        assert setup.training.epochs == 2  # so that 30 samples arrive, from a task of about 24
        return method.build(setup, tiny_net(stream), Generators.from_seed(0), 0.3)

    setup = tiny_setup(stream, buffer_size=30, epochs=4)
    seconds = Spr().time_steps(setup, build, stream.tasks[0])
    assert seconds.keys() == Spr().plan(setup, [10]).works.keys()
    assert all(min(spent) > 0 for spent in seconds.values())
    assert [(spr.expert_steps, spr.base_steps, spr.finetune_epochs) for spr in built] == [(3, 3, 1)]
