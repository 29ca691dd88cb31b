"""Label noise: pure functions from true labels to observed ones, and the values that name them.

Noise is drawn once over the whole training set, before it is split into tasks. Of each class exactly
round(rate * n) rows change, chosen with the generator. N rows, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile

import numpy as np

from remnant.data.source import Dataset, Labels, Spec
from remnant.errors import RemnantError


def check_rate(rate: float) -> None:
    """Refuse a rate that is not a share."""
    if not 0 <= rate <= 1:
        hint = f"; for {rate:g} % write {rate / 100:g}" if 1 < rate <= 100 else ""
        raise ValueError(f"a noise rate is a share in [0, 1], got {rate:g}{hint}")


def flip(
    y: Labels, rate: float, others: Mapping[int, Sequence[int]], rng: np.random.Generator
) -> Labels:
    """Change exactly round(rate * n) of the n rows of each class c to one of `others[c]`."""
    observed = y.copy()
    for label, targets in others.items():
        rows = rng.permutation(np.flatnonzero(y == label))
        chosen = rows[: round(rate * len(rows))]
        if len(targets):
            observed[chosen] = rng.choice(np.asarray(targets, dtype=np.int64), size=len(chosen))
    return observed


def symmetric(y: Labels, rate: float, classes: int, rng: np.random.Generator) -> Labels:
    """Change labels to any other class with equal probability; never to the true one."""
    others = {label: [c for c in range(classes) if c != label] for label in range(classes)}
    return flip(y, rate, others, rng)


def pair_flip(y: Labels, rate: float, targets: Mapping[int, int], rng: np.random.Generator) -> Labels:
    """Change labels of class c to `targets[c]`; classes without a target stay."""
    return flip(y, rate, {label: [target] for label, target in targets.items()}, rng)


def next_in_group(groups: Sequence[int]) -> dict[int, int]:
    """Map each class to the next one of its group, the last to the first.

    >>> next_in_group([0, 1, 0, 1, 0])
    {0: 2, 2: 4, 4: 0, 1: 3, 3: 1}
    """
    targets: dict[int, int] = {}
    for group in dict.fromkeys(groups):
        members = [label for label, g in enumerate(groups) if g == group]
        targets |= dict(zip(members, members[1:] + members[:1], strict=True))
    return {label: target for label, target in targets.items() if label != target}


def require_file(path: Path) -> None:
    """Refuse a path that leads to no file."""
    if not path.is_file():
        raise RemnantError(f"{path}: no such file of labels. Give the path of an .npy, .npz or .csv.")


def read_labels(path: Path, key: str) -> Labels:
    """Read whole-number labels from .npy, .npz or .csv; nothing is unpickled."""
    require_file(path)
    try:
        if path.suffix == ".npz":
            labels = _member(path, key)
        elif path.suffix == ".npy":
            labels = np.load(path, allow_pickle=False)
        else:
            labels = np.loadtxt(path, delimiter=",", ndmin=1)
    except (ValueError, TypeError, OSError, EOFError, BadZipFile) as error:
        raise RemnantError(
            f"{path}: expected an array of labels, but it cannot be read ({error}). "
            "Write it with numpy.save(), or as one label a line in a .csv."
        ) from error
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


class Noise(Protocol):
    """Observed labels of a data set's training rows."""

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed label of each row, (N,)."""
        ...


@dataclass(frozen=True)
class Clean:
    """Every label is right."""

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the true labels."""
        return data.y.copy()


@dataclass(frozen=True)
class Symmetric:
    """A share of each class gets another class, all others being equally likely."""

    rate: float = 0.4  # share of rows whose label is wrong

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        return symmetric(data.y, self.rate, len(data.spec.classes), rng)


@dataclass(frozen=True)
class Asymmetric:
    """A share of each class becomes the one class it resembles.

    CIFAR-10: truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog; other classes stay.
    CIFAR-100: the next class inside the superclass, circularly.
    """

    rate: float = 0.4  # share of rows of an affected class whose label is wrong

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        spec = data.spec
        check_fits(self, spec)
        targets = next_in_group(spec.superclass) if spec.superclass else spec.mistaken_for
        return pair_flip(data.y, self.rate, targets, rng)


@dataclass(frozen=True)
class Block:
    """A share of each class becomes the next class of its block of `size` consecutive numbers."""

    rate: float = 0.4
    size: int = 5

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if self.size < 2:
            raise ValueError(f"size is the number of classes of a block, at least 2, got {self.size}")

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        blocks = [label // self.size for label in range(len(data.spec.classes))]
        return pair_flip(data.y, self.rate, next_in_group(blocks), rng)


@dataclass(frozen=True)
class SuperclassRandom:
    """A share of each class gets another class of its superclass, all being equally likely."""

    rate: float = 0.4

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        check_fits(self, data.spec)
        groups = data.spec.superclass
        others = {
            label: [c for c in range(len(groups)) if groups[c] == group and c != label]
            for label, group in enumerate(groups)
        }
        return flip(data.y, self.rate, others, rng)


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


def check_fits(noise: Noise, spec: Spec) -> None:
    """Refuse noise that needs what is not there: knowledge of the classes, or a file."""
    if isinstance(noise, FromFile):
        require_file(Path(noise.path))
    if isinstance(noise, Asymmetric) and not spec.superclass and not spec.mistaken_for:
        raise RemnantError(
            f"asymmetric noise needs to know which classes of {spec.name} resemble each other: it has "
            "neither superclasses nor pairs. Use block:RATE, symmetric:RATE or file:PATH."
        )
    if isinstance(noise, SuperclassRandom) and not spec.superclass:
        raise RemnantError(
            f"superclass-random noise needs superclasses, which {spec.name} has not. "
            "Use symmetric:RATE or block:RATE."
        )


NOISES: dict[str, Noise] = {
    "none": Clean(),
    "symmetric": Symmetric(),
    "asymmetric": Asymmetric(),
    "block": Block(),
    "superclass-random": SuperclassRandom(),
    "file": FromFile(path="labels.npy"),
}
