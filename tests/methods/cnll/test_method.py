from dataclasses import replace
from typing import Any

import pytest
import reference_cnll as reference
from conftest import tiny_net, tiny_setup, tiny_stream

from remnant.data import entry
from remnant.methods.cnll import Cnll
from remnant.methods.cnll.learner import CnllLearner
from remnant.methods.cnll.method import BUFFERS
from remnant.methods.protocol import Algorithm, Setup, TaskLearner, Training, Work
from remnant.rng import Generators


def digits(buffer_size: int, epochs: int = 1) -> Setup:
    return Setup(entry("digits").spec, Training(epochs, batch=32, lr=0.1), buffer_size)


def test_the_weight_of_unlabelled_samples_rises_after_the_quiet_epochs() -> None:
    cnll = Cnll()
    assert [cnll.unlabelled_weight(e) for e in (0, 4.99, 5, 9)] == [0, 0, 0, 7.5]
    assert cnll.unlabelled_weight(10 - 1e-9) < 30 * 5 / 16
    for epoch in (3.2, 6.1, 20.99, 40.0):
        assert cnll.unlabelled_weight(epoch) == pytest.approx(reference.ramp(epoch, 30, 5, 16))


def test_the_budget_with_the_buffer_size_of_the_paper_is_that_of_the_paper() -> None:
    sized = Cnll().sized(500)
    assert sum(getattr(sized, name) for name in BUFFERS) == Cnll().budget(500) == 2500
    assert Cnll(unlimited=True).budget(500) is None


def test_sizes_that_are_not_given_follow_from_the_buffer_size() -> None:
    sized = Cnll(clean=7).sized(20)
    assert {name: getattr(sized, name) for name in BUFFERS} == {
        "delay": 20, "clean": 7, "noisy": 20, "clean_store": 20, "noisy_store": 20
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay": 1}, {"clean": -1}, {"batch": 2}, {"momentum": 1.0}, {"finetune_lr": 0.0},
        {"finetune_epochs": 0}, {"ramp": 0}, {"mixup": 0.0}, {"lambda_u": float("inf")},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_errors(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=f"expected {name} .*, got {wrong[name]}"):
        Cnll(**wrong)


def test_the_plan_of_a_hand_worked_example() -> None:
    plan = Cnll().plan(digits(buffer_size=100), [200])
    assert plan.buffer_budget == 500
    assert plan.works == {
        "write": Work(7, 1),
        "warm-up": Work(5 * 2 * 2, 5, "algorithm.warmup_lr"),  # twice 100 samples in batches of 64
        # Half of 200 samples are clean, beside 2 x 25 stored ones: 3 steps, in each of 10 epochs.
        "fine-tuning": Work(30, 10, "algorithm.finetune_lr"),
    }


def test_the_plan_takes_into_account_that_stores_fill_up_or_grow_without_limit() -> None:
    def steps(cnll: Cnll, epochs: int) -> float:
        return cnll.plan(digits(100, epochs), [200]).works["fine-tuning"].steps / epochs

    few, many = (steps(Cnll(), epochs) for epochs in (1, 20))
    assert few < many < steps(Cnll(unlimited=True), 20)
    assert few == 30
    assert many == pytest.approx(40, rel=0.02)  # beside 100 stored ones, from the second epoch on


def test_buffers_larger_than_the_budget_are_a_problem() -> None:
    assert list(Cnll().check(digits(100), "cnll")) == []
    assert list(Cnll(noisy=200, clean=1, delay=99).check(digits(100), "cnll")) == []
    (problem,) = Cnll(noisy=200).check(digits(100), "cnll")
    assert problem.text == (
        "algorithm: expected at most 500 samples in all buffers of cnll with buffer_size = 100, got 600; "
        "reduce one of them, or increase buffer_size"
    )
    assert list(Cnll(noisy=200, unlimited=True).check(digits(100), "cnll")) == []


def test_a_buffer_of_one_sample_is_a_problem() -> None:
    (problem,) = Cnll().check(digits(1), "cnll")
    assert problem.text == "buffer_size: cnll needs a buffer of at least 2 samples, got 1"


def test_build_returns_a_learner_with_the_sizes_filled_in() -> None:
    stream = tiny_stream()
    setup = tiny_setup(stream, buffer_size=12)
    learner = Cnll(delay=5).build(setup, tiny_net(stream), Generators.from_seed(0), noise_rate=0.3)
    assert isinstance(learner, CnllLearner)
    capacities = {name: buffer.capacity for name, buffer in learner.buffers().items()}
    assert capacities == dict.fromkeys(BUFFERS, 12) | {"delay": 5}


def test_time_steps_measures_every_kind_of_work_in_a_few_steps() -> None:
    stream = tiny_stream()
    built: list[tuple[int, int, int]] = []

    def build(method: Algorithm, setup: Setup) -> TaskLearner:
        assert isinstance(method, Cnll)
        built.append((method.warmup_epochs, method.finetune_epochs, setup.training.epochs))
        return method.build(setup, tiny_net(stream), Generators.from_seed(0), 0.3)

    setup, cnll = tiny_setup(stream, buffer_size=30, epochs=4), replace(Cnll(), batch=8)
    seconds = cnll.time_steps(setup, build, stream.tasks[0])
    assert seconds.keys() == cnll.plan(setup, [10]).works.keys()
    assert all(min(spent) > 0 for spent in seconds.values())
    assert built == [(1, 1, 2)]  # two epochs, so that 30 samples arrive, from a task of about 24
