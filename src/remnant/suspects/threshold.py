"""The threshold between doubtful and trusted labels: a mixture of two Gaussians within each observed label.

Both Gaussians have the same variance, so that the posterior is a logistic function of the score, and a lower
score never gives a higher posterior. n samples.
"""

from typing import NamedTuple

import torch
from torch import Tensor

MIN_SAMPLES = 20  # labels with fewer samples are separated together with those of their task
ITERATIONS = 100
LEARNED = 1.0  # mean margin from which on training has clearly preferred the labels of a group


class Separation(NamedTuple):
    """Which labels are doubtful."""

    is_suspect: Tensor  # (n,)
    noise: Tensor  # (n,) probability that the label is noisy


def log_odds(values: Tensor) -> Tensor | None:
    """Return log p(high) - log p(low) of each value (n,) in a mixture of two Gaussians of equal variance.

    None if the values do not differ. The mixture is fitted by expectation maximisation, which starts from
    the values below and above the mean.
    """
    if len(values) < 2 or not values.std(correction=0) > 0:
        return None
    x = (values - values.mean()) / values.std(correction=0)
    odds = torch.where(x < 0, -torch.inf, torch.inf).double()
    for _ in range(ITERATIONS):
        high = odds.sigmoid()
        share = high.mean()
        if not 0 < share < 1:
            return None
        means = (high * x).mean() / share, ((1 - high) * x).mean() / (1 - share)
        variance = (high * (x - means[0]) ** 2 + (1 - high) * (x - means[1]) ** 2).mean().clamp(min=1e-6)
        centre = (means[0] + means[1]) / 2
        new = (means[0] - means[1]) / variance * (x - centre) + (share / (1 - share)).log()
        if (new.sigmoid() - high).abs().max() < 1e-4:
            return new
        odds = new
    return odds


def separate(values: Tensor, margin: Tensor, end: Tensor, y: Tensor, task: Tensor) -> Separation:
    """Return which labels are doubtful, from scores `values` (n,), of which lower ones are more doubtful.

    The scores of the samples of one observed label are separated into two Gaussians. The lower one is
    doubtful if training did not prefer the labels of its samples by their mean `margin`, and the network at
    the end of the stream, by its margin `end`, prefers other classes even more. Otherwise its samples are
    merely harder than the others, and all of this label are trusted.
    """
    group = torch.where(counts_of(y) < MIN_SAMPLES, -1 - task, y)
    is_suspect, noise = torch.zeros(len(y), dtype=torch.bool), torch.zeros_like(values)
    for own in (torch.nonzero(group == g).flatten() for g in group.unique()):
        odds = log_odds(values[own])
        if odds is None or not (odds < 0).any():
            continue
        low = own[odds < 0]
        if margin[low].mean() < LEARNED and (margin + end)[low].mean() < 0:
            is_suspect[own] = odds < 0
            noise[own] = (-odds).sigmoid()
    return Separation(is_suspect, noise)


def counts_of(y: Tensor) -> Tensor:
    """Return for each sample how many samples have the same label, (n,).

    >>> counts_of(torch.tensor([3, 3, 5]))
    tensor([2, 2, 1])
    """
    _, position, counts = y.unique(return_inverse=True, return_counts=True)
    result: Tensor = counts[position]
    return result
