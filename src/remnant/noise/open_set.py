"""Open-set noise: some training samples are of no class of the dataset, but have a label.

Their inputs are replaced, and their labels are kept (Wang et al., 2018). N samples, n of them replaced;
images of K channels and H x W pixels.
"""

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from remnant.data.dataset import UNKNOWN, Dataset, Indices, InMemory, Labels, Source, Spec
from remnant.data.files import repair_command
from remnant.data.registry import entry, load, require_files
from remnant.errors import MissingFiles, RemnantError
from remnant.noise.base import check_rate
from remnant.settings import setting

MOSAIC = "mosaic"
GRID = 4  # a mosaic has GRID x GRID patches
CHUNK = 256  # images that are read at once


def choose(y: Labels, rate: float, rng: np.random.Generator) -> Indices:
    """Choose exactly round(rate * n_c) of the n_c samples of each class; return their positions in order."""
    found = []
    for label in np.unique(y):
        indices = rng.permutation(np.flatnonzero(y == label))
        found.append(indices[: round(rate * len(indices))])
    return np.sort(np.concatenate(found))


def mosaics(source: Source, shape: tuple[int, ...], count: int, rng: np.random.Generator) -> Tensor:
    """Return images (count, K, H, W) of 16 patches, each from a random place of a random image."""
    _, height, width = shape
    rows, columns = (np.arange(GRID + 1) * side // GRID for side in (height, width))
    donor = rng.integers(len(source), size=(count, GRID, GRID))
    place = rng.random((count, GRID, GRID, 2))
    x = torch.empty((count, *shape), dtype=torch.uint8)
    for start in range(0, count, CHUNK):
        part = slice(start, start + CHUNK)
        for r, c in product(range(GRID), range(GRID)):
            size = rows[r + 1] - rows[r], columns[c + 1] - columns[c]
            images = source.take(torch.from_numpy(donor[part, r, c])).numpy()
            corner = np.floor(place[part, r, c] * (height - size[0] + 1, width - size[1] + 1)).astype(
                np.int64
            )
            patch = images[
                np.arange(len(images))[:, None, None],
                :,
                (corner[:, :1] + np.arange(size[0]))[:, :, None],
                (corner[:, 1:] + np.arange(size[1]))[:, None, :],
            ]  # (n, h, w, K)
            target = x[part, :, rows[r] : rows[r + 1], columns[c] : columns[c + 1]]
            target.copy_(torch.from_numpy(patch).permute(0, 3, 1, 2))
    return x


def fitted(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return uint8 images (n, ...) in another shape (K, H, W): bilinear, grey if the channels differ.

    >>> fitted(torch.tensor([[[[10]], [[20]], [[60]]]], dtype=torch.uint8), (1, 1, 1)).tolist()
    [[[[30]]]]
    """
    channels, *size = shape
    values = x.double()
    if x.shape[1] != channels:
        values = values.mean(1, keepdim=True).expand(-1, channels, -1, -1)
    if list(x.shape[2:]) != size:
        values = interpolate(values, size, mode="bilinear", antialias=True)
    return values.round().clamp(0, 255).to(torch.uint8)


def draw_images(source: Source, shape: tuple[int, ...], count: int, rng: np.random.Generator) -> Tensor:
    """Draw images (count, K, H, W) of a source, without repetition if it has enough of them."""
    index = torch.from_numpy(rng.choice(len(source), count, replace=count > len(source)))
    parts = [fitted(source.take(part), shape) for part in index.split(CHUNK)]
    return torch.cat(parts) if count else torch.empty((0, *shape), dtype=torch.uint8)


@dataclass(frozen=True, eq=False)
class ReplacedInputs:
    """A source in which some inputs are replaced; the others may stay on disk."""

    source: Source
    place: Indices  # (N,) position in x; -1: the input is not replaced
    x: Tensor  # (n, *shape)

    def __len__(self) -> int:
        return len(self.place)

    def take(self, index: Tensor) -> Tensor:
        """Return the raw inputs at these indices."""
        inputs, place = self.source.take(index).clone(), torch.from_numpy(self.place)[index]
        inputs[place >= 0] = self.x[place[place >= 0]]
        return inputs

    def select(self, index: Indices) -> "ReplacedInputs":
        """Return a source with only these samples."""
        place = self.place[index]
        is_new = place >= 0
        numbered = np.where(is_new, np.cumsum(is_new) - 1, -1)
        return ReplacedInputs(self.source.select(index), numbered, self.x[torch.from_numpy(place[is_new])])


def with_inputs(source: Source, index: Indices, x: Tensor) -> Source:
    """Return a source with other inputs (n, *shape) at these positions (n,)."""
    if isinstance(source, InMemory):
        changed = source.x.clone()
        changed[torch.from_numpy(index)] = x
        return InMemory(changed)
    place = np.full(len(source), -1, dtype=np.int64)
    place[index] = np.arange(len(index))
    return ReplacedInputs(source, place, x)


@dataclass(frozen=True)
class OpenSet:
    """A fraction of each class is replaced by images of no class, with the labels kept.

    These images are mosaics of 16 patches of random training images, or images of another dataset, resized
    if necessary: CIFAR-10 with noise.source=cifar100 is the usual benchmark.
    """

    rate: float = setting(0.4, "noise rate: fraction of samples of no class")
    source: str = setting(
        MOSAIC, "images of no class: mosaic (patches of random training images), or the name of a dataset"
    )

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def check(self, spec: Spec) -> None:
        """Raise RemnantError if the samples are no images, or if there are no images to replace them with."""
        if not spec.are_images:
            raise RemnantError(
                f"open-set noise needs images, but samples of {spec.name} are {spec.kind}. Use "
                "symmetric:RATE."
            )
        other = None if self.source == MOSAIC else entry(self.source).spec
        if other is not None and (not other.are_images or other.name == spec.name):
            found = "the same one" if other.name == spec.name else f"a dataset of {other.kind}"
            raise RemnantError(
                f"noise.source: expected mosaic or another dataset of images, got {self.source}, {found}."
            )

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Dataset:
        """Return the dataset with some inputs replaced, whose true labels are UNKNOWN."""
        self.check(dataset.spec)
        index, shape = choose(dataset.y, self.rate, rng), dataset.spec.shape
        if self.source == MOSAIC:
            x = mosaics(dataset.train, shape, len(index), rng)
        else:
            x = draw_images(self._load(dataset.folder).train, shape, len(index), rng)
        truth = dataset.y.copy()
        truth[index] = UNKNOWN
        return replace(dataset, train=with_inputs(dataset.train, index, x), y=dataset.y.copy(), truth=truth)

    def _load(self, folder: Path | None) -> Dataset:
        """Load the other dataset; its files must exist, since the plan of a run must not download any."""
        try:
            require_files(self.source, folder)
        except MissingFiles as error:
            raise MissingFiles(
                f"noise.source: expected the files of {self.source}, found none. Download them: "
                f"{repair_command(self.source, folder)}"
            ) from error
        return load(self.source, folder)
