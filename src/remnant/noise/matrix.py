"""Noise from a transition matrix: the fraction of each true class that is observed as each class.

Row c of the matrix (C, C) holds the fractions of true class c that are observed as class 0, 1, ...
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.data.dataset import Dataset, Labels, Spec
from remnant.errors import RemnantError
from remnant.noise.from_file import read_array
from remnant.settings import setting, user_path

TOLERANCE = 1e-4  # of row sums: fractions may be rounded to six digits or to single precision


def apportion(fractions: NDArray[np.float64], total: int, rng: np.random.Generator) -> Labels:
    """Divide `total` samples in proportion to `fractions` (largest remainder, ties broken at random).

    >>> apportion(np.array([0.5, 0.3, 0.2]), 7, np.random.default_rng(0)).tolist()
    [4, 2, 1]
    """
    quota = fractions / fractions.sum() * total
    # A quota that is below an integer only because of a rounding error counts as that integer.
    counts: Labels = np.floor(quota + 1e-9).astype(np.int64)
    tie_order = rng.permutation(len(fractions))
    remainder = np.where(fractions > 0, np.round(quota - counts, 9), -1.0)
    largest_first = np.lexsort((tie_order, -remainder))
    counts[largest_first[: total - counts.sum()]] += 1
    return counts


def apply_matrix(y: Labels, matrix: NDArray[np.float64], rng: np.random.Generator) -> Labels:
    """Relabel randomly chosen samples; the number for each pair of classes follows from the matrix."""
    observed = y.copy()
    for label, fractions in enumerate(matrix):
        indices = rng.permutation(np.flatnonzero(y == label))
        observed[indices] = np.repeat(np.arange(len(fractions)), apportion(fractions, len(indices), rng))
    return observed


def read_matrix(path: Path, key: str, spec: Spec) -> NDArray[np.float64]:
    """Read a transition matrix (C, C) for the classes of a dataset, and check it."""
    matrix, size = read_array(path, key, "fractions", "row of the matrix"), len(spec.classes)
    if matrix.dtype.kind not in "fiu" or matrix.shape != (size, size):
        raise RemnantError(
            f"{path}: expected a matrix of {size} x {size} numbers, one row per true class of "
            f"{spec.name}, got an array of shape {matrix.shape} and type {matrix.dtype}."
        )
    fractions = matrix.astype(np.float64)
    invalid = np.argwhere(~(fractions >= 0))
    if len(invalid):
        row, column = invalid[0]
        raise RemnantError(
            f"{path}: expected fractions in [0, 1], got {fractions[row, column]:g} in row {row} "
            f"({spec.classes[row]}), column {column} ({spec.classes[column]})."
        )
    sums = fractions.sum(axis=1)
    rows = np.flatnonzero(np.abs(sums - 1) > TOLERANCE)
    if len(rows):
        is_transposed = np.allclose(fractions.sum(axis=0), 1, atol=TOLERANCE)
        fix = "Its columns do: transpose it." if is_transposed else "Divide each row by its sum."
        raise RemnantError(
            f"{path}: expected rows that sum to 1, got a sum of {sums[rows[0]]:g} in row {rows[0]} "
            f"({spec.classes[rows[0]]}); {len(rows)} rows do not sum to 1. {fix}"
        )
    return fractions


@dataclass(frozen=True)
class Matrix:
    """Transition matrix read from a file: row c holds the fractions of class c observed as each class.

    The file holds a C x C array: .npy, .csv (one row per line), or the array `key` of an .npz.
    """

    path: str = setting("", "file with the transition matrix: .npy, .npz or .csv")
    key: str = setting("", "name of the array in an .npz file")

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("the noise `matrix` needs a path: write matrix:matrix.npy")

    def check(self, spec: Spec) -> None:
        """Raise RemnantError if the file has no transition matrix for the classes of the dataset."""
        read_matrix(user_path(self.path), self.key, spec)

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        matrix = read_matrix(user_path(self.path), self.key, dataset.spec)
        return apply_matrix(dataset.y, matrix, rng)
