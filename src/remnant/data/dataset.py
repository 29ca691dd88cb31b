"""Datasets: inputs that can be read by index, their labels, and a description.

N training samples, T test samples, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remnant.errors import RemnantError, unmet
from remnant.transforms.image import ImageTransform

Labels = NDArray[np.int64]
Indices = NDArray[np.int64]

UNKNOWN = -1  # true label of a sample that is known to be mislabelled, if its true class is not known


class Transform(Protocol):
    """Conversion of raw inputs to inputs of a network."""

    def plain(self, x: Tensor) -> Tensor:
        """Return inputs for evaluation, without augmentation."""
        ...

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return weakly augmented inputs, each augmented independently."""
        ...

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return strongly augmented inputs, each augmented independently."""
        ...


@dataclass(frozen=True)
class Spec:
    """Description of a dataset, available without loading any samples."""

    name: str
    shape: tuple[int, ...]  # of one input, channels first
    classes: tuple[str, ...]  # class names, in the order of the label numbers
    transform: Transform  # normalisation and augmentation of inputs
    superclass: tuple[int, ...] = ()  # class -> superclass; empty if there are none
    confused_with: Mapping[int, int] = field(default_factory=dict)  # class -> similar class
    dtype: torch.dtype = torch.uint8  # of raw inputs
    has_noisy_labels: bool = False  # published with noisy labels whose true classes are unknown

    def __post_init__(self) -> None:
        count = len(self.classes)
        numbers = {*self.confused_with, *self.confused_with.values()}
        expected = {
            f"shape: expected a tuple of sizes, got {self.shape!r}": isinstance(self.shape, tuple)
            and all(isinstance(size, int) and size > 0 for size in self.shape),
            f"classes: expected a tuple of at least two names, got {self.classes!r}": count > 1
            and isinstance(self.classes, tuple),
            f"superclass: expected none, or one for each of {count} classes, got {len(self.superclass)}": len(
                self.superclass
            )
            in (0, count),
            f"confused_with: expected classes from 0 to {count - 1}, got {sorted(numbers)}": numbers
            <= set(range(count)),
        }
        wrong = unmet(expected)
        if wrong:
            raise ValueError("; ".join(wrong))

    @property
    def are_images(self) -> bool:
        """Whether inputs are images, to which image augmentations can be applied."""
        return isinstance(self.transform, ImageTransform)


class Source(Protocol):
    """Inputs that can be read by index. A source has no labels, so true labels cannot leak through it."""

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def take(self, index: Tensor) -> Tensor:
        """Return the raw inputs at these indices, (len(index), *shape)."""
        ...

    def select(self, index: Indices) -> "Source":
        """Return a source with only these samples; the others are not kept in memory."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """A source whose inputs are held in memory."""

    x: Tensor  # (N, *shape), uint8 for images

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Tensor:
        """Return the raw inputs at these indices."""
        return self.x[index]

    def select(self, index: Indices) -> "InMemory":
        """Return a copy of these samples."""
        return InMemory(self.x[torch.from_numpy(index)])


@dataclass(frozen=True, eq=False)
class MemoryMapped:
    """A source whose inputs stay on disk: selected samples of a memory-mapped array."""

    x: NDArray[np.generic]
    index: Indices  # (N,) positions of the samples in the array

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Tensor) -> Tensor:
        """Return the raw inputs at these indices."""
        return torch.from_numpy(np.asarray(self.x[self.index[index.numpy()]]))

    def select(self, index: Indices) -> "MemoryMapped":
        """Return a source with these samples, which stay on disk."""
        return MemoryMapped(self.x, self.index[index])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples with their true labels, which only noise and stream may read."""

    spec: Spec
    train: Source
    y: Labels  # (N,) true labels of the training samples, UNKNOWN where the given label is noisy
    test: Source
    test_y: Labels  # (T,)
    index: Indices  # (N,) position of each training sample in the published dataset
    published: int  # number of training samples in the published dataset
    folder: Path | None = None  # data folder that it was loaded from; None: the cache
    given: Labels | None = None  # (N,) labels provided with the dataset, if they are noisy
    skipped: Mapping[str, str] = field(default_factory=dict)  # file that could not be read -> reason

    @property
    def provided_labels(self) -> Labels:
        """Return the labels provided with the dataset, clean or noisy, (N,)."""
        return self.y if self.given is None else self.given


def arrays(
    spec: Spec,
    x: NDArray[np.generic],
    y: NDArray[np.integer],
    test_x: NDArray[np.generic],
    test_y: NDArray[np.integer],
) -> Dataset:
    """Return a dataset of arrays in memory, after checking that they match the spec."""
    _check(spec, "training", x, y)
    _check(spec, "test", test_x, test_y)
    return Dataset(
        spec=spec,
        train=InMemory(torch.from_numpy(np.ascontiguousarray(x))),
        y=y.astype(np.int64),
        test=InMemory(torch.from_numpy(np.ascontiguousarray(test_x))),
        test_y=test_y.astype(np.int64),
        index=np.arange(len(y), dtype=np.int64),
        published=len(y),
    )


def _check(spec: Spec, split: str, x: NDArray[np.generic], y: NDArray[np.generic]) -> None:
    kind, classes = str(spec.dtype).removeprefix("torch."), len(spec.classes)
    shape = ", ".join(["N", *map(str, spec.shape)])
    expected = {
        f"{split} inputs, got none": len(x) > 0,
        f"{split} inputs ({shape}) of {kind}, got {x.shape} of {x.dtype}": x.shape[1:] == spec.shape
        and str(x.dtype) == kind,
        f"{len(x)} {split} labels, got {y.shape}": y.shape == (len(x),),
        f"finite {split} inputs, got NaN or infinity": x.dtype.kind != "f" or np.isfinite(x).all(),
        f"integer {split} labels, got {y.dtype}": np.issubdtype(y.dtype, np.integer),
    }
    wrong = unmet(expected)
    if not wrong and (y.min() < 0 or y.max() >= classes):
        wrong = [f"{split} labels from 0 to {classes - 1}, got {y.min()} to {y.max()}"]
    if wrong:
        raise RemnantError(f"{spec.name}: expected {'; expected '.join(wrong)}. Fix the loader.")


def subset(data: Dataset, per_class: int, rng: np.random.Generator) -> Dataset:
    """Return a dataset with `per_class` random training samples of each class, in their original order.

    All samples of smaller classes are kept. Classes are those of the provided labels, which may be noisy.
    """
    labels = data.provided_labels
    chosen = [rng.permutation(np.flatnonzero(labels == c))[:per_class] for c in np.unique(labels)]
    index = np.sort(np.concatenate(chosen))
    return replace(
        data,
        train=data.train.select(index),
        y=data.y[index],
        index=data.index[index],
        given=None if data.given is None else data.given[index],
    )
