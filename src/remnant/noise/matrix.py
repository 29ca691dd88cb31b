"""Noise by a transition matrix: how likely each class is observed as each other.

Row c of the matrix (C, C) holds the shares of the true class c that are observed as class 0, 1, ...
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.data.source import Dataset, Labels, Spec
from remnant.errors import RemnantError
from remnant.noise.files import read_array

TOLERANCE = 1e-4  # by which a row may miss 1: shares written with six digits, or in single precision


def apportion(shares: NDArray[np.float64], total: int, rng: np.random.Generator) -> Labels:
    """Divide `total` rows by shares that add up to 1, by largest remainder; equal ones draw lots.

    >>> apportion(np.array([0.5, 0.3, 0.2]), 7, np.random.default_rng(0)).tolist()
    [4, 2, 1]
    """
    quota = shares / shares.sum() * total
    # What is whole but for a rounding error is whole.
    counts: Labels = np.floor(quota + 1e-9).astype(np.int64)
    lots = rng.permutation(len(shares))
    remainder = np.where(shares > 0, np.round(quota - counts, 9), -1.0)
    largest_first = np.lexsort((lots, -remainder))
    counts[largest_first[: total - counts.sum()]] += 1
    return counts


def transfer(y: Labels, matrix: NDArray[np.float64], rng: np.random.Generator) -> Labels:
    """Give each class the labels of its row of the matrix, in exact numbers, to rows chosen by lot."""
    observed = y.copy()
    for label, shares in enumerate(matrix):
        rows = rng.permutation(np.flatnonzero(y == label))
        observed[rows] = np.repeat(np.arange(len(shares)), apportion(shares, len(rows), rng))
    return observed


def read_matrix(path: Path, key: str, spec: Spec) -> NDArray[np.float64]:
    """Read the transition matrix of a data set's classes."""
    matrix, size = read_array(path, key, "shares", "row of the matrix"), len(spec.classes)
    if matrix.dtype.kind not in "fiu" or matrix.shape != (size, size):
        raise RemnantError(
            f"{path}: expected a matrix of {size} x {size} numbers, a row for each true class of "
            f"{spec.name}, found an array of shape {matrix.shape} and type {matrix.dtype}."
        )
    shares = matrix.astype(np.float64)
    wrong = np.argwhere(~(shares >= 0))
    if len(wrong):
        row, column = wrong[0]
        raise RemnantError(
            f"{path}: expected shares in [0, 1], found {shares[row, column]:g} in row {row} "
            f"({spec.classes[row]}), column {column} ({spec.classes[column]})."
        )
    sums = shares.sum(axis=1)
    rows = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
    if len(rows):
        columns = shares.sum(axis=0)
        is_transposed = np.allclose(columns, 1, atol=TOLERANCE)
        cure = "Its columns do: transpose it." if is_transposed else "Divide each row by its sum."
        raise RemnantError(
            f"{path}: expected rows that add up to 1, found {sums[rows[0]]:g} in row {rows[0]} "
            f"({spec.classes[rows[0]]}), and {len(rows)} such rows in all. {cure}"
        )
    return shares


@dataclass(frozen=True)
class Matrix:
    """Shares read from a file: row c says how much of class c is observed as each class.

    A matrix of C x C: .npy, .csv (one row a line), or an array named `key` of an .npz.
    """

    path: str = ""
    key: str = ""  # which array of an .npz

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("the noise `matrix` needs a path: write matrix:matrix.npy")

    def check(self, spec: Spec) -> None:
        """Refuse a file that holds no transition matrix of these classes."""
        read_matrix(Path(self.path).expanduser(), self.key, spec)

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        matrix = read_matrix(Path(self.path).expanduser(), self.key, data.spec)
        return transfer(data.y, matrix, rng)
