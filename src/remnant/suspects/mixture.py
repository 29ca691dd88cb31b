"""Separation of small from large losses with a mixture of two Gaussians."""

import warnings

import numpy as np
import torch
from torch import Tensor

MIN_SAMPLES = 3  # fewer losses, or fewer distinct ones, cannot be separated


def scaled(loss: Tensor) -> Tensor:
    """Return losses scaled to [0, 1]; 0 if all are equal.

    >>> scaled(torch.tensor([1.0, 2.0, 5.0])).tolist()
    [0.0, 0.25, 1.0]
    """
    span = loss.max() - loss.min()
    return (loss - loss.min()) / span if span > 0 else torch.zeros_like(loss)


def small_posterior(loss: Tensor) -> Tensor | str:
    """Return the posterior of the low-loss component for each loss (n,), or why there is none."""
    if len(loss) < MIN_SAMPLES:
        return f"fewer than {MIN_SAMPLES} samples"
    values = scaled(loss.double().cpu()).numpy()[:, None]
    if len(np.unique(values)) < MIN_SAMPLES:
        return f"fewer than {MIN_SAMPLES} distinct losses"
    mean, posterior = fit_gaussians(values)
    return torch.from_numpy(posterior[:, mean.argmin()])


def fit_gaussians(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit two Gaussians to values (n, 1); return their means (2,) and the posteriors (n, 2)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        # Ten iterations are enough in one dimension, even if they do not converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(values)
    return mixture.means_.ravel(), mixture.predict_proba(values)
