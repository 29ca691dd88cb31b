"""Separation of doubtful from trusted labels."""

import numpy as np
import pytest
import torch
from torch import Tensor

from remnant.suspects.threshold import MIN_SAMPLES, log_odds, separate


def two_groups(low: int, high: int, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.concatenate([rng.normal(-3, 1, low), rng.normal(3, 1, high)]))


def zeros(values: Tensor) -> Tensor:
    return torch.zeros(len(values), dtype=torch.long)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.6])
def test_two_gaussians_are_separated_and_their_shares_estimated(share: float) -> None:
    low = round(share * 500)
    values = two_groups(low, 500 - low)
    found = separate(values, values, values, zeros(values), zeros(values))
    assert float(found.noise.mean()) == pytest.approx(share, abs=0.02)
    assert found.is_suspect[:low].double().mean() > 0.98
    assert found.is_suspect[low:].double().mean() < 0.02


def test_log_odds_rise_with_the_value() -> None:
    values = two_groups(30, 70).sort().values
    odds = log_odds(values)
    assert odds is not None
    assert (odds.diff() > 0).all()


def test_samples_that_are_merely_harder_than_others_are_trusted() -> None:
    values = two_groups(30, 70)
    found = separate(values, values + 10, values - 10, zeros(values), zeros(values))
    assert not found.is_suspect.any()
    assert not found.noise.any()


def test_labels_that_were_learned_by_heart_are_doubtful_if_the_final_network_disagrees() -> None:
    values = two_groups(30, 70)
    margin = torch.where(values < 0, 0.5, 4.0).double()
    forgotten = separate(values, margin, torch.where(values < 0, -2.0, 3.0), zeros(values), zeros(values))
    assert forgotten.is_suspect.tolist() == [True] * 30 + [False] * 70
    kept = separate(values, margin, torch.where(values < 0, 2.0, 3.0), zeros(values), zeros(values))
    assert not kept.is_suspect.any()


def test_each_label_has_its_own_threshold() -> None:
    values = torch.cat([two_groups(30, 70), two_groups(30, 70, 1) + 50])
    y = torch.arange(2).repeat_interleave(100)
    margin = torch.cat([values[:100], values[100:] - 50])
    assert separate(values, margin, margin, y, zeros(values)).is_suspect.sum() == 60


def test_rare_labels_are_separated_with_the_others_of_their_task() -> None:
    values = two_groups(10, 30)
    y = torch.arange(40) % 4
    assert MIN_SAMPLES > 10
    assert (
        separate(values, values, values, y, zeros(values)).is_suspect.tolist() == [True] * 10 + [False] * 30
    )


@pytest.mark.parametrize(("count", "suspects"), [(20, 8), (19, 0)])
def test_a_label_with_20_samples_is_separated_alone(count: int, suspects: int) -> None:
    values = torch.cat([two_groups(8, count - 8), torch.linspace(100, 101, 5).double()])
    y = torch.tensor([0] * count + [1] * 5)  # the five are in the same task
    assert separate(values, values, values, y, zeros(values)).is_suspect.sum() == suspects


def test_rare_labels_of_a_task_are_not_separated_with_a_frequent_label_of_another_task() -> None:
    values = torch.cat([two_groups(8, 32), torch.linspace(100, 101, 5).double()])
    y, task = torch.tensor([1] * 40 + [0] * 5), torch.tensor([1] * 40 + [0] * 5)
    assert separate(values, values, values, y, task).is_suspect.tolist() == [True] * 8 + [False] * 37


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0, 2.0]])
def test_values_that_do_not_differ_are_not_separated(values: list[float]) -> None:
    assert log_odds(torch.tensor(values).double()) is None


def test_a_label_whose_values_do_not_differ_is_trusted() -> None:
    values = torch.full((40,), -1.0, dtype=torch.float64)
    assert not separate(values, values, values, zeros(values), zeros(values)).is_suspect.any()


def test_log_odds_are_those_of_a_mixture_with_the_common_variance_of_scikit_learn() -> None:
    from sklearn.mixture import GaussianMixture

    values = two_groups(300, 500) / 1.5
    x = ((values - values.mean()) / values.std(correction=0)).numpy()[:, None]
    fitted = GaussianMixture(2, covariance_type="tied", tol=1e-9, max_iter=500, random_state=0).fit(x)
    expected = fitted.predict_proba(x)[:, fitted.means_.ravel().argmax()]
    found = log_odds(values)
    assert found is not None
    assert found.sigmoid().tolist() == pytest.approx(expected.tolist(), abs=1e-3)
