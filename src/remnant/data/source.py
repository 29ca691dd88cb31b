"""What a data set is: inputs that can be taken by row, labels beside them, and a description.

N rows of a training set, T rows of a test set, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remnant.augment import View
from remnant.errors import RemnantError, unmet

Labels = NDArray[np.int64]

UNKNOWN = -1  # the true label of a row whose given label is known to be wrong, where no one says more


class AnyView(Protocol):
    """How raw inputs become what a network sees."""

    def plain(self, x: Tensor) -> Tensor:
        """Return inputs as they are tested."""
        ...

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return inputs weakly augmented, each on its own."""
        ...

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return inputs strongly augmented, each on its own."""
        ...


@dataclass(frozen=True)
class Spec:
    """A data set without its rows."""

    name: str
    shape: tuple[int, ...]  # of one input, channels first
    classes: tuple[str, ...]  # names, in the order of the label numbers
    view: AnyView  # how inputs are augmented and normalised
    superclass: tuple[int, ...] = ()  # class -> superclass, where the data set has them
    mistaken_for: Mapping[int, int] = field(default_factory=dict)  # class -> the class it resembles
    dtype: torch.dtype = torch.uint8  # of raw inputs
    labels_are_given: bool = False  # it came with wrong labels, of which the right ones are not known

    def __post_init__(self) -> None:
        count = len(self.classes)
        numbers = {*self.mistaken_for, *self.mistaken_for.values()}
        expected = {
            f"shape: expected a tuple of lengths, got {self.shape!r}": isinstance(self.shape, tuple)
            and all(isinstance(length, int) and length > 0 for length in self.shape),
            f"classes: expected a tuple of two names or more, got {self.classes!r}": count > 1
            and isinstance(self.classes, tuple),
            f"superclass: expected none, or one for each of {count} classes, got "
            f"{len(self.superclass)}": len(self.superclass) in (0, count),
            f"mistaken_for: expected classes from 0 to {count - 1}, got {sorted(numbers)}": numbers
            <= set(range(count)),
        }
        wrong = unmet(expected)
        if wrong:
            raise ValueError("; ".join(wrong))

    @property
    def are_images(self) -> bool:
        """Whether inputs have pixels, which can be cropped, coloured and pasted."""
        return isinstance(self.view, View)


class Source(Protocol):
    """Inputs by row number. It holds no label, so nothing that is given one can peek."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def take(self, rows: Tensor) -> Tensor:
        """Return the raw inputs of these rows, (len(rows), *shape)."""
        ...

    def select(self, rows: Labels) -> "Source":
        """Return these rows as a source of their own; the rest is not kept in memory for it."""
        ...


@dataclass(frozen=True, eq=False)
class Arrays:
    """A source that fits in memory."""

    x: Tensor  # (N, *shape), uint8 for images

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor) -> Tensor:
        """Return the raw inputs of these rows."""
        return self.x[rows]

    def select(self, rows: Labels) -> "Arrays":
        """Return these rows, copied."""
        return Arrays(self.x[torch.from_numpy(rows)])


@dataclass(frozen=True, eq=False)
class Mapped:
    """A source that stays on disk: some rows of an array that is mapped into memory."""

    x: NDArray[np.generic]
    rows: Labels  # (N,) which rows of the array these are

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> Tensor:
        """Return the raw inputs of these rows."""
        return torch.from_numpy(np.asarray(self.x[self.rows[rows.numpy()]]))

    def select(self, rows: Labels) -> "Mapped":
        """Return these rows, which stay on disk."""
        return Mapped(self.x, self.rows[rows])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test rows with their true labels; the labels never travel past the stream."""

    spec: Spec
    train: Source
    y: Labels  # (N,) true labels of the training rows, UNKNOWN where the given one is wrong
    test: Source
    test_y: Labels  # (T,)
    index: Labels  # (N,) position of each training row in the published data set
    published: int  # training rows of the published data set
    folder: Path | None = None  # data folder it was read from, None for the cache
    given: Labels | None = None  # (N,) labels it came with, where some of these are wrong
    skipped: Mapping[str, str] = field(default_factory=dict)  # file that could not be read -> why

    @property
    def named(self) -> Labels:
        """Return the class that the data set names for each training row, right or wrong, (N,)."""
        return self.y if self.given is None else self.given


def arrays(
    spec: Spec,
    x: NDArray[np.generic],
    y: NDArray[np.integer],
    test_x: NDArray[np.generic],
    test_y: NDArray[np.integer],
) -> Dataset:
    """Wrap arrays that fit in memory as a data set, if they are what the spec says."""
    _check(spec, "training", x, y)
    _check(spec, "test", test_x, test_y)
    return Dataset(
        spec=spec,
        train=Arrays(torch.from_numpy(np.ascontiguousarray(x))),
        y=y.astype(np.int64),
        test=Arrays(torch.from_numpy(np.ascontiguousarray(test_x))),
        test_y=test_y.astype(np.int64),
        index=np.arange(len(y), dtype=np.int64),
        published=len(y),
    )


def _check(spec: Spec, which: str, x: NDArray[np.generic], y: NDArray[np.generic]) -> None:
    kind, classes = str(spec.dtype).removeprefix("torch."), len(spec.classes)
    shape = ", ".join(["N", *map(str, spec.shape)])
    expected = {
        f"{which} inputs, got none": len(x) > 0,
        f"{which} inputs ({shape}) of {kind}, got {x.shape} of {x.dtype}": x.shape[1:] == spec.shape
        and str(x.dtype) == kind,
        f"{len(x)} {which} labels, got {y.shape}": y.shape == (len(x),),
        f"finite {which} inputs, got some that are not": x.dtype.kind != "f" or np.isfinite(x).all(),
        f"{which} labels that are whole numbers, got {y.dtype}": np.issubdtype(y.dtype, np.integer),
    }
    wrong = unmet(expected)
    if not wrong and (y.min() < 0 or y.max() >= classes):
        wrong = [f"{which} labels from 0 to {classes - 1}, got {y.min()} to {y.max()}"]
    if wrong:
        raise RemnantError(f"{spec.name}: expected {'; expected '.join(wrong)}. Mend the loader.")


def subset(data: Dataset, per_class: int, rng: np.random.Generator) -> Dataset:
    """Keep `per_class` training rows of each class (all, where there are fewer), in order.

    The class is the true one, or the given one of data whose labels came with it.
    """
    named = data.named
    chosen = [rng.permutation(np.flatnonzero(named == c))[:per_class] for c in np.unique(named)]
    rows = np.sort(np.concatenate(chosen))
    return replace(
        data,
        train=data.train.select(rows),
        y=data.y[rows],
        index=data.index[rows],
        given=None if data.given is None else data.given[rows],
    )
