"""Pictures from files of any size: decoded once, all to one size, by several processes.

A file that is missing or damaged has no row. S is the side of a decoded picture, in pixels.
"""

import errno
import json
import os
import struct
import sys
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remnant.data.source import Labels, Mapped
from remnant.data.stored import damaged, read_rows, stored, write_rows
from remnant.errors import RemnantError

Pixels = NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")  # what the web calls .jpg; others may run programs
DAMAGED = (SyntaxError, ValueError, EOFError, IndexError, OverflowError, struct.error, zlib.error)
# Of a file, until it is changed; any other trouble of the system with it may be gone the next time.
LASTING = (errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
BATCH = 32  # pictures that a process hands over at once
FEW = 256  # pictures that are not worth a process of their own
SKIPPED = "skipped.json"
NO_FILE = ("missing", "not readable")  # stamps
T = TypeVar("T")


@dataclass(frozen=True)
class Listed:
    """Files of pictures, and what their decoded form is called."""

    name: str
    home: Path
    files: tuple[str, ...]  # below `home`


@dataclass(frozen=True, eq=False)
class Pictures:
    """The pictures that could be read."""

    source: Mapped
    rows: Labels  # (n,) which of the listed files these are
    skipped: dict[str, str]  # file that could not be read -> why


def pictures(root: Path, listed: Listed, side: int) -> Pictures:
    """Return listed files as rows on disk, in the folder `root`, which are made the first time.

    They are made anew when a file has changed, appeared or gone.
    """
    shape = (len(listed.files), 3, side, side)
    stamps = {file: _stamp(listed.home / file) for file in listed.files}
    if all(stamp in NO_FILE for stamp in stamps.values()):
        raise _none(listed, stamps)
    origin = "".join(f"{file} {stamp}\n" for file, stamp in stamps.items())

    def make(folder: Path) -> None:
        skipped: dict[str, str] = {}
        write_rows(folder, shape, np.uint8, _decoded(listed, side, skipped))
        if len(skipped) == len(listed.files):  # what was decoded earlier is kept
            raise _none(listed, skipped)
        (folder / SKIPPED).write_text(json.dumps(skipped, indent=1) + "\n")

    folder = stored(root, listed.name, f"bilinear {shape}\n{origin}", int(np.prod(shape)), make)
    skipped = _read_skipped(folder)
    rows = np.array([row for row, file in enumerate(listed.files) if file not in skipped], np.int64)
    return Pictures(Mapped(read_rows(folder, shape, np.uint8), rows), rows, skipped)


def _none(listed: Listed, skipped: Mapping[str, str]) -> RemnantError:
    first, why = next(iter(skipped.items()), ("the list", "empty"))
    return RemnantError(
        f"{listed.home}: expected {len(listed.files):,} pictures for {listed.name}, found none that "
        f"can be read. The first is {first}: {why}"
    )


def _read_skipped(folder: Path) -> dict[str, str]:
    try:
        skipped = json.loads((folder / SKIPPED).read_text())
    except (OSError, ValueError) as error:
        raise damaged(folder, SKIPPED, "a table of files that could not be read", str(error)) from error
    if not isinstance(skipped, dict):
        raise damaged(folder, SKIPPED, "a table of files that could not be read", repr(skipped))
    return skipped


def unreadable(listed: Listed, side: int) -> dict[str, str]:
    """Read all files, and return those that cannot be read with why."""
    skipped: dict[str, str] = {}
    for _ in _decoded(listed, side, skipped):
        pass
    return skipped


def read_picture(path: Path, side: int) -> Pixels:
    """Return a picture in three colours, squeezed to (3, S, S); ValueError says what is wrong with it.

    OSError: it could not be read this time, and nothing is known of it.
    """
    from PIL import Image

    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd metadata, which is not looked at
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(path, formats=FORMATS) as picture:
                small = picture.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
        except FileNotFoundError as error:
            raise ValueError("expected a file, found nothing") from error
        except OSError as error:
            if error.errno not in (None, *LASTING):
                raise
            raise ValueError(f"expected a whole picture, found: {error.strerror or error}") from error
        except bombs as error:
            raise ValueError(f"expected a picture of a sane size, found: {error}") from error
        except DAMAGED as error:
            raise ValueError(f"expected a whole picture, found: {error}") from error
    return np.asarray(small).transpose(2, 0, 1).copy()


def _decoded(listed: Listed, side: int, skipped: dict[str, str]) -> Iterator[Pixels]:
    """Yield all rows in order, a few at a time; those that cannot be read are black, and noted."""
    from torch.utils.data import DataLoader
    from tqdm import tqdm

    files = listed.files
    loader: DataLoader[tuple[Tensor, str, str]] = DataLoader(
        _Files([listed.home / file for file in files], side),  # type: ignore[arg-type]  # no subclass
        batch_size=BATCH,
        num_workers=min(os.cpu_count() or 1, len(files) // FEW),
        generator=torch.Generator(),  # of its own: the global one stays as it is
    )
    is_seen = sys.stderr.isatty()
    with tqdm(total=len(files), desc=listed.name, mininterval=0.1 if is_seen else 60) as bar:
        for x, problems, troubles in _unless_killed(loader):
            for problem, trouble in zip(problems, troubles, strict=True):
                if trouble:
                    path = listed.home / files[bar.n]
                    raise RemnantError(
                        f"{path}: expected a file, found trouble that may pass: {trouble}. Run it again."
                    )
                if problem:
                    skipped[files[bar.n]] = problem
                bar.update()
            yield x.numpy()


def _unless_killed(loader: Iterable[T]) -> Iterator[T]:
    """Yield what processes hand over, until one of them is killed."""
    try:
        yield from loader
    except RuntimeError as error:
        raise RemnantError(
            f"decoding expected its processes to go on, but: {error}. Was there too little memory? "
            "Nothing was kept; run it again."
        ) from error


@dataclass(frozen=True)
class _Files:
    """What the processes of a DataLoader share: each row is a picture, or black and why.

    Why is a lasting fault of the file, or, apart from these, a trouble of the system.
    """

    paths: Sequence[Path]
    side: int

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> tuple[Tensor, str, str]:
        problem = trouble = ""
        try:
            return torch.from_numpy(read_picture(self.paths[row], self.side)), problem, trouble
        except ValueError as error:
            problem = str(error)
        except OSError as error:
            trouble = str(error.strerror)
        return torch.zeros(3, self.side, self.side, dtype=torch.uint8), problem, trouble


def _stamp(path: Path) -> str:
    """Return what changes when a file does, or may be read when it could not before."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # also on the way to it; also a name that no file can have
        return "missing"
    return f"{found.st_size} {found.st_mtime_ns}" if os.access(path, os.R_OK) else "not readable"
