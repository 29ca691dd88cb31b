"""Which values are high: a mixture of two beta distributions, fitted to values scaled to [0, 1].

n values, two components.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

FEWEST = 10  # values that two beta distributions can be told apart on
ROUNDS = 10  # of expectation and maximisation; more of them may fold the components into one
BINS = 100  # of the table that answers
EQUAL = 1e-6  # spread, as a share of the largest value, that says nothing
TIE = 1e-9  # distance from a percentile, as a share of the spread, that is none
EDGE = 1e-3  # how near to 0 and 1 a scaled value may come
NARROWEST = 1e-6  # variance of a component
LEAST = 1e-12  # part of a value in a component


@dataclass(frozen=True, eq=False)
class BetaMixture:
    """Two weighted beta distributions: the first begins as the low one, the second as the high one."""

    alpha: Tensor  # (2,)
    beta: Tensor  # (2,)
    weight: Tensor  # (2,) adding up to 1

    def mean(self) -> Tensor:
        """Return the mean of each component, (2,)."""
        return self.alpha / (self.alpha + self.beta)

    def log_joint(self, x: Tensor) -> Tensor:
        """Return the logarithm of weight times density of values in (0, 1), (2, n)."""
        alpha, beta = self.alpha[:, None], self.beta[:, None]
        norm = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)
        density = (alpha - 1) * x.log() + (beta - 1) * torch.log1p(-x) - norm
        return self.weight.log()[:, None] + density


def moments(x: Tensor, part: Tensor) -> BetaMixture:
    """Return the mixture with the weighted moments of x; `part` (2, n) is the part of each in each.

    alpha = m (m (1 - m) / s - 1) and beta = alpha (1 - m) / m, with m the mean and s the variance.
    """
    total = part.sum(1)
    mean = (part * x).sum(1) / total
    variance = ((part * (x - mean[:, None]) ** 2).sum(1) / total).clamp_min(NARROWEST)
    alpha = mean * (mean * (1 - mean) / variance - 1)
    return BetaMixture(alpha, alpha * (1 - mean) / mean, total / total.sum())


def fit(x: Tensor, rounds: int = ROUNDS) -> BetaMixture:
    """Fit values in [EDGE, 1 - EDGE], beginning with the densities 2 (1 - x) and 2 x."""
    one, two = x.new_tensor([1.0, 2.0]), x.new_tensor([2.0, 1.0])
    mixture = BetaMixture(one, two, x.new_tensor([0.5, 0.5]))
    for _ in range(rounds):
        mixture = moments(x, mixture.log_joint(x).softmax(0).clamp_min(LEAST))
    return mixture


def table(mixture: BetaMixture) -> Tensor:
    """Return the posterior of the high component in the middle of each bin, never falling, (BINS,).

    Next to a narrow component, the tails of a wide one win again: far above, a high posterior falls, and
    far below, a low one rises. So it stays at its maximum from there on, and at its minimum up to there.
    """
    middle = (torch.arange(BINS, dtype=mixture.alpha.dtype) + 0.5) / BINS
    posterior = mixture.log_joint(middle).softmax(0)[1]
    rises_towards_zero = bool(mixture.alpha[1] < mixture.alpha[0])
    bottom = int(posterior.argmin()) if rises_towards_zero else 0
    top = bottom + int(posterior[bottom:].argmax())
    return posterior[torch.arange(BINS).clamp(bottom, top)]


def high_posterior(values: Tensor) -> Tensor:
    """Return how probably each value belongs to the high component, (n,); 1/2 where none can say.

    The values between the 5th and the 95th percentile are fitted, and 0 and 1 are where these are. Fewer
    than FEWEST values, or equal ones, cannot be told apart.
    """
    unknown = torch.full_like(values, 0.5)
    if len(values) < FEWEST:
        return unknown
    low, high = values.quantile(values.new_tensor([0.05, 0.95]))
    if high - low <= EQUAL * values.abs().max():
        return unknown
    scaled = (values - low) / (high - low)
    is_fitted = (scaled > -TIE) & (scaled < 1 + TIE)
    clipped = scaled.clamp(EDGE, 1 - EDGE)
    return table(fit(clipped[is_fitted]))[(BINS * clipped).long()]
