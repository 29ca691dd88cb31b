"""Counts (C, C) of rows: one row for each true class, one column for each observed one."""

import numpy as np
from numpy.typing import NDArray

from remnant.data.source import Labels

Rates = NDArray[np.float64]


def transitions(y: Labels, observed: Labels, classes: int) -> Labels:
    """Count rows by true and observed class.

    >>> transitions(np.array([0, 0, 1]), np.array([0, 1, 1]), classes=2).tolist()
    [[1, 1], [0, 1]]
    """
    counts: Labels = np.bincount(y * classes + observed, minlength=classes**2)
    return counts.reshape(classes, classes)


def rates(counts: Labels) -> Rates:
    """Return what share of each true class is observed as each; a class without rows has none.

    >>> rates(np.array([[3, 1], [0, 0]])).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    shares: Rates = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares


def wrong(counts: Labels) -> Rates:
    """Return what share of each true class is observed as another one, (C,)."""
    shares = rates(counts)
    lost: Rates = shares.sum(axis=1) - shares.diagonal()
    return lost


def headline(counts: Labels) -> str:
    """Return how many labels are wrong, in words."""
    return wrong_of(int(counts.sum() - counts.trace()), int(counts.sum()))


def wrong_of(missed: int, total: int) -> str:
    """Return how many of all labels are wrong, in words.

    >>> wrong_of(9746, 52867)
    '9,746 of 52,867 labels are wrong, 18.43 %'
    """
    return f"{missed:,} of {total:,} labels are wrong, {100 * missed / max(total, 1):.2f} %"
