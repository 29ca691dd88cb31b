"""Datasets: inputs that can be read by index, their labels, and a description.

N training samples, T test samples, C classes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remnant.data.rows import Rows
from remnant.errors import RemnantError, unmet
from remnant.transforms.image import ImageTransform
from remnant.transforms.resizing import Resize, upright_crop

Labels = NDArray[np.int64]
Indices = NDArray[np.int64]

UNKNOWN = -1  # true label of a mislabelled sample whose true class is not known, or that is of no class


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
    resize: Resize = upright_crop  # conversion of image files to inputs

    def __post_init__(self) -> None:
        wrong = unmet(
            {
                f"name: expected a string, got {self.name!r}": isinstance(self.name, str),
                f"shape: expected a tuple of sizes, got {self.shape!r}": isinstance(self.shape, tuple)
                and all(isinstance(size, int) and size > 0 for size in self.shape),
                f"classes: expected a tuple of at least two different names, got {self.classes!r:.60}": (
                    _are_names(self.classes)
                ),
                f"transform: expected an ImageTransform, or an object with plain, augmented and strong, got "
                f"{self.transform!r:.60}": all(
                    callable(getattr(self.transform, name, None)) for name in ("plain", "augmented", "strong")
                ),
                f"dtype: expected torch.uint8 for ImageTransform, which divides by 255, got {self.dtype}": (
                    not self.are_images or self.dtype == torch.uint8
                ),
                f"superclass: expected a tuple of numbers, got {self.superclass!r:.60}": isinstance(
                    self.superclass, tuple
                ),
            }
        )
        if not wrong:
            count, numbers = len(self.classes), {*self.confused_with, *self.confused_with.values()}
            groups = len(self.superclass)
            wrong = unmet(
                {
                    f"superclass: expected none, or one for each of {count} classes, got {groups}": groups
                    in (0, count),
                    f"confused_with: expected classes from 0 to {count - 1}, got {sorted(numbers)}": numbers
                    <= set(range(count)),
                }
            )
        if wrong:
            raise ValueError("; ".join(wrong))

    @property
    def are_images(self) -> bool:
        """Whether inputs are images, to which image augmentations can be applied."""
        return isinstance(self.transform, ImageTransform)

    @property
    def kind(self) -> str:
        """Return what inputs are: images, vectors or skeletons."""
        return "images" if self.are_images else "vectors" if len(self.shape) == 1 else "skeletons"


def _are_names(classes: object) -> bool:
    is_tuple = isinstance(classes, tuple) and all(isinstance(name, str) for name in classes)
    return is_tuple and 1 < len(set(classes)) == len(classes)  # type: ignore[call-overload, arg-type]


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
    """Training and test samples with their labels. Only noise and stream may read the true labels."""

    spec: Spec
    train: Source
    y: Labels  # (N,) labels provided for the training samples, which may be noisy
    test: Source
    test_y: Labels  # (T,)
    index: Indices  # (N,) position of each training sample in the published dataset
    published: int  # number of training samples in the published dataset
    folder: Path | None = None  # data folder that it was loaded from; None: the cache
    truth: Labels | None = None  # (N,) true labels; UNKNOWN: y is noisy; None: none of them is known
    skipped: Mapping[str, str] = field(default_factory=dict)  # file that is left out -> reason
    notes: tuple[str, ...] = ()  # what a user should know of the samples
    files: tuple[str, ...] = ()  # (N,) file of each training sample; empty if they have none
    rows: Rows | None = None  # None if samples have no order of arrival
    tested_on: str = "test split"  # which samples, and which labels if these may be noisy

    @property
    def is_clean(self) -> bool:
        """Whether all provided labels are known to be true labels."""
        return self.truth is not None and np.array_equal(self.truth, self.y)


Values = Sequence[Any] | NDArray[np.generic] | Tensor


def arrays(
    spec: Spec, x: Values, y: Values, test_x: Values, test_y: Values, truth: Values | None = None
) -> Dataset:
    """Return a dataset of NumPy arrays, tensors or lists in memory, after checking them against the spec.

    `y` are the labels to train on. `truth` are the true labels of the same samples, if they are known;
    pass `truth=y` if all labels are clean. They are never used for training, only to add noise and to
    measure it.
    """
    train, test = _inputs(spec, "training", x), _inputs(spec, "test", test_x)
    observed = _labels(spec, "training labels", y, len(train))
    return Dataset(
        spec=spec,
        train=InMemory(train),
        y=observed,
        test=InMemory(test),
        test_y=_labels(spec, "test labels", test_y, len(test)),
        index=np.arange(len(observed), dtype=np.int64),
        published=len(observed),
        truth=None if truth is None else _labels(spec, "true training labels", truth, len(train), UNKNOWN),
    )


def _inputs(spec: Spec, split: str, x: Values) -> Tensor:
    """Return inputs of the shape and type of the spec.

    Dimensions of size 1 get the strides of a new tensor: the order of the sums in a convolution, and thus the
    last bits of its result, may depend on them.
    """
    kind, shape = str(spec.dtype).removeprefix("torch."), ", ".join(["N", *map(str, spec.shape)])
    found = _array(spec, f"{split} inputs", x)
    is_float = spec.dtype.is_floating_point
    if not isinstance(x, np.ndarray | Tensor) and found.dtype.kind in ("iuf" if is_float else "iu"):
        converted = found.astype(kind)  # a list of numbers has no type of its own
        found = converted if is_float or np.array_equal(converted, found) else found
    pixels = " in [0, 255]" if spec.are_images and found.dtype.kind == "f" else ""  # often given in [0, 1]
    is_finite = found.dtype.kind != "f" or bool(np.isfinite(found).all())
    _expect(
        spec,
        {
            f"{split} inputs, got none": found.size > 0,
            f"{split} inputs ({shape}) of {kind}{pixels}, got {found.shape} of {found.dtype}": str(
                found.dtype
            )
            == kind
            and found.shape[1:] == spec.shape,
            f"finite {split} inputs, got NaN or infinity": is_finite,
        },
    )
    return torch.from_numpy(np.ascontiguousarray(found)).view(found.shape)


def _labels(spec: Spec, what: str, labels: Values, count: int, least: int = 0) -> Labels:
    """Return labels as integers, one for each of `count` samples."""
    found, last = _array(spec, what, labels), len(spec.classes) - 1
    expected = {
        f"{count} {what}, got {found.shape}": found.shape == (count,),
        f"integer {what} (numbers of classes, from 0), got {found.dtype}": np.issubdtype(
            found.dtype, np.integer
        ),
    }
    _expect(spec, expected)
    is_in_range = found.min() >= least and found.max() <= last
    _expect(spec, {f"{what} from {least} to {last}, got {found.min()} to {found.max()}": is_in_range})
    return found.astype(np.int64)


def _array(spec: Spec, what: str, values: Values) -> NDArray[Any]:
    try:
        return values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)
    except (ValueError, TypeError) as error:
        raise RemnantError(
            f"{spec.name}: expected an array of {what}, got {error}. Fix the loader."
        ) from error


def _expect(spec: Spec, expected: Mapping[str, object]) -> None:
    if wrong := unmet(expected):
        raise RemnantError(f"{spec.name}: expected {'; expected '.join(wrong)}. Fix the loader.")


def subset(data: Dataset, per_class: int, rng: np.random.Generator) -> Dataset:
    """Return a dataset with `per_class` random training samples of each class, in their original order.

    All samples of smaller classes are kept. Classes are those of the provided labels, which may be noisy.
    """
    chosen = [rng.permutation(np.flatnonzero(data.y == c))[:per_class] for c in np.unique(data.y)]
    index = np.sort(np.concatenate(chosen))
    return replace(
        data,
        train=data.train.select(index),
        y=data.y[index],
        index=data.index[index],
        truth=None if data.truth is None else data.truth[index],
        files=tuple(data.files[i] for i in index) if data.files else (),
    )


def fingerprint(data: Dataset, observed: Tensor, chunk: int = 128) -> str:
    """Return a digest of all samples and labels, with `observed` as the labels of training."""
    digest = hashlib.sha256()
    for source in (data.train, data.test):
        for index in torch.arange(len(source)).split(chunk):
            digest.update(source.take(index).numpy().tobytes())
    for labels in (observed.numpy(), data.truth, data.test_y, data.index):
        digest.update(b"" if labels is None else labels.tobytes())
    return digest.hexdigest()
