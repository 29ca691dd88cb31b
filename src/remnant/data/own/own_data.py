"""Own data: a listing of images with settings, which is loaded as a dataset.

N training samples, T test samples, n listed samples, S the side length of decoded images.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from remnant.data.dataset import UNKNOWN, Dataset, Indices, Labels, Source, Spec
from remnant.data.files import root
from remnant.data.images import DecodedImages, Images, decode_images, is_decoded
from remnant.data.own.duplicates import content_notes
from remnant.data.own.image_size import is_side, usual_side
from remnant.data.own.listing import Listing, Mask, held_out, natural_order, shortened
from remnant.data.rows import Rows
from remnant.errors import RemnantError, nearest
from remnant.settings import expect, setting
from remnant.transforms.image import ImageTransform

# Mean and standard deviation of photos, as pretrained networks expect them.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class OwnData:
    """Images of a user. Listing them is fast; decoding happens once, into a cache."""

    reader: Callable[["OwnData"], Listing]
    path: str = setting("", "folder, table or name of the dataset")
    image_size: int = setting(
        0, "side length of images in pixels; 0: that of a pretrained network, else 32 or 64 by their size"
    )
    test_share: float = setting(
        0.2,
        "share of each class to hold out, if there is no test split; 0: none, measure on training samples",
    )
    clean: bool = setting(False, "whether all labels are known to be clean, so that noise can be added")
    flip: bool = setting(True, "flip images horizontally in training; false for text and digits")
    label_column: str = setting("label", "column of the labels in a table or Hugging Face dataset")
    follow_links: bool = setting(False, "read links in a folder that point to files outside of it")

    def __post_init__(self) -> None:
        expect(
            {
                "image_size 0 or from 8 to 1024": is_side(self.image_size),
                "test_share from 0 to less than 1": 0 <= self.test_share < 1,
            },
            self,
        )

    @cached_property
    def listing(self) -> Listing:
        """Return the samples; raise RemnantError if there are none."""
        listing = self.reader(self)
        if not listing.classes:
            raise RemnantError(f"{self.path}: expected images of at least two classes, found no images.")
        return listing

    @cached_property
    def side(self) -> int:
        """Return the side length of decoded images."""
        return self.image_size or usual_side(self.listing.images)

    @cached_property
    def spec(self) -> Spec:
        """Return the description of the dataset; raise RemnantError if there is only one class."""
        if len(classes := self.listing.classes) < 2:
            raise RemnantError(
                f"{self.path}: expected images of at least two classes, found only {classes[0]!r}."
            )
        return Spec(
            name=Path(self.path).stem or "images",
            shape=(3, self.side, self.side),
            classes=classes,
            transform=ImageTransform(MEAN, STD, pad=self.side // 8, flip=self.flip),
        )

    @property
    def holds_out(self) -> bool:
        """Whether some of the training samples are held out for testing, because there is no test split."""
        return self.listing.is_test is None and self.test_share > 0

    @property
    def tests_on_training(self) -> bool:
        """Whether the accuracy is measured on the training samples, because there are no others."""
        return self.listing.is_test is None and not self.test_share

    @cached_property
    def is_test(self) -> Mask:
        """Return which listed samples are in the test split, (n,)."""
        listing = self.listing
        if listing.is_test is not None:
            return listing.is_test
        if self.tests_on_training:
            return np.zeros(len(listing.labels), bool)
        tasks = listing.task or ("",) * len(listing.labels)
        return held_out(list(zip(tasks, listing.labels, strict=True)), self.test_share)

    def load(self, folder: Path | None) -> Dataset:
        """Decode the images, or read them from the cache, and return the dataset."""
        images, decoded = self._images(), self.decoded(folder)
        data = self._dataset(decoded.source, decoded.index)
        skipped = {**data.skipped, **decoded.skipped}
        labels = dict(zip(images.files, self.listing.labels, strict=True))
        return replace(data, skipped=skipped, notes=(*data.notes, *content_notes(images, labels)))

    def decoded(self, folder: Path | None) -> DecodedImages:
        """Decode the images of all listed samples, or read them from the cache."""
        place = root(folder)
        place.mkdir(parents=True, exist_ok=True)
        return decode_images(place, self._images(), self.side)

    def blank(self) -> Dataset:
        """Return the dataset with black images, whose samples can be counted before they are decoded."""
        count = len(self.listing.labels)
        return self._dataset(_Blank(count, self.spec.shape), np.arange(count))

    def is_decoded(self, folder: Path | None) -> bool:
        """Return whether the decoded images are in the cache."""
        return is_decoded(root(folder), self._images(), self.side)

    def _images(self) -> Images:
        images = self.listing.images
        return replace(images, name=f"{images.name}-{self.side}")  # type: ignore[type-var]

    def _dataset(self, source: Source, index: Indices) -> Dataset:
        """Return the dataset of the listed samples at `index`, whose images are in `source`."""
        listing, is_test = self.listing, self.is_test[index]
        given = self._numbers(listing.labels)[index]
        truth = self._numbers(listing.truth)[index] if listing.truth else given if self.clean else None
        tested = given if truth is None else truth
        is_measured = ~is_test if self.tests_on_training else is_test
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_measured & (tested != UNKNOWN))
        notes = self._notes(index[is_test & (given == UNKNOWN)], index[tested == UNKNOWN])
        self._check_split(len(train), len(test), notes)
        files = listing.images.files
        return Dataset(
            spec=self.spec,
            train=source.select(train),
            y=given[train],
            test=source.select(test),
            test_y=tested[test],
            index=index[train],
            published=len(listing.labels),
            truth=None if truth is None else truth[train],
            skipped=listing.left_out,
            notes=(*listing.notes, *notes),
            files=tuple(files[i] for i in index[train]),
            rows=self._rows(index[test]),
            tested_on=self._tested_on(),
        )

    def _numbers(self, names: tuple[str, ...]) -> Labels:
        number = {name: i for i, name in enumerate(self.listing.classes)}
        return np.array([number.get(name, UNKNOWN) for name in names], np.int64)

    def _notes(self, without_class: Indices, without_truth: Indices) -> list[str]:
        """Return notes on test samples of unknown classes, and on samples whose true label is no class."""
        listing, notes = self.listing, []
        if names := sorted({listing.labels[i] for i in without_class}):
            notes.append(f"test samples of classes without training samples are left out: {shortened(names)}")
        if listing.truth and (names := sorted({listing.truth[i] for i in without_truth})):
            hint = nearest(names[0], listing.classes).rstrip(".")
            notes.append(
                f"true labels that are no label of a training sample: {shortened(names)}{hint}; test samples "
                "with them are left out, and training samples count as noisy"
            )
        return notes

    def _check_split(self, train: int, test: int, notes: list[str]) -> None:
        if not train or not test:
            reason = f" ({'; '.join(notes)})" if notes else ""
            raise RemnantError(
                f"{self.path}: expected training and test samples, found {train:,} and {test:,} that can be "
                f"used{reason}. Add images, or choose another test_share."
            )

    def _rows(self, test: Indices) -> Rows | None:
        listing = self.listing
        if not listing.is_ordered:
            return None
        number = {name: i for i, name in enumerate(natural_order(listing.task))}
        task = np.array([number[name] for name in listing.task], np.int64) if listing.task else None
        return Rows(test, are_held_out=listing.is_test is None, task=task)

    def _tested_on(self) -> str:
        where = "held-out share" if self.holds_out else "test split"
        where = "training samples" if self.tests_on_training else where
        is_known = self.clean or self.listing.truth
        return where if is_known else f"{where}, against the given labels"


@dataclass(frozen=True, eq=False)
class _Blank:
    """A source of black images."""

    count: int
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.count

    def take(self, index: Tensor) -> Tensor:
        """Return black images."""
        return torch.zeros(len(index), *self.shape, dtype=torch.uint8)

    def select(self, index: Indices) -> "_Blank":
        """Return as many black images."""
        return _Blank(len(index), self.shape)
