"""The data sets, by name."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from remnant.data import cifar, digits, fashion, files, food101n, ntu, nw_ucla
from remnant.data.entry import Entry, plugged, plugins
from remnant.data.files import FileCheck, data_dir, mend, naming
from remnant.data.source import Dataset, Source, Spec, arrays, subset
from remnant.errors import RemnantError, nearest

__all__ = [
    "DATA",
    "Dataset",
    "Entry",
    "FileCheck",
    "Source",
    "Spec",
    "arrays",
    "check",
    "data_dir",
    "entry",
    "get",
    "load",
    "mend",
    "names",
    "naming",
    "subset",
]


def _digits(_: Path | None) -> Dataset:
    return digits.load()


DATA: dict[str, Entry] = {
    e.spec.name: e
    for e in (
        Entry(
            spec=digits.SPEC,
            about="8 x 8 handwritten digits in 10 classes, 1,438 + 359 rows; nothing to download",
            loader=_digits,
        ),
        Entry(
            spec=cifar.CIFAR10,
            about="32 x 32 colour photos in 10 classes, 50,000 + 10,000 rows; 170 MB",
            loader=cifar.load_cifar10,
            files=cifar.CIFAR10_FILES,
        ),
        Entry(
            spec=cifar.CIFAR100,
            about="32 x 32 colour photos in 100 classes, 50,000 + 10,000 rows; 169 MB",
            loader=cifar.load_cifar100,
            files=cifar.CIFAR100_FILES,
        ),
        Entry(
            spec=cifar.CIFAR100_COARSE,
            about="CIFAR-100 with its 20 superclasses as classes, 50,000 + 10,000 rows",
            loader=partial(cifar.load_cifar100, coarse=True),
            files=cifar.CIFAR100_FILES,
        ),
        Entry(
            spec=fashion.FASHION_MNIST,
            about="28 x 28 grey clothes in 10 classes, 60,000 + 10,000 rows; 31 MB",
            loader=fashion.load_fashion_mnist,
            files=fashion.FASHION_MNIST_FILES,
        ),
        Entry(
            spec=ntu.NTU60,
            about="skeletons in motion, 60 actions, split by people, 40,091 + 16,487 rows; by hand",
            loader=ntu.load_ntu60,
            by_hand=ntu.BY_HAND,
            checker=ntu.check_ntu60,
        ),
        Entry(
            spec=ntu.NTU60_XVIEW,
            about="the same, split by cameras, 37,646 + 18,932 rows",
            loader=ntu.load_ntu60_xview,
            by_hand=ntu.BY_HAND,
            checker=ntu.check_ntu60,
        ),
        Entry(
            spec=nw_ucla.NW_UCLA,
            about="skeletons in motion, 10 actions, split by cameras, 1,019 + 463 rows; by hand",
            loader=nw_ucla.load_nw_ucla,
            by_hand=nw_ucla.BY_HAND,
            checker=nw_ucla.check_nw_ucla,
        ),
        Entry(
            spec=food101n.FOOD101N,
            about="224 x 224 photos of 101 dishes, 18 % mislabelled, 52,867 + 3,824 rows; by hand",
            loader=food101n.load_food101n,
            by_hand=food101n.BY_HAND,
            checker=food101n.check_food101n,
        ),
        Entry(
            spec=food101n.FOOD101N_VAL,
            about="the same, tested on 4,741 rows of which 19 % are mislabelled",
            loader=food101n.load_food101n_val,
            by_hand=food101n.BY_HAND,
            checker=food101n.check_food101n,
        ),
        Entry(
            spec=food101n.FOOD101N_CLEAN,
            about="the same, tested on the 25,250 rows of Food-101's test set",
            loader=food101n.load_food101n_clean,
            by_hand=food101n.BY_HAND_CLEAN,
            checker=food101n.check_food101n_clean,
        ),
    )
}


def names() -> list[str]:
    """Return the names of all data sets, those of this package first."""
    return list(dict.fromkeys([*DATA, *plugins()]))


def entry(name: str) -> Entry:
    """Return the data set of this name: one of this package, or else of another."""
    if name in DATA:
        return DATA[name]
    known = names()
    if name not in known:
        raise RemnantError(f"unknown data set {name!r}{nearest(name, known)} Known: {', '.join(known)}")
    return plugged(name)


def load(name: str, folder: Path | None) -> Dataset:
    """Load a data set from this data folder, or from the cache, which is filled if need be."""
    with _entered(name):
        return replace(entry(name).loader(folder), folder=folder)


def get(name: str, folder: Path | None) -> str:
    """Download what is missing or wrong; return a sentence that says what was done."""
    published, by_hand = entry(name).files, entry(name).by_hand
    if by_hand:
        raise RemnantError(f"{name} cannot be downloaded: {by_hand}")
    if published is None:
        source = "comes with" if name in DATA else "is data of"
        return f"{name} {source} an installed package: nothing to download"
    with _entered(name):
        return files.get(published, folder)


def check(name: str, folder: Path | None) -> list[FileCheck]:
    """Look at each file of a data set, without stopping at the first that is wrong."""
    published, checker = entry(name).files, entry(name).checker
    with _entered(name):
        if checker is not None:
            return checker(folder)
        return [] if published is None else files.check(published, folder)


@contextlib.contextmanager
def _entered(name: str) -> Iterator[None]:
    """Say which file or folder it is that may not be looked at, in the search for a data set."""
    try:
        yield
    except OSError as error:
        raise RemnantError(
            f"{error.filename}: expected files of {name}, found: {error.strerror}. Make it readable, or "
            "name another folder with --data-dir"
        ) from error
