import numpy as np
import pytest
import reference_spr as reference
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from remnant.methods.spr.beta_mixture import (
    BetaMixture,
    fit_betas,
    high_posterior,
    match_moments,
    posterior_table,
)


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def two_clusters(low: int, high: int, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.concatenate([rng.normal(0.05, 0.01, low), rng.normal(0.15, 0.01, high)]))


def two_betas(seed: int) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.concatenate([rng.beta(2, 8, 500), rng.beta(8, 2, 500)]))


def test_densities_match_hand_computed_values() -> None:
    mixture = BetaMixture(numbers(1, 2), numbers(2, 1), numbers(0.25, 0.75))
    found = mixture.log_joint(numbers(0.1, 0.5)).exp()
    # 2 (1 - x) and 2 x, weighted by 1/4 and 3/4.
    assert found.flatten().tolist() == pytest.approx([0.45, 0.25, 0.15, 0.75])
    assert mixture.mean().tolist() == pytest.approx([1 / 3, 2 / 3])


def test_moments_match_hand_computed_values() -> None:
    x, weights = numbers(0.2, 0.4, 0.9), torch.stack([numbers(1, 1, 0), numbers(0, 1, 3)])
    found = match_moments(x, weights)
    # First: mean .3, variance .01, so alpha = .3 (.21 / .01 - 1) = 6 and beta = 14.
    assert found.alpha[0] == pytest.approx(6)
    assert found.beta[0] == pytest.approx(14)
    # Second: mean (.4 + 2.7) / 4 = .775, variance (.140625 + .046875) / 4 = .046875.
    assert found.alpha[1] == pytest.approx(0.775 * (0.174375 / 0.046875 - 1))
    assert found.mean().tolist() == pytest.approx([0.3, 0.775])
    assert found.weight.tolist() == pytest.approx([1 / 3, 2 / 3])


def test_the_first_iteration_matches_hand_computed_values() -> None:
    # The first responsibilities are 1 - x and x.
    x = numbers(0.25, 0.75)
    assert fit_betas(x, iterations=1).mean().tolist() == pytest.approx([0.375, 0.625])


def test_ten_iterations_move_the_means_towards_those_of_the_two_betas() -> None:
    for seed in range(30):
        mixture = fit_betas(two_betas(seed).clamp(0.001, 0.999))
        assert mixture.weight.tolist() == pytest.approx([0.5, 0.5], abs=0.04)
        assert mixture.mean().tolist() == pytest.approx([0.29, 0.71], abs=0.04)


def test_the_fit_matches_the_reference() -> None:
    for seed in range(5):
        x = two_betas(seed)[::11].clamp(0.001, 0.999)
        mixture, expected = fit_betas(x), reference.em(x.tolist())
        for k, (weight, alpha, beta) in enumerate(expected):
            assert mixture.weight[k] == pytest.approx(weight)
            assert mixture.alpha[k] == pytest.approx(alpha)
            assert mixture.beta[k] == pytest.approx(beta)


@pytest.mark.parametrize(("low", "high"), [(3, 7), (10, 40), (50, 50), (30, 3)])
def test_the_posterior_matches_the_reference(low: int, high: int) -> None:
    for seed in range(20):
        values = two_clusters(low, high, seed)
        expected = reference.high_posterior(values.tolist())
        assert high_posterior(values).tolist() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_two_clusters_are_separated() -> None:
    for seed in range(10):
        posterior = high_posterior(two_clusters(20, 30, seed))
        assert (posterior[:20] < 0.01).all()
        assert (posterior[20:] > 0.5).all()  # not more after ten iterations


def test_the_posterior_is_constant_above_its_maximum() -> None:
    # The high component is narrow, so that the low one dominates far above it.
    mixture = BetaMixture(numbers(2, 60), numbers(3, 40), numbers(0.5, 0.5))
    found = posterior_table(mixture)
    joint = mixture.log_joint((torch.arange(100, dtype=torch.float64) + 0.5) / 100).exp()
    plain = joint[1] / joint.sum(0)
    top = int(plain.argmax())
    assert 55 < top < 75
    assert plain[95] < 0.1
    assert (found[top:] == found[top]).all()
    assert found[: top + 1].tolist() == pytest.approx(plain[: top + 1].tolist())


def test_the_posterior_is_constant_below_its_minimum() -> None:
    # The low component is narrow, so that the wide high one dominates far below it.
    mixture = BetaMixture(numbers(40, 2), numbers(60, 1), numbers(0.5, 0.5))
    found = posterior_table(mixture)
    joint = mixture.log_joint((torch.arange(100, dtype=torch.float64) + 0.5) / 100).exp()
    plain = joint[1] / joint.sum(0)
    bottom = int(plain[:60].argmin())
    assert 30 < bottom < 45
    assert plain[5] > 0.9
    assert (found[:bottom] == found[bottom]).all()
    assert found[bottom:].tolist() == pytest.approx(plain[bottom:].tolist())


@given(st.tuples(*[st.floats(0.05, 300)] * 4), st.floats(0.01, 0.99))
def test_the_posterior_never_decreases(shape: tuple[float, float, float, float], weight: float) -> None:
    a, b, c, d = shape
    found = posterior_table(BetaMixture(numbers(a, b), numbers(c, d), numbers(weight, 1 - weight)))
    expected = reference.posterior_table([(weight, a, c), (1 - weight, b, d)])
    assert found.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found.diff() >= -1e-12).all()


@given(st.integers(0, 1000), st.floats(0.1, 50), st.floats(-3, 3))
def test_scale_and_offset_of_the_values_do_not_matter(seed: int, scale: float, shift: float) -> None:
    values = two_clusters(15, 25, seed)
    shifted = high_posterior(scale * values + scale * shift)
    assert (shifted - high_posterior(values)).abs().max() < 1e-3


def test_outliers_do_not_affect_the_fit() -> None:
    values = two_clusters(40, 60)
    low, high = int(values.argmin()), int(values.argmax())
    far = values.clone()
    far[low], far[high] = -9.0, 9.0
    assert torch.equal(high_posterior(far), high_posterior(values))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_too_few_values_have_a_posterior_of_one_half(count: int) -> None:
    assert high_posterior(torch.arange(count, dtype=torch.float64)).tolist() == [0.5] * count


@pytest.mark.parametrize("value", [0.0, 0.1, 3.0])
def test_equal_values_have_a_posterior_of_one_half(value: float) -> None:
    values = torch.full((20,), value, dtype=torch.float64)
    assert (high_posterior(values) == 0.5).all()
    noisy = values * (1 + 1e-12 * torch.randn(20, dtype=torch.float64))
    assert (high_posterior(noisy) == 0.5).all()


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.5 + 1e-9, 0.9, 1.0, 7.0]), min_size=10, max_size=30))
def test_ties_spikes_and_gaps_never_give_nan(values: list[float]) -> None:
    found = high_posterior(numbers(*values))
    assert ((found >= 0) & (found <= 1)).all()


@given(st.integers(0, 10**6), st.integers(10, 60))
def test_any_values_give_a_probability(seed: int, count: int) -> None:
    values = torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = high_posterior(values**3)
    assert ((found >= 0) & (found <= 1)).all()
