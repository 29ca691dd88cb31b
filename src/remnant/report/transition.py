"""Transition counts (C, C), one row per true class and one column per observed class, as text tables."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from remnant.data.dataset import Labels

Rates = NDArray[np.float64]

MAX_MATRIX_CLASSES = 12  # a matrix of more classes is too wide for a terminal


def transitions(y: Labels, observed: Labels, classes: int) -> Labels:
    """Count samples by true and observed class.

    >>> transitions(np.array([0, 0, 1]), np.array([0, 1, 1]), classes=2).tolist()
    [[1, 1], [0, 1]]
    """
    counts: Labels = np.bincount(y * classes + observed, minlength=classes**2)
    return counts.reshape(classes, classes)


def rates(counts: Labels) -> Rates:
    """Return the fraction of each true class observed as each class; zeros for a class without samples.

    >>> rates(np.array([[3, 1], [0, 0]])).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    fractions: Rates = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return fractions


def noise_rates(counts: Labels) -> Rates:
    """Return the fraction of each true class that is observed as another class, (C,)."""
    fractions = rates(counts)
    noisy: Rates = fractions.sum(axis=1) - fractions.diagonal()
    return noisy


def headline(counts: Labels) -> str:
    """Return a phrase with the number and the percentage of noisy labels."""
    return format_noise_rate(int(counts.sum() - counts.trace()), int(counts.sum()))


def format_noise_rate(noisy: int, total: int) -> str:
    """Return a phrase with the number and the percentage of noisy labels.

    >>> format_noise_rate(9746, 52867)
    '9,746 of 52,867 labels are noisy, 18.43 %'
    """
    return f"{noisy:,} of {total:,} labels are noisy, {100 * noisy / max(total, 1):.2f} %"


def table(counts: Labels, names: Sequence[str]) -> str:
    """Return a table of transition rates in %; for many classes, only the most frequent confusions."""
    labels = [name if name == str(c) else f"{c} {name}" for c, name in enumerate(names)]
    wide = max(13, *(len(label) for label in labels))  # "true class samples" fits over two columns
    digits = max(4, len(str(int(max(counts.sum(axis=0).max(), counts.sum(axis=1).max())))))
    is_matrix = len(names) <= MAX_MATRIX_CLASSES
    right = _matrix_columns(counts, digits) if is_matrix else _confusion_columns(counts, names)
    lines = [
        f"  {label:{wide}} {samples:{digits}}  {100 * rate:5.1f} %  "
        for label, samples, rate in zip(labels, counts.sum(axis=1), noise_rates(counts), strict=True)
    ]
    top = f"  {'true class':{wide + digits - 6}}samples    noisy  "
    left = [" " * len(top), top, *lines, f"{'  samples observed':{len(top)}}"]
    return "\n".join(f"{a}{b}".rstrip() for a, b in zip(left, right, strict=False))


def given_table(given: Labels, is_noisy: NDArray[np.bool_], names: Sequence[str]) -> str:
    """Return a table of the number of samples and the noise rate in % of each given label.

    For noisy samples whose true class is unknown, or that are of no class.

    >>> print(given_table(np.array([0, 0, 1]), np.array([True, False, False]), ["pho", "pizza"]))
      given label samples    noisy
      0 pho             2   50.0 %
      1 pizza           1    0.0 %
      noisy samples are of an unknown class or of no class: there is no transition matrix
    """
    labels = [f"{c} {name}" for c, name in enumerate(names)]
    wide = max(len(label) for label in [*labels, "given label"])
    samples = np.bincount(given, minlength=len(names))
    noisy = np.bincount(given, is_noisy, len(names)) / np.maximum(samples, 1)
    lines = [f"  {a:{wide}} {n:7}  {100 * r:5.1f} %" for a, n, r in zip(labels, samples, noisy, strict=True)]
    note = "  noisy samples are of an unknown class or of no class: there is no transition matrix"
    return "\n".join([f"  {'given label':{wide}} samples    noisy", *lines, note])


def _matrix_columns(counts: Labels, digits: int) -> list[str]:
    """Return two header lines, the transition rates of each class, and the samples observed as each."""
    cells = [[cell(rate) for rate in row] for row in rates(counts)]
    lines = [[str(c) for c in range(len(counts))], *cells, [str(n) for n in counts.sum(axis=0)]]
    return [
        "observed as, in % of the class",
        *(" ".join(f"{word:>{digits}}" for word in line) for line in lines),
    ]


def _confusion_columns(counts: Labels, names: Sequence[str]) -> list[str]:
    """Return two header lines, then for each class the samples observed as it and its confusions."""
    observed, fractions = counts.sum(axis=0), rates(counts)
    lines = [f"{observed[c]:>8}  {confusions(fractions[c], c, names)}" for c in range(len(names))]
    return [" samples  observed as,", "observed  in % of the class", *lines]


def cell(rate: float) -> str:
    """Return a rate in % in at most four characters; a dot for zero.

    >>> [cell(rate) for rate in (0, 0.0004, 0.0312, 0.25, 1)]
    ['.', '0.0', '3.1', '25.0', '100']
    """
    percent = 100 * rate
    return "." if rate == 0 else f"{percent:.1f}" if percent < 99.95 else "100"


def confusions(fractions: Rates, own: int, names: Sequence[str], most: int = 3) -> str:
    """Return the classes that a class is most often observed as, with their rates in %.

    >>> confusions(np.array([0.7, 0.1, 0.2, 0]), 0, ["cat", "dog", "deer", "ship"])
    'deer 20.0, dog 10.0'
    """
    order = [int(c) for c in np.argsort(-fractions, kind="stable") if c != own and fractions[c] > 0]
    words = [f"{names[c]} {cell(fractions[c])}" for c in order[:most]]
    return ", ".join([*words, "..."] if len(order) > most else words)
