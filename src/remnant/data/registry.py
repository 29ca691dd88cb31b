"""Registry of all datasets by name, and functions that load, download and check a dataset by name."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from remnant.data import cifar, digits, fashion, files, food101n, ntu, nw_ucla
from remnant.data.dataset import Dataset
from remnant.data.entry import Entry, from_outside
from remnant.data.files import FileCheck
from remnant.data.own import OwnData, parse_own_data
from remnant.errors import RemnantError
from remnant.extensions import Registry, is_own_data

# Numbers of samples are given as training split + test split.
DATA: dict[str, Entry] = {
    e.spec.name: e
    for e in (
        Entry(
            spec=digits.DIGITS,
            about="8 x 8 handwritten digits in 10 classes, 1,438 + 359 samples; nothing to download",
            loader=digits.load_digits,
        ),
        Entry(
            spec=cifar.CIFAR10,
            about="32 x 32 colour photos in 10 classes, 50,000 + 10,000 samples; 170 MB",
            loader=cifar.load_cifar10,
            files=cifar.CIFAR10_FILES,
        ),
        Entry(
            spec=cifar.CIFAR100,
            about="32 x 32 colour photos in 100 classes, 50,000 + 10,000 samples; 169 MB",
            loader=cifar.load_cifar100,
            files=cifar.CIFAR100_FILES,
        ),
        Entry(
            spec=cifar.CIFAR100_COARSE,
            about="CIFAR-100 with its 20 superclasses as classes, 50,000 + 10,000 samples",
            loader=partial(cifar.load_cifar100, coarse=True),
            files=cifar.CIFAR100_FILES,
        ),
        Entry(
            spec=fashion.FASHION_MNIST,
            about="28 x 28 greyscale images of clothes in 10 classes, 60,000 + 10,000 samples; 31 MB",
            loader=fashion.load_fashion_mnist,
            files=fashion.FASHION_MNIST_FILES,
        ),
        Entry(
            spec=ntu.NTU60,
            about="skeletons of 60 actions, split by subject, 40,091 + 16,487 samples; manual download",
            loader=ntu.load_ntu60,
            manual_download=ntu.MANUAL_DOWNLOAD,
            checker=ntu.check_ntu60,
        ),
        Entry(
            spec=ntu.NTU60_XVIEW,
            about="ntu60 split by camera, 37,646 + 18,932 samples",
            loader=ntu.load_ntu60_xview,
            manual_download=ntu.MANUAL_DOWNLOAD,
            checker=ntu.check_ntu60,
        ),
        Entry(
            spec=nw_ucla.NW_UCLA,
            about="skeletons of 10 actions, split by camera, 1,019 + 463 samples; manual download",
            loader=nw_ucla.load_nw_ucla,
            manual_download=nw_ucla.MANUAL_DOWNLOAD,
            checker=nw_ucla.check_nw_ucla,
        ),
        Entry(
            spec=food101n.FOOD101N,
            about="224 x 224 photos of 101 dishes, 18 % mislabelled, 52,867 + 3,824 samples; manual download",
            loader=food101n.load_food101n,
            manual_download=food101n.MANUAL_DOWNLOAD,
            checker=food101n.check_food101n,
        ),
        Entry(
            spec=food101n.FOOD101N_VAL,
            about="food101n evaluated on 4,741 samples, of which 19 % are mislabelled",
            loader=food101n.load_food101n_val,
            manual_download=food101n.MANUAL_DOWNLOAD,
            checker=food101n.check_food101n,
        ),
        Entry(
            spec=food101n.FOOD101N_CLEAN,
            about="food101n evaluated on the 25,250 samples of Food-101's test split",
            loader=food101n.load_food101n_clean,
            manual_download=food101n.MANUAL_DOWNLOAD_CLEAN,
            checker=food101n.check_food101n_clean,
        ),
    )
}


DATASETS = Registry("dataset", DATA, "remnant.data")


def names() -> list[str]:
    """Return the names of all datasets, the built-in ones first."""
    return list(DATASETS)


def entry(name: str) -> Entry:
    """Return the entry of this name: a built-in one, one of another package, or one in a file."""
    if name in DATA:
        return DATA[name]
    if name not in DATASETS:
        raise RemnantError(DATASETS.about_unknown(name))
    return from_outside(name, DATASETS[name], DATASETS.origin(name))


def load(name: str | OwnData, folder: Path | None) -> Dataset:
    """Load a dataset from a data folder or, if it is None, from the cache, downloading missing files.

    Own data, such as `folder:photos`, are decoded to the data folder or the cache.
    """
    own = parse_own_data(name) if isinstance(name, str) and is_own_data(name) else name
    with _access_errors(own.path if isinstance(own, OwnData) else own):
        loader = own.load if isinstance(own, OwnData) else entry(own).loader
        return replace(loader(folder), folder=folder)


def require_files(name: str, folder: Path | None) -> None:
    """Raise MissingFiles if `load` would have to download a file."""
    if data_files := entry(name).files:
        files.require(data_files, folder)


def get(name: str, folder: Path | None) -> str:
    """Download missing and damaged files; return a sentence that describes what was done."""
    data_files, manual_download = entry(name).files, entry(name).manual_download
    if manual_download:
        raise RemnantError(f"{name} cannot be downloaded automatically: {manual_download}")
    if data_files is None:
        return f"{name}: nothing to download"
    with _access_errors(name):
        return files.get(data_files, folder)


def check(name: str, folder: Path | None) -> list[FileCheck]:
    """Check every file of a dataset, without stopping at the first damaged one."""
    data_files, checker = entry(name).files, entry(name).checker
    with _access_errors(name):
        if checker is not None:
            return checker(folder)
        return [] if data_files is None else files.check(data_files, folder)


@contextlib.contextmanager
def _access_errors(name: str) -> Iterator[None]:
    """Convert an OSError into a RemnantError that names the file or folder that cannot be accessed."""
    try:
        yield
    except OSError as error:
        raise RemnantError(
            f"{error.filename}: expected files of {name}, found: {error.strerror}. Make them readable, or "
            "choose another folder with --data-dir (data_dir=...)"
        ) from error
