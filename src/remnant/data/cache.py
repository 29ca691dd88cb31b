"""Arrays on disk that are computed once from many files and memory-mapped afterwards.

They are stored in a folder NAME-HASH of the data folder, which is created atomically. HASH identifies the
files that they are computed from: if these change, the arrays are computed again and the old folder is
removed. After the array, its file has a checksum against accidental damage; older files have none.
"""

import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from remnant.data.files import ARRAY_READ_ERRORS
from remnant.errors import RemnantError
from remnant.settings import check_regular

ARRAY_FILE = "rows.npy"  # kept for compatibility with existing caches
PART = 1 << 24  # bytes that are read at a time to compute a checksum


def cached(root: Path, name: str, origin: str, size: int, make: Callable[[Path], None]) -> Path:
    """Return the cache folder for `origin`; if it does not exist yet, create it and call `make` to fill it.

    `origin` is a string that changes whenever the content would; `size` is the size of the content in bytes.
    """
    import filelock

    path = cache_path(root, name, origin)
    if path.exists():
        return path
    try:
        # The lock prevents concurrent runs from filling it twice.
        with filelock.FileLock(root / f".{name}.lock", fallback_to_soft=False):
            if not path.exists():
                _fill(path, name, size, make)
    except OSError as error:
        raise RemnantError(
            f"{path}: cannot be written ({error}). It needs {size / 1e9:.1f} GB; free some space, or "
            "use --data-dir (data_dir=...) to choose another folder that contains links to the files"
        ) from error
    return path


def cache_path(root: Path, name: str, origin: str) -> Path:
    """Return the path of the cache folder for `origin`, which may not exist yet."""
    return root / f"{name}-{hashlib.sha256(origin.encode(errors='surrogateescape')).hexdigest()[:12]}"


def write_array(folder: Path, shape: tuple[int, ...], dtype: DTypeLike, parts: Iterable[Any]) -> None:
    """Write an array of this shape part by part, so that only one part is in memory.

    On a full disk this raises an error, whereas writing to a memory-mapped array would kill the process.
    """
    kind = np.dtype(dtype)
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    with (folder / ARRAY_FILE).open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        checksum = 0
        for part in parts:
            content = np.ascontiguousarray(part, kind).tobytes()
            checksum = zlib.crc32(content, checksum)
            file.write(content)
        file.write(_footer(checksum))


def read_array(folder: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Memory-map the array of a cache folder."""
    expected = f"an array {shape} of {np.dtype(dtype)}"
    try:
        check_regular(folder / ARRAY_FILE)
        array: NDArray[Any] = np.load(folder / ARRAY_FILE, mmap_mode="r", allow_pickle=False)
        found = f"an array {array.shape} of {array.dtype}"
    except ARRAY_READ_ERRORS as error:
        raise damaged(folder, ARRAY_FILE, expected, str(error)) from error
    if (array.shape, array.dtype) != (shape, np.dtype(dtype)):
        raise damaged(folder, ARRAY_FILE, expected, found)
    _check_content(folder, array)
    return array


def _check_content(folder: Path, array: NDArray[Any]) -> None:
    """Raise RemnantError if an array is not the one that was written."""
    with (folder / ARRAY_FILE).open("rb") as file:
        file.seek(array.offset + array.nbytes)  # type: ignore[attr-defined]
        footer = file.read(64)
    checksum = 0
    for part in np.array_split(array, max(1, array.nbytes // PART)) if footer else ():
        checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
    if footer and footer != _footer(checksum):
        raise damaged(folder, ARRAY_FILE, "the array that was written", "another one")


def _footer(checksum: int) -> bytes:
    return b"crc32 %08x" % checksum


def damaged(folder: Path, file: str, expected: str, found: str) -> RemnantError:
    """Return an error about a file of the cache that was changed after it was written."""
    return RemnantError(
        f"{folder / file}: expected {expected}, found: {found}. Remove the folder {folder}; it will be "
        "created again from the data files"
    )


def _fill(path: Path, name: str, size: int, make: Callable[[Path], None]) -> None:
    pattern = re.compile(rf"(\.?){name}-[0-9a-f]{{12}}(\.part)?")
    others = [other for other in path.parent.iterdir() if pattern.fullmatch(other.name)]
    for incomplete in others:
        if incomplete.suffix == ".part":  # left by a process that was killed
            shutil.rmtree(incomplete)
    free = shutil.disk_usage(path.parent).free
    if free < size:
        raise OSError(f"only {free / 1e9:.1f} GB are free")
    temporary = path.with_name(f".{path.name}.part")
    temporary.mkdir()
    try:
        make(temporary)
        for written in temporary.iterdir():
            with written.open("rb") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in others:  # a process that has an old file mapped can still read it
        shutil.rmtree(old, ignore_errors=True)
