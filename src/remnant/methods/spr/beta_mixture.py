"""Separation of high from low values with a mixture of two beta distributions.

The mixture is fitted to n values, scaled to [0, 1].
"""

from dataclasses import dataclass

import torch
from torch import Tensor

MIN_VALUES = 10  # fewer values cannot be separated
ITERATIONS = 10  # of expectation-maximisation; with more, the components may collapse into one
BINS = 100  # of the table of posteriors
MIN_SPREAD = 1e-6  # relative to the largest value; with a smaller spread all values count as equal
TOLERANCE = 1e-9  # relative to the spread; values this close to a percentile are equal to it
MARGIN = 1e-3  # minimum distance of scaled values from 0 and 1
MIN_VARIANCE = 1e-6  # of a component
MIN_RESPONSIBILITY = 1e-12  # of a component for a value


@dataclass(frozen=True, eq=False)
class BetaMixture:
    """Two weighted beta distributions, initialised as a low and a high component."""

    alpha: Tensor  # (2,)
    beta: Tensor  # (2,)
    weight: Tensor  # (2,) sums to 1

    def mean(self) -> Tensor:
        """Return the mean of each component, (2,)."""
        return self.alpha / (self.alpha + self.beta)

    def log_joint(self, x: Tensor) -> Tensor:
        """Return log(weight * density) of values in (0, 1) for each component, (2, n)."""
        alpha, beta = self.alpha[:, None], self.beta[:, None]
        norm = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)
        density = (alpha - 1) * x.log() + (beta - 1) * torch.log1p(-x) - norm
        return self.weight.log()[:, None] + density


def match_moments(x: Tensor, responsibility: Tensor) -> BetaMixture:
    """Return the mixture with the moments of x, weighted by the responsibilities (2, n).

    alpha = m (m (1 - m) / s - 1) and beta = alpha (1 - m) / m, with mean m and variance s.
    """
    total = responsibility.sum(1)
    mean = (responsibility * x).sum(1) / total
    variance = ((responsibility * (x - mean[:, None]) ** 2).sum(1) / total).clamp_min(MIN_VARIANCE)
    alpha = mean * (mean * (1 - mean) / variance - 1)
    return BetaMixture(alpha, alpha * (1 - mean) / mean, total / total.sum())


def fit_betas(x: Tensor, iterations: int = ITERATIONS) -> BetaMixture:
    """Fit a mixture to values in [MARGIN, 1 - MARGIN], starting from the densities 2 (1 - x) and 2 x."""
    one, two = x.new_tensor([1.0, 2.0]), x.new_tensor([2.0, 1.0])
    mixture = BetaMixture(one, two, x.new_tensor([0.5, 0.5]))
    for _ in range(iterations):
        mixture = match_moments(x, mixture.log_joint(x).softmax(0).clamp_min(MIN_RESPONSIBILITY))
    return mixture


def posterior_table(mixture: BetaMixture) -> Tensor:
    """Return the posterior of the high component at the centre of each bin, non-decreasing, (BINS,).

    The wider component dominates both tails, so that the posterior may fall again above its maximum, or
    rise below its minimum. Such values are replaced by the maximum or the minimum.
    """
    centre = (torch.arange(BINS, dtype=mixture.alpha.dtype) + 0.5) / BINS
    posterior = mixture.log_joint(centre).softmax(0)[1]
    rises_towards_zero = bool(mixture.alpha[1] < mixture.alpha[0])
    bottom = int(posterior.argmin()) if rises_towards_zero else 0
    top = bottom + int(posterior[bottom:].argmax())
    return posterior[torch.arange(BINS).clamp(bottom, top)]


def high_posterior(values: Tensor) -> Tensor:
    """Return the posterior that each value belongs to the high component, (n,).

    The mixture is fitted to the values between the 5th and the 95th percentile, which are scaled to 0
    and 1. The posterior is 1/2 for fewer than MIN_VALUES values, and for values that are all equal.
    """
    unknown = torch.full_like(values, 0.5)
    if len(values) < MIN_VALUES:
        return unknown
    low, high = values.quantile(values.new_tensor([0.05, 0.95]))
    if high - low <= MIN_SPREAD * values.abs().max():
        return unknown
    scaled = (values - low) / (high - low)
    is_fitted = (scaled > -TOLERANCE) & (scaled < 1 + TOLERANCE)
    clipped = scaled.clamp(MARGIN, 1 - MARGIN)
    return posterior_table(fit_betas(clipped[is_fitted]))[(BINS * clipped).long()]
