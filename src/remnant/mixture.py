"""Which losses are small: a mixture of two Gaussians, fitted on losses scaled to [0, 1]."""

import warnings

import numpy as np
import torch
from torch import Tensor

FEWEST = 3  # losses that two Gaussians can be told apart on


def scaled(loss: Tensor) -> Tensor:
    """Scale losses to [0, 1]; equal ones become 0.

    >>> scaled(torch.tensor([1.0, 2.0, 5.0])).tolist()
    [0.0, 0.25, 1.0]
    """
    span = loss.max() - loss.min()
    return (loss - loss.min()) / span if span > 0 else torch.zeros_like(loss)


def small_posterior(loss: Tensor) -> Tensor | str:
    """Return how probably each loss belongs to the component of small losses, or why none can say."""
    if len(loss) < FEWEST:
        return f"fewer than {FEWEST} rows"
    values = scaled(loss.double()).numpy()[:, None]
    if len(np.unique(values)) < FEWEST:
        return "losses too equal to be divided"
    mean, posterior = fit(values)
    return torch.from_numpy(posterior[:, mean.argmin()])


def fit(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit two Gaussians to values (n, 1); return their means (2,) and the posteriors (n, 2)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with warnings.catch_warnings():
        # A few iterations are what is wanted, and are enough in one dimension.
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(values)
    return mixture.means_.ravel(), mixture.predict_proba(values)
