"""Noise by what a row looks like: part-dependent noise (Xia and others, 2020, Algorithm 2).

How likely a row is mislabelled is its own matter, and what it is mistaken for follows from its pixels.
N rows of S pixels, C classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from remnant.data.source import Dataset, Labels
from remnant.noise.base import check_rate

Floats = NDArray[np.float64]

SPREAD = 0.1  # standard deviation of the rows' own rates around the rate that is asked for
CHUNK = 1024  # rows whose pixels are held as numbers at once: 25 MB for 32 x 32 colour images


def own_rates(rate: float, rows: int, rng: np.random.Generator) -> Floats:
    """Draw how likely each row is mislabelled, (N,): normal around `rate`, cut off outside [0, 1].

    One from each of N equally likely stretches, in random order, so that few rows have the mean of many.
    """
    from scipy.stats import truncnorm

    low, high = -rate / SPREAD, (1 - rate) / SPREAD
    shares = (rng.permutation(rows) + rng.random(rows)) / rows
    drawn = truncnorm.ppf(shares, low, high, loc=rate, scale=SPREAD)
    return np.clip(np.asarray(drawn, dtype=np.float64), 0, 1)


def choose(rates: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose each row with its own probability, and as many in all as these add up to, up or down.

    The rates are laid end to end in random order; whoever covers a mark of a ruler with unit steps and
    a random start is chosen.
    """
    order = rng.permutation(len(rates))
    ends = np.cumsum(rates[order]) + rng.random()
    is_chosen = np.empty(len(rates), dtype=bool)
    is_chosen[order] = np.diff(np.floor(ends), prepend=0) > 0
    return is_chosen


def mistaken(x: Floats, label: int, weights: Floats, rng: np.random.Generator) -> Labels:
    """Draw what rows (n, S) of one class are taken for, with softmax(x W) over the other classes."""
    score = x @ weights
    score[:, label] = -np.inf
    likely = np.exp(score - score.max(axis=1, keepdims=True))
    reached = np.cumsum(likely, axis=1)
    drawn = rng.random((len(x), 1)) * reached[:, -1:]
    # The first class whose sum exceeds the draw; the true one adds nothing, so it is never the first.
    return np.asarray((reached > drawn).argmax(axis=1), dtype=np.int64)


def pixels(data: Dataset, rows: Labels) -> Iterator[tuple[Labels, Floats]]:
    """Yield rows with their normalised, un-augmented pixels (n, S), a chunk at a time."""
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        x = data.spec.view.plain(data.train.take(torch.from_numpy(part)))
        # In double precision, so that no label hangs on the order in which a machine adds.
        yield part, x.flatten(1).double().numpy()


@dataclass(frozen=True)
class Instance:
    """Each row has a rate of its own, and is mistaken for what its pixels say (part-dependent).

    Scores of thousands of pixels differ so much that a row nearly always has one class it can be taken
    for. Rates are cut off at 0 and 1, which draws them inwards: at 0.1 about 13 % are wrong.
    """

    rate: float = 0.4  # mean of the rows' own rates, which deviate by 0.1
    shared: bool = False  # one matrix from pixels to classes for all, not one for each class

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        observed, rates = data.y.copy(), own_rates(self.rate, len(data.y), rng)
        # As many numbers as a network sees of a row: more than are stored, where they are skeletons.
        (_, one), *_ = pixels(data, np.zeros(1, dtype=np.int64))
        shape = one.shape[1], len(data.spec.classes)
        weights = rng.standard_normal(shape) if self.shared else None
        for label in range(shape[1]):
            w = rng.standard_normal(shape) if weights is None else weights
            rows = np.flatnonzero(data.y == label)
            for part, x in pixels(data, rows[choose(rates[rows], rng)]):
                observed[part] = mistaken(x, label, w, rng)
        return observed
