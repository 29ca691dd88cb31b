"""Instance-dependent noise: part-dependent label noise (Xia et al., 2020, Algorithm 2).

Each sample has its own flip rate, and its noisy label depends on its S pixels. N samples, C classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from remnant.data.dataset import Dataset, Labels
from remnant.noise.base import check_rate
from remnant.settings import setting

Floats = NDArray[np.float64]

FLIP_RATE_STD = 0.1  # standard deviation of the flip rates around the noise rate
CHUNK = 1024  # samples held as floats at once: 25 MB for 32 x 32 colour images


def draw_flip_rates(rate: float, count: int, rng: np.random.Generator) -> Floats:
    """Draw the flip rate of each sample, (N,), from a normal distribution truncated to [0, 1].

    Draws are stratified (one from each of N equally probable intervals), so that the mean of the rates is
    accurate even for few samples.
    """
    from scipy.stats import truncnorm

    low, high = -rate / FLIP_RATE_STD, (1 - rate) / FLIP_RATE_STD
    quantiles = (rng.permutation(count) + rng.random(count)) / count
    drawn = truncnorm.ppf(quantiles, low, high, loc=rate, scale=FLIP_RATE_STD)
    return np.clip(np.asarray(drawn, dtype=np.float64), 0, 1)


def select_noisy(rates: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Select each sample with its own probability, (N,).

    The number of selected samples is the sum of the rates, rounded up or down (systematic sampling: the rates
    are laid end to end in random order, and those that contain a point of a unit grid are selected).
    """
    order = rng.permutation(len(rates))
    ends = np.cumsum(rates[order]) + rng.random()
    is_noisy = np.empty(len(rates), dtype=bool)
    is_noisy[order] = np.diff(np.floor(ends), prepend=0) > 0
    return is_noisy


def draw_noisy_labels(x: Floats, label: int, weights: Floats, rng: np.random.Generator) -> Labels:
    """Draw noisy labels for samples (n, S) of one class from softmax(x W) over the other classes."""
    score = x @ weights
    score[:, label] = -np.inf
    unnormalised = np.exp(score - score.max(axis=1, keepdims=True))
    cumulative = np.cumsum(unnormalised, axis=1)
    drawn = rng.random((len(x), 1)) * cumulative[:, -1:]
    # The first class whose cumulative sum exceeds the draw; never the true class, whose weight is 0.
    return np.asarray((cumulative > drawn).argmax(axis=1), dtype=np.int64)


def load_pixels(dataset: Dataset, indices: Labels) -> Iterator[tuple[Labels, Floats]]:
    """Yield chunks of indices (n,) with their normalised, un-augmented pixels (n, S)."""
    for start in range(0, len(indices), CHUNK):
        part = indices[start : start + CHUNK]
        x = dataset.spec.transform.plain(dataset.train.take(torch.from_numpy(part)))
        # Double precision, so that labels do not depend on the order of summation, which differs by machine.
        yield part, x.flatten(1).double().numpy()


@dataclass(frozen=True)
class Instance:
    """Each sample has its own flip rate, and its noisy label depends on its pixels (part-dependent).

    Scores over thousands of pixels differ so much that a sample nearly always has only one likely noisy
    label. Truncating flip rates to [0, 1] shifts their mean: with a noise rate of 0.1, about 13 % of the
    labels are noisy.
    """

    rate: float = setting(0.4, "noise rate: mean flip rate of the samples (standard deviation 0.1)")
    shared: bool = setting(
        False, "use one matrix from pixels to classes for all true classes, instead of one per class"
    )

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        observed, rates = dataset.y.copy(), draw_flip_rates(self.rate, len(dataset.y), rng)
        # The input size of a network, which for skeletons is larger than the stored size.
        (_, one), *_ = load_pixels(dataset, np.zeros(1, dtype=np.int64))
        shape = one.shape[1], len(dataset.spec.classes)
        weights = rng.standard_normal(shape) if self.shared else None
        for label in range(shape[1]):
            w = rng.standard_normal(shape) if weights is None else weights
            indices = np.flatnonzero(dataset.y == label)
            for part, x in load_pixels(dataset, indices[select_noisy(rates[indices], rng)]):
                observed[part] = draw_noisy_labels(x, label, w, rng)
        return observed
