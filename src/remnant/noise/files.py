"""Arrays from a user's files, and noise that is one: a label for each row as published."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remnant.data.files import UNREADABLE
from remnant.data.source import Dataset, Labels, Spec
from remnant.errors import RemnantError


def require_file(path: Path, content: str) -> None:
    """Refuse a path that leads to no file."""
    try:
        is_file, found = path.is_file(), "none"
    except OSError as error:  # a folder on the way may not be entered
        is_file, found = False, str(error.strerror)
    if not is_file:
        raise RemnantError(
            f"{path}: expected a file of {content}, found {found}. Give the path of an .npy, .npz or "
            ".csv."
        )


def read_array(path: Path, key: str, content: str, line: str) -> np.ndarray:
    """Read an array from .npy, .npz or .csv; nothing is unpickled.

    `content` and `line` say what it should hold, and what a line of a .csv.
    """
    require_file(path, content)
    try:
        if path.suffix == ".npz":
            return _member(path, key)
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                raise ValueError("an archive: its name should end with .npz")
            return array
        with warnings.catch_warnings(action="error", category=UserWarning):  # it is empty
            return np.loadtxt(path, delimiter=",", ndmin=1)
    except (*UNREADABLE, UserWarning) as error:
        raise RemnantError(
            f"{path}: expected an array of {content}, but it cannot be read ({error}). "
            f"Write it with numpy.save(), or as one {line} a line in a .csv."
        ) from error


def read_labels(path: Path, key: str) -> Labels:
    """Read whole-number labels."""
    labels = read_array(path, key, "labels", "label")
    if not _is_whole(labels):
        found = f"an array of shape {labels.shape} and type {labels.dtype}"
        if labels.ndim == 1 and labels.dtype.kind == "f":
            row = np.flatnonzero(labels != np.round(labels))  # nan is not its own
            found = f"{labels[row[0]]} in row {row[0]}" if len(row) else found
        raise RemnantError(f"{path}: expected one whole number for each training row, found {found}.")
    return labels.astype(np.int64)


def read_archive(path: Path) -> dict[str, Labels]:
    """Return every array of whole numbers (N,) in an .npz, by name."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: _unpickled(archive, name) for name in archive}
    except UNREADABLE as error:
        raise RemnantError(
            f"{path}: expected an archive of arrays, but it cannot be read ({error}). "
            "Write it with numpy.savez()."
        ) from error
    return {name: y.astype(np.int64) for name, y in arrays.items() if _is_whole(y)}


def _unpickled(archive: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    try:
        return archive[name]
    except ValueError:  # objects, which are of no use here
        return np.empty(0)


def _is_whole(labels: np.ndarray) -> bool:
    is_row = labels.ndim == 1 and len(labels) > 0
    is_real = np.issubdtype(labels.dtype, np.integer) or np.issubdtype(labels.dtype, np.floating)
    return bool(is_row and is_real and np.isfinite(labels).all() and (labels == np.floor(labels)).all())


def of_rows(path: Path, labels: Labels, data: Dataset) -> Labels:
    """Return the labels of the rows at hand; refuse those of other rows or other classes."""
    classes = len(data.spec.classes)
    if len(labels) != data.published:
        raise RemnantError(
            f"{path}: expected a label for each of the {data.published:,} training rows of "
            f"{data.spec.name}, found {len(labels):,}. Is it made for another data set?"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise RemnantError(
            f"{path}: expected labels from 0 to {classes - 1}, found "
            f"{labels.min()} to {labels.max()}. Number the classes as {data.spec.name} does."
        )
    return labels[data.index]


def require_truth(path: Path, name: str, labels: Labels, data: Dataset) -> None:
    """Refuse a file whose own true labels are not those of the data: its rows are in another order."""
    truth = of_rows(path, labels, data)
    differ = np.flatnonzero(truth != data.y)
    if len(differ):
        first, classes = differ[0], data.spec.classes
        raise RemnantError(
            f"{path}: its {name} differs from {data.spec.name} in {len(differ):,} of {len(data.y):,} "
            f"rows, first in row {data.index[first]}: {classes[truth[first]]} there, "
            f"{classes[data.y[first]]} here. Its rows are in another order; use the file made for it."
        )


def _member(path: Path, key: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as archive:
        if not archive.files:
            raise RemnantError(f"{path}: expected an archive of arrays, found an empty one.")
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
        require_file(Path(self.path).expanduser(), "labels")

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the labels of the file for the rows at hand."""
        path = Path(self.path).expanduser()
        labels = read_labels(path, self.key)
        if self.key and (truth := read_archive(path).get("clean_label")) is not None:
            require_truth(path, "clean_label", truth, data)
        return of_rows(path, labels, data)
