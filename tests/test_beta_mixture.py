import numpy as np
import pytest
import reference_spr as reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remnant.spr.beta_mixture import BetaMixture, fit, high_posterior, moments, table


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def two_heaps(low: int, high: int, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.concatenate([rng.normal(0.05, 0.01, low), rng.normal(0.15, 0.01, high)]))


def half_and_half(seed: int) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.concatenate([rng.beta(2, 8, 500), rng.beta(8, 2, 500)]))


def test_the_density_by_hand() -> None:
    mixture = BetaMixture(numbers(1, 2), numbers(2, 1), numbers(0.25, 0.75))
    found = mixture.log_joint(numbers(0.1, 0.5)).exp()
    # 2 (1 - x) and 2 x, weighted by 1/4 and 3/4.
    assert found.flatten().tolist() == pytest.approx([0.45, 0.25, 0.15, 0.75])
    assert mixture.mean().tolist() == pytest.approx([1 / 3, 2 / 3])


def test_the_moments_by_hand() -> None:
    x, part = numbers(0.2, 0.4, 0.9), torch.stack([numbers(1, 1, 0), numbers(0, 1, 3)])
    found = moments(x, part)
    # First: mean .3, variance .01, so alpha = .3 (.21 / .01 - 1) = 6 and beta = 14.
    assert found.alpha[0] == pytest.approx(6)
    assert found.beta[0] == pytest.approx(14)
    # Second: mean (.4 + 2.7) / 4 = .775, variance (.140625 + .046875) / 4 = .046875.
    assert found.alpha[1] == pytest.approx(0.775 * (0.174375 / 0.046875 - 1))
    assert found.mean().tolist() == pytest.approx([0.3, 0.775])
    assert found.weight.tolist() == pytest.approx([1 / 3, 2 / 3])


def test_the_first_round_by_hand() -> None:
    # The first parts are 1 - x and x themselves: 2 (1 - x) against 2 x.
    x = numbers(0.25, 0.75)
    assert fit(x, rounds=1).mean().tolist() == pytest.approx([0.375, 0.625])


@pytest.mark.parametrize("seed", range(30))
def test_ten_rounds_lead_half_way_to_two_betas(seed: int) -> None:
    mixture = fit(half_and_half(seed).clamp(0.001, 0.999))
    assert mixture.weight.tolist() == pytest.approx([0.5, 0.5], abs=0.04)
    assert mixture.mean().tolist() == pytest.approx([0.29, 0.71], abs=0.04)


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_its_twin(seed: int) -> None:
    x = half_and_half(seed)[::11].clamp(0.001, 0.999)
    mixture, expected = fit(x), reference.em(x.tolist())
    for k, (weight, alpha, beta) in enumerate(expected):
        assert mixture.weight[k] == pytest.approx(weight)
        assert mixture.alpha[k] == pytest.approx(alpha)
        assert mixture.beta[k] == pytest.approx(beta)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("low", "high"), [(3, 7), (10, 40), (50, 50), (30, 3)])
def test_the_posterior_is_its_twin(low: int, high: int, seed: int) -> None:
    values = two_heaps(low, high, seed)
    expected = reference.high_posterior(values.tolist())
    assert high_posterior(values).tolist() == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_two_heaps_are_told_apart(seed: int) -> None:
    posterior = high_posterior(two_heaps(20, 30, seed))
    assert (posterior[:20] < 0.01).all()
    assert (posterior[20:] > 0.5).all()  # ten rounds are few


def test_after_its_maximum_the_table_stays_there() -> None:
    # The high component is narrow, so that far above it the low one would win again.
    mixture = BetaMixture(numbers(2, 60), numbers(3, 40), numbers(0.5, 0.5))
    found = table(mixture)
    joint = mixture.log_joint((torch.arange(100, dtype=torch.float64) + 0.5) / 100).exp()
    plain = joint[1] / joint.sum(0)
    top = int(plain.argmax())
    assert 55 < top < 75
    assert plain[95] < 0.1
    assert (found[top:] == found[top]).all()
    assert found[: top + 1].tolist() == pytest.approx(plain[: top + 1].tolist())


def test_before_its_minimum_the_table_stays_there() -> None:
    # The low component is narrow, so that far below it the wide high one would win again.
    mixture = BetaMixture(numbers(40, 2), numbers(60, 1), numbers(0.5, 0.5))
    found = table(mixture)
    joint = mixture.log_joint((torch.arange(100, dtype=torch.float64) + 0.5) / 100).exp()
    plain = joint[1] / joint.sum(0)
    bottom = int(plain[:60].argmin())
    assert 30 < bottom < 45
    assert plain[5] > 0.9
    assert (found[:bottom] == found[bottom]).all()
    assert found[bottom:].tolist() == pytest.approx(plain[bottom:].tolist())


@given(st.tuples(*[st.floats(0.05, 300)] * 4), st.floats(0.01, 0.99))
def test_a_table_never_falls(shape: tuple[float, float, float, float], weight: float) -> None:
    a, b, c, d = shape
    found = table(BetaMixture(numbers(a, b), numbers(c, d), numbers(weight, 1 - weight)))
    expected = reference.posterior_table([(weight, a, c), (1 - weight, b, d)])
    assert found.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found.diff() >= -1e-12).all()


@given(st.integers(0, 1000), st.floats(0.1, 50), st.floats(-3, 3))
def test_scale_and_place_of_the_values_do_not_matter(seed: int, scale: float, shift: float) -> None:
    values = two_heaps(15, 25, seed)
    moved = high_posterior(scale * values + scale * shift)
    assert (moved - high_posterior(values)).abs().max() < 1e-3


def test_outliers_do_not_move_the_fit() -> None:
    values = two_heaps(40, 60)
    low, high = int(values.argmin()), int(values.argmax())
    far = values.clone()
    far[low], far[high] = -9.0, 9.0
    assert torch.equal(high_posterior(far), high_posterior(values))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_too_few_values_are_not_judged(count: int) -> None:
    assert high_posterior(torch.arange(count, dtype=torch.float64)).tolist() == [0.5] * count


@pytest.mark.parametrize("value", [0.0, 0.1, 3.0])
def test_equal_values_are_not_judged(value: float) -> None:
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
