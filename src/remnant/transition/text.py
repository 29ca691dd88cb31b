"""A transition matrix for a terminal."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from remnant.data.source import Labels
from remnant.transition.counts import Rates, rates, wrong

MATRIX_UP_TO = 12  # classes; the columns of more do not fit beside each other


def table(counts: Labels, names: Sequence[str]) -> str:
    """Return the rates in %: as a matrix, or each class with those it is mistaken for most."""
    labels = [name if name == str(c) else f"{c} {name}" for c, name in enumerate(names)]
    wide = max(len(label) for label in [*labels, "rows observed"])
    digits = max(4, len(str(int(max(counts.sum(axis=0).max(), counts.sum(axis=1).max())))))
    right = matrix(counts, digits) if len(names) <= MATRIX_UP_TO else listed(counts, names)
    heads = [
        f"  {label:{wide}} {rows:{digits}}  {100 * share:5.1f} %  "
        for label, rows, share in zip(labels, counts.sum(axis=1), wrong(counts), strict=True)
    ]
    top = f"  {'true class':{wide}} {'rows':>{digits}}    wrong  "
    below = f"{'  rows observed':{len(top)}}"
    left = [" " * len(top), top, *heads, below]
    return "\n".join(f"{a}{b}".rstrip() for a, b in zip(left, right, strict=False))


def given_table(given: Labels, is_wrong: NDArray[np.bool_], names: Sequence[str]) -> str:
    """Return how many rows came with each label, and how many of these labels are wrong, in %.

    That is all there is to say where nobody knows what the rows with a wrong label show.

    >>> print(given_table(np.array([0, 0, 1]), np.array([True, False, False]), ["pho", "pizza"]))
      given label   rows    wrong
      0 pho            2   50.0 %
      1 pizza          1    0.0 %
      what rows with a wrong label show is not known: there is no transition matrix
    """
    labels = [f"{c} {name}" for c, name in enumerate(names)]
    wide = max(len(label) for label in [*labels, "given label"])
    rows = np.bincount(given, minlength=len(names))
    shares = np.bincount(given, is_wrong, len(names)) / np.maximum(rows, 1)
    lines = [
        f"  {a:{wide}} {n:6}  {100 * s:5.1f} %" for a, n, s in zip(labels, rows, shares, strict=True)
    ]
    below = "  what rows with a wrong label show is not known: there is no transition matrix"
    return "\n".join([f"  {'given label':{wide}}   rows    wrong", *lines, below])


def matrix(counts: Labels, digits: int) -> list[str]:
    """Return two heads, the rates of each class, and how many rows are observed as each."""
    cells = [[cell(share) for share in row] for row in rates(counts)]
    lines = [[str(c) for c in range(len(counts))], *cells, [str(n) for n in counts.sum(axis=0)]]
    return [
        "observed as, in % of the class",
        *(" ".join(f"{word:>{digits}}" for word in line) for line in lines),
    ]


def listed(counts: Labels, names: Sequence[str]) -> list[str]:
    """Return two heads, and for each class how many rows are observed as it, and its mistakes."""
    seen, shares = counts.sum(axis=0), rates(counts)
    lines = [f"{seen[c]:>8}  {mistakes(shares[c], c, names)}" for c in range(len(names))]
    return ["    rows  observed as,", "observed  in % of the class", *lines]


def cell(share: float) -> str:
    """Return a share in % in at most four characters; nothing is a dot.

    >>> [cell(share) for share in (0, 0.0004, 0.0312, 0.25, 1)]
    ['.', '0.0', '3.1', '25.0', '100']
    """
    percent = 100 * share
    return "." if share == 0 else f"{percent:.1f}" if percent < 99.95 else "100"


def mistakes(shares: Rates, own: int, names: Sequence[str], most: int = 3) -> str:
    """Return the classes that one is most often mistaken for, with their shares in %.

    >>> mistakes(np.array([0.7, 0.1, 0.2, 0]), 0, ["cat", "dog", "deer", "ship"])
    'deer 20.0, dog 10.0'
    """
    order = [int(c) for c in np.argsort(-shares, kind="stable") if c != own and shares[c] > 0]
    words = [f"{names[c]} {cell(shares[c])}" for c in order[:most]]
    return ", ".join([*words, "..."] if len(order) > most else words)
