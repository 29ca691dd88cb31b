"""Suspicion scores, with numbers computed by hand."""

import pytest
import torch
from suspects_helpers import evidence

from remnant.suspects.scores import DEFAULT, SCORES, Evidence, standardised
from remnant.suspects.trajectory import Statistics


def one_sample() -> Evidence:
    """Two learning epochs with margins 1 and 3, one forgetting epoch with margin -2; losses 2, 1, 4."""
    sums = torch.tensor([[[3.0, 4.0, 0.5], [4.0, -2.0, 0.1]]])
    last = torch.tensor([[[1.0, 3.0, 0.4], [4.0, -2.0, 0.1]]])
    statistics = Statistics(torch.tensor([5]), torch.tensor([1]), sums, last, torch.tensor([2, 1]))
    return Evidence.of(statistics, 0, torch.tensor([[4.0, 1.0, 0.0]]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("final-loss", -1),
        ("mean-loss", -(3 + 4) / 3),
        ("mean-margin", (4 - 2) / 3),
        ("mean-confidence", (0.5 + 0.1) / 3),
        ("forgetting-rise", -(4 - 3 / 2)),
        ("end-margin", 1 - 4),
    ],
)
def test_a_score_aggregates_an_agreement(name: str, expected: float) -> None:
    assert SCORES[name](one_sample()).tolist() == pytest.approx([expected])


def test_the_suggested_label_is_the_prediction_at_the_end() -> None:
    assert one_sample().suggested.tolist() == [0]


def test_a_sum_adds_scores_that_are_standardised_within_each_label() -> None:
    found = SCORES["margins"](evidence([1.0, 3.0, 70.0, 90.0], [0, 0, 1, 1], [5.0, 1.0, 2.0, 4.0]))
    assert found.tolist() == [0, 0, -2, 2]


def test_equal_values_are_standardised_to_zero() -> None:
    assert standardised(torch.tensor([2.0, 2.0]), torch.tensor([0, 0])).tolist() == [0, 0]


def test_every_score_is_described_and_the_default_is_one_of_them() -> None:
    assert DEFAULT in SCORES
    assert all(score.about for score in SCORES.values())


def test_without_forgetting_epochs_there_is_no_rise() -> None:
    assert SCORES["forgetting-rise"](evidence([1.0])).isnan().all()
