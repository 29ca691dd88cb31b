"""Arrays from a user's files, and noise that is one: a label for each row as published."""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from remnant.data.source import Dataset, Labels, Spec
from remnant.errors import RemnantError


def require_file(path: Path, content: str) -> None:
    """Refuse a path that leads to no file."""
    if not path.is_file():
        raise RemnantError(f"{path}: no such file of {content}. Give the path of an .npy, .npz or .csv.")


def read_array(path: Path, key: str, content: str, line: str) -> np.ndarray:
    """Read an array from .npy, .npz or .csv; nothing is unpickled.

    `content` and `line` say what it should hold, and what a line of a .csv.
    """
    require_file(path, content)
    try:
        if path.suffix == ".npz":
            return _member(path, key)
        if path.suffix == ".npy":
            array: np.ndarray = np.load(path, allow_pickle=False)
            return array
        return np.loadtxt(path, delimiter=",", ndmin=1)
    except (ValueError, TypeError, OSError, EOFError, BadZipFile) as error:
        raise RemnantError(
            f"{path}: expected an array of {content}, but it cannot be read ({error}). "
            f"Write it with numpy.save(), or as one {line} a line in a .csv."
        ) from error


def read_labels(path: Path, key: str) -> Labels:
    """Read whole-number labels."""
    labels = read_array(path, key, "labels", "label")
    is_number = np.issubdtype(labels.dtype, np.number) and labels.ndim == 1 and len(labels) > 0
    if not is_number or not np.array_equal(labels, np.floor(labels)):
        raise RemnantError(
            f"{path}: expected one whole number for each training row, found an array of "
            f"shape {labels.shape} and type {labels.dtype}."
        )
    return labels.astype(np.int64)


def clean_labels(path: Path) -> Labels | None:
    """Return the array `clean_label` of an archive, which tells whether its order is ours."""
    with np.load(path, allow_pickle=False) as archive:
        return archive["clean_label"].astype(np.int64) if "clean_label" in archive else None


def _member(path: Path, key: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as archive:
        if key not in archive:
            raise RemnantError(
                f"{path}: expected the name of one of its arrays ({', '.join(archive)}), got {key!r}. "
                f"Write --set noise.key={next(iter(archive))}."
            )
        member: np.ndarray = archive[key]
        return member


@dataclass(frozen=True)
class FromFile:
    """Labels read from a file: .npy, .csv (one label a line), or an array named `key` of an .npz.

    The file holds one label for each row of the published training set, in its order.
    """

    path: str = ""
    key: str = ""  # which array of an .npz

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("the noise `file` needs a path: write file:labels.npy")

    def check(self, spec: Spec) -> None:
        """Refuse a path that leads to no file."""
        require_file(Path(self.path), "labels")

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the labels of the file for the rows at hand."""
        labels, classes = read_labels(Path(self.path), self.key), len(data.spec.classes)
        if len(labels) != data.published:
            raise RemnantError(
                f"{self.path}: expected a label for each of the {data.published:,} training rows of "
                f"{data.spec.name}, found {len(labels):,}. Is it made for another data set?"
            )
        if self.key and (truth := clean_labels(Path(self.path))) is not None:
            differs = int((truth[data.index] != data.y).sum())
            if differs:
                raise RemnantError(
                    f"{self.path}: its clean_label differs from {data.spec.name} in {differs:,} of "
                    f"{len(data.y):,} rows. Its rows are in another order; use the file made for it."
                )
        if labels.min() < 0 or labels.max() >= classes:
            raise RemnantError(
                f"{self.path}: expected labels from 0 to {classes - 1}, found "
                f"{labels.min()} to {labels.max()}. Number the classes as {data.spec.name} does."
            )
        return labels[data.index]
