"""Rows on disk: made once from many files, mapped into memory ever after.

They lie in a folder NAME-HASH of the data folder, which appears whole or not at all. HASH is of what
they are made from: when that changes they are made anew, and the older ones are removed.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from remnant.data.files import UNREADABLE
from remnant.errors import RemnantError

ROWS = "rows.npy"


def stored(root: Path, name: str, origin: str, size: int, make: Callable[[Path], None]) -> Path:
    """Return the folder of rows that are made from `origin`; the first time `make` fills it.

    `origin` is a text that differs whenever the rows would; `size` is how many bytes they take.
    """
    import filelock

    path = root / f"{name}-{hashlib.sha256(origin.encode()).hexdigest()[:12]}"
    if path.exists():
        return path
    try:
        with filelock.FileLock(root / f".{name}.lock"):  # runs started side by side make them once
            if not path.exists():
                _make(path, name, size, make)
    except OSError as error:
        raise RemnantError(
            f"{path}: cannot be written ({error}). It takes {size / 1e9:.1f} GB; make room, or name a "
            "folder of your own with --data-dir, in which links lead to the files"
        ) from error
    return path


def write_rows(folder: Path, shape: tuple[int, ...], dtype: DTypeLike, parts: Iterable[Any]) -> None:
    """Write all rows (N, ...), part after part: memory holds one part, and a full disk is an error.

    Into a mapped array it would be a signal that kills the process.
    """
    kind = np.dtype(dtype)
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    with (folder / ROWS).open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part, kind).data)


def read_rows(folder: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Map the rows of a folder into memory."""
    expected = f"an array {shape} of {np.dtype(dtype)}"
    try:
        array: NDArray[Any] = np.load(folder / ROWS, mmap_mode="r", allow_pickle=False)
        found = f"an array {array.shape} of {array.dtype}"
    except UNREADABLE as error:
        raise damaged(folder, ROWS, expected, str(error)) from error
    if (array.shape, array.dtype) != (shape, np.dtype(dtype)):
        raise damaged(folder, ROWS, expected, found)
    return array


def damaged(folder: Path, file: str, expected: str, found: str) -> RemnantError:
    """Return an error for a file that was written here and has been changed since."""
    return RemnantError(
        f"{folder / file}: expected {expected}, found: {found}. Remove the folder {folder}; it is made "
        "anew from the files"
    )


def _make(path: Path, name: str, size: int, make: Callable[[Path], None]) -> None:
    like_it = re.compile(rf"(\.?){name}-[0-9a-f]{{12}}(\.part)?")
    others = [other for other in path.parent.iterdir() if like_it.fullmatch(other.name)]
    for half in others:
        if half.suffix == ".part":  # of a process that was killed
            shutil.rmtree(half)
    free = shutil.disk_usage(path.parent).free
    if free < size:
        raise OSError(f"only {free / 1e9:.1f} GB are free")
    aside = path.with_name(f".{path.name}.part")
    aside.mkdir()
    try:
        make(aside)
        for whole in aside.iterdir():
            with whole.open("rb") as file:
                os.fsync(file.fileno())
        aside.replace(path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for old in others:  # whoever has it mapped goes on reading it
        shutil.rmtree(old, ignore_errors=True)
