import copy

import pytest
import torch
from torch import Tensor

from remnant.buffer.scoring import NEVER, Scores, Scoring


class Meter:
    """Returns a loss of 1, 2, 3, ... and records its calls."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, slots: Tensor) -> Tensor:
        self.calls.append(slots.tolist())
        return torch.full((len(slots),), float(len(self.calls)), dtype=torch.float64)


def test_a_loss_is_measured_once_and_then_reused() -> None:
    scores, meter = Scores(64), Meter()
    for clock in (1, 2, 3):
        scores.clock = clock
        assert scores.of(torch.tensor([4, 5]), 3, meter).tolist() == [1.0, 1.0]
    scores.clock = 4
    assert scores.of(torch.tensor([4, 5]), 3, meter).tolist() == [2.0, 2.0]


def test_with_a_limit_of_one_every_step_measures() -> None:
    scores, meter = Scores(64), Meter()
    for clock in (1, 2, 3):
        scores.clock = clock
        scores.of(torch.tensor([0]), 1, meter)
    assert len(meter.calls) == 3


def test_only_losses_that_are_too_old_are_measured() -> None:
    scores, meter = Scores(64), Meter()
    scores.clock = 1
    scores.of(torch.tensor([0, 1]), 2, meter)
    scores.clock = 2
    scores.of(torch.tensor([0, 1, 2]), 2, meter)
    assert meter.calls == [[0, 1], [2]]


def test_by_default_a_loss_is_reused_for_capacity_over_32_steps() -> None:
    assert [Scoring().limit(capacity) for capacity in (1, 32, 33, 64, 500)] == [1, 1, 2, 2, 16]
    assert Scoring(7).limit(500) == 7
    scores, meter = Scores(64), Meter()
    for clock in range(8):
        scores.clock = clock
        scores.of(torch.arange(64), Scoring().limit(64), meter)
    assert len(meter.calls) == 4


def test_an_expired_loss_is_measured_again_in_the_same_step() -> None:
    scores, meter = Scores(64), Meter()
    scores.of(torch.tensor([3]), 100, meter)
    scores.expire()
    scores.of(torch.tensor([3]), 100, meter)
    assert len(meter.calls) == 2


def test_the_loss_of_a_new_sample_is_not_measured_again() -> None:
    scores = Scores(64)
    scores.clock = 7
    scores.store(torch.tensor([9]), torch.tensor([0.25]))
    meter = Meter()
    assert scores.of(torch.tensor([9]), 1, meter).tolist() == [0.25]
    assert meter.calls == []


def test_a_sample_stored_without_a_loss_counts_as_never_measured() -> None:
    scores, meter = Scores(4), Meter()
    assert (scores.measured == NEVER).all()
    scores.store(torch.tensor([1, 2]), torch.tensor([torch.nan, 0.5]))
    assert scores.measured.tolist() == [NEVER, NEVER, 0, NEVER]
    assert scores.of(torch.tensor([1, 2]), 5, meter).tolist() == [1.0, 0.5]
    assert meter.calls == [[1]]


def test_restored_scores_continue_with_the_same_losses_and_ages() -> None:
    scores, other, meter = Scores(4), Scores(4), Meter()
    scores.clock = 3
    scores.of(torch.tensor([0, 2]), 2, Meter())
    other.load_state_dict(copy.deepcopy(scores.state_dict()))
    other.clock += 1
    assert other.of(torch.tensor([0, 2]), 2, meter).tolist() == [1.0, 1.0]
    assert meter.calls == []


def test_a_negative_number_of_steps_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected refresh_every >= 0"):
        Scoring(-1)
