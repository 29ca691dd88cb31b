"""Readers for arrays in user-provided files, and noise whose labels are read from a file."""

import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remnant.data.dataset import Dataset, Labels, Spec
from remnant.data.files import ARRAY_READ_ERRORS, MAX_HEADER
from remnant.errors import RemnantError
from remnant.settings import read_file, setting, user_path


def require_file(path: Path, content: str) -> None:
    """Raise RemnantError if a path is not a file."""
    try:
        is_file, found = path.is_file(), "none"
    except OSError as error:  # no permission to access a parent folder
        is_file, found = False, str(error.strerror)
    if not is_file:
        raise RemnantError(
            f"{path}: expected a file of {content}, found {found}. Give a path to an .npy, .npz or .csv."
        )


def _content(path: Path) -> io.BytesIO:
    return io.BytesIO(read_file(path))


def read_array(path: Path, key: str, content: str, line: str) -> np.ndarray:
    """Read an array from .npy, .npz or .csv, without unpickling.

    `content` and `line` describe the file and a line of a .csv file in error messages.
    """
    require_file(path, content)
    try:
        if path.suffix == ".npz":
            return _read_member(path, key)
        if path.suffix == ".npy":
            array = np.load(_content(path), allow_pickle=False, max_header_size=MAX_HEADER)
            if not isinstance(array, np.ndarray):
                raise ValueError("it is an .npz archive: rename it to end with .npz")
            return array
        with warnings.catch_warnings(action="error", category=UserWarning):  # numpy warns about empty files
            return np.loadtxt(_content(path), delimiter=",", ndmin=1)
    except (*ARRAY_READ_ERRORS, UserWarning) as error:
        raise RemnantError(
            f"{path}: expected an array of {content}, but it cannot be read ({error}). "
            f"Write it with numpy.save(), or as a .csv with one {line} per line."
        ) from error


def read_labels(path: Path, key: str) -> Labels:
    """Read integer labels (N,) from .npy, .npz or .csv."""
    labels = read_array(path, key, "labels", "label")
    if not _are_integers(labels):
        found = f"an array of shape {labels.shape} and type {labels.dtype}"
        if labels.ndim == 1 and labels.dtype.kind == "f":
            fractional = np.flatnonzero(labels != np.round(labels))  # includes NaN
            found = f"{labels[fractional[0]]} at index {fractional[0]}" if len(fractional) else found
        raise RemnantError(f"{path}: expected one integer per training sample, got {found}.")
    return labels.astype(np.int64)


def read_archive(path: Path) -> dict[str, Labels]:
    """Return the integer arrays (N,) of an .npz file by name; other arrays are ignored."""
    try:
        with np.load(_content(path), allow_pickle=False, max_header_size=MAX_HEADER) as archive:
            arrays = {name: _without_objects(archive, name) for name in archive}
    except ARRAY_READ_ERRORS as error:
        raise RemnantError(
            f"{path}: expected an archive of arrays, but it cannot be read ({error}). "
            "Write it with numpy.savez()."
        ) from error
    return {name: y.astype(np.int64) for name, y in arrays.items() if _are_integers(y)}


def _without_objects(archive: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    try:
        member = archive[name]
    except ValueError:  # an array of Python objects, which would need unpickling
        return np.empty(0)
    return member if isinstance(member, np.ndarray) else np.empty(0)  # bytes, if it is no array file


def _are_integers(labels: np.ndarray) -> bool:
    is_vector = labels.ndim == 1 and len(labels) > 0
    is_real = labels.dtype.kind in "iuf"  # numpy counts time spans among the integers
    if not is_vector or not is_real:
        return False
    fits = np.abs(labels.astype(np.float64)) < 2**53  # also false for NaN; larger ones overflow an int64
    return bool((fits & (labels == np.floor(labels))).all())


def select_labels(path: Path, labels: Labels, dataset: Dataset) -> Labels:
    """Return the labels of the samples of a dataset; raise RemnantError if they do not fit the dataset."""
    classes = len(dataset.spec.classes)
    if len(labels) != dataset.published:
        raise RemnantError(
            f"{path}: expected a label for each of the {dataset.published:,} training samples of "
            f"{dataset.spec.name}, got {len(labels):,}. Is the file for another dataset?"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise RemnantError(
            f"{path}: expected labels from 0 to {classes - 1}, got {labels.min()} to {labels.max()}. "
            f"Number the classes as in {dataset.spec.name}."
        )
    return labels[dataset.index]


def check_true_labels(path: Path, name: str, labels: Labels, dataset: Dataset) -> None:
    """Raise RemnantError if the true labels in a file differ from those of the dataset."""
    truth = select_labels(path, labels, dataset)
    differ = np.flatnonzero(truth != dataset.y)
    if len(differ):
        first, classes = differ[0], dataset.spec.classes
        raise RemnantError(
            f"{path}: expected the true labels of {dataset.spec.name} in {name}, but {len(differ):,} of "
            f"{len(dataset.y):,} differ, first at index {dataset.index[first]}: expected "
            f"{classes[dataset.y[first]]}, got {classes[truth[first]]}. The samples are in a different "
            f"order; use the file made for {dataset.spec.name}."
        )


def _read_member(path: Path, key: str) -> np.ndarray:
    with np.load(_content(path), allow_pickle=False, max_header_size=MAX_HEADER) as archive:
        if not archive.files:
            raise RemnantError(f"{path}: expected an archive of arrays, got an empty one.")
        if key not in archive:
            raise RemnantError(
                f"{path}: expected the name of one of its arrays ({', '.join(archive)}), got {key!r}. "
                f"Write noise.key={next(iter(archive))}."
            )
        member: np.ndarray | bytes = archive[key]  # numpy returns the content of other files as it is
        if isinstance(member, bytes):
            raise ValueError(f"{key} is not an array")
        return member


@dataclass(frozen=True)
class FromFile:
    """Labels read from a file: .npy, .csv (one label per line), or the array `key` of an .npz.

    The file holds one label for each sample of the published training split, in the same order.
    """

    path: str = setting("", "file with the labels: .npy, .npz or .csv")
    key: str = setting("", "name of the array in an .npz file")

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("the noise `file` needs a path: write file:labels.npy")

    def check(self, spec: Spec) -> None:
        """Raise RemnantError if the path is not a file."""
        require_file(user_path(self.path), "labels")

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return the labels in the file for the samples of the dataset."""
        path = user_path(self.path)
        labels = read_labels(path, self.key)
        if self.key and (truth := read_archive(path).get("clean_label")) is not None:
            check_true_labels(path, "clean_label", truth, dataset)
        return select_labels(path, labels, dataset)
