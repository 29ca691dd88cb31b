"""Samples of a learner, and those that are read by name: own data and datasets.

n images.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from remnant.data import OwnData, data_dir, load, names, parse_own_data
from remnant.data.dataset import Indices, Source
from remnant.data.images import ImageList
from remnant.data.own.listing import Listing
from remnant.errors import RemnantError
from remnant.extensions import is_own_data
from remnant.models.model import Label


@dataclass(frozen=True, eq=False)
class Samples:
    """Raw images with their labels, and their files if they have any."""

    images: Source  # n images
    labels: list[Label]
    files: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)  # file or row -> reason
    notes: tuple[str, ...] = ()  # what a user should know of the samples


@dataclass(frozen=True, eq=False)
class Arrived:
    """The images of one call, as a source: the ids of samples are counted over all calls."""

    x: Tensor
    first: int  # id of the first image

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Tensor:
        """Return the raw images with these ids."""
        return self.x[index - self.first]

    def select(self, index: Indices) -> "Arrived":
        """Return these images only."""
        return Arrived(self.x[torch.from_numpy(index)], self.first)


def read_data(data: str | Path, folder: Path | None, side: int) -> Samples:
    """Return the training samples of own data, of a folder of class folders, or of a dataset by its name.

    Own images are decoded with `side` x `side` pixels. `folder` is the data folder.
    """
    text = str(data)
    if not is_own_data(text) and text not in names() and os.path.isdir(text):
        text = f"folder:{text}"
    if is_own_data(text):
        return _own_samples(replace(parse_own_data(text), image_size=side), data_dir(folder))
    if text not in names():
        if text.endswith(".csv") and os.path.isfile(text):
            raise RemnantError(f"{text}: expected the name of data, got a file. Write table:{text}.")
        raise RemnantError(
            f"{text}: expected a folder of class folders, folder:DIR, table:FILE.csv, hf:NAME or a dataset "
            f"({', '.join(names())})."
        )
    found = load(text, data_dir(folder))
    return Samples(found.train, [found.spec.classes[y] for y in found.y], (), found.skipped)


def _own_samples(own: OwnData, folder: Path | None) -> Samples:
    """Return the training split, or all samples if there is no test split."""
    listing, decoded = own.listing, own.decoded(folder)
    is_test = np.zeros(len(listing.labels), bool) if listing.is_test is None else listing.is_test
    kept = np.flatnonzero(~is_test[decoded.index])
    images = listing.images
    home = str(images.home) if isinstance(images, ImageList) else ""  # otherwise names are no paths
    return Samples(
        images=decoded.source.select(kept),
        labels=[listing.labels[i] for i in decoded.index[kept]],
        files=tuple(os.path.join(home, images.files[i]) for i in decoded.index[kept]),
        left_out={**listing.left_out, **decoded.skipped},
        notes=tuple(_notes(listing, int(is_test.sum()))),
    )


def _notes(listing: Listing, tests: int) -> Iterator[str]:
    yield from listing.notes
    if tests:
        yield f"samples of the test split, which are not learned: {tests:,}"
    if len(set(listing.task)) > 1:
        yield "the column task is not used: all samples are learned as one task"
