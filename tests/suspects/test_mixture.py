import numpy as np
import pytest
import reference_consolidation as reference
import torch
from hypothesis import given, strategies as st

from remnant.suspects import mixture
from remnant.suspects.mixture import scaled, small_posterior


def two_clusters(low: int, high: int, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.concatenate([rng.normal(0.2, 0.05, low), rng.normal(3.0, 0.4, high)]))


def test_two_clusters_are_separated() -> None:
    posterior = small_posterior(two_clusters(30, 20))
    assert isinstance(posterior, torch.Tensor)
    assert (posterior[:30] > 0.99).all()
    assert (posterior[30:] < 0.01).all()


@given(st.integers(0, 1000), st.integers(3, 40), st.integers(3, 40))
def test_the_order_of_the_components_does_not_matter(seed: int, low: int, high: int) -> None:
    loss, fit = two_clusters(low, high, seed), mixture.fit_gaussians

    def swapped(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, posterior = fit(values)
        return mean[::-1], posterior[:, ::-1]

    expected = small_posterior(loss)
    try:
        mixture.fit_gaussians = swapped
        found = small_posterior(loss)
    finally:
        mixture.fit_gaussians = fit
    assert torch.equal(torch.as_tensor(found), torch.as_tensor(expected))


def test_the_posterior_is_that_of_the_component_with_the_smaller_mean() -> None:
    from sklearn.mixture import GaussianMixture

    values = scaled(two_clusters(12, 9)).numpy()[:, None]
    fitted = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(values)
    expected = reference.two_component_posterior(
        values.ravel().tolist(), fitted.means_.ravel().tolist(), fitted.covariances_.ravel().tolist(),
        fitted.weights_.tolist(),
    )  # fmt: skip
    found = torch.as_tensor(small_posterior(two_clusters(12, 9)))
    assert found.tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([], "fewer than 3 samples"),
        ([0.4, 0.9], "fewer than 3 samples"),
        ([0.7] * 10, "fewer than 3 distinct losses"),
        ([0.0, 0.0, 1.0, 1.0], "fewer than 3 distinct losses"),
    ],
)
def test_losses_that_cannot_be_separated_give_the_reason(losses: list[float], reason: str) -> None:
    assert small_posterior(torch.tensor(losses)) == reason


def test_three_distinct_losses_are_separated() -> None:
    posterior = small_posterior(torch.tensor([0.0, 0.1, 1.0, 1.0]))
    assert isinstance(posterior, torch.Tensor)
    assert (posterior > 0.5).tolist() == [True, True, False, False]


def test_two_gaussians_are_fitted() -> None:
    mean, posterior = mixture.fit_gaussians(scaled(two_clusters(30, 20)).numpy()[:, None])
    assert (mean.shape, posterior.shape) == ((2,), (50, 2))
    assert posterior.sum(1) == pytest.approx(1.0)


def test_scaling_matches_the_reference_and_maps_equal_losses_to_zero() -> None:
    loss = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)
    assert scaled(loss).tolist() == pytest.approx(reference.minmax(loss.tolist()).tolist())
    assert scaled(torch.full((3,), 2.0)).tolist() == [0, 0, 0]


def test_fitting_twice_gives_the_same_bits() -> None:
    loss = torch.rand(50, generator=torch.Generator().manual_seed(1))
    assert torch.equal(torch.as_tensor(small_posterior(loss)), torch.as_tensor(small_posterior(loss)))
