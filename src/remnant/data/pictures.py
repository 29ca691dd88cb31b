"""Pictures from files of any size: decoded once, all to one size, by several processes.

A file that is missing or damaged has no row. S is the side of a decoded picture, in pixels.
"""

import json
import os
import struct
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remnant.data.source import Labels, Mapped
from remnant.data.stored import read_rows, stored, write_rows
from remnant.errors import RemnantError

Pixels = NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")  # what the web calls .jpg; others may run programs
DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    OverflowError,
    struct.error,
    zlib.error,
)
BATCH = 32  # pictures that a process hands over at once
FEW = 256  # pictures that are not worth a process of their own
SKIPPED = "skipped.json"


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
    stamps = "".join(f"{file} {_stamp(listed.home / file)}\n" for file in listed.files)

    def make(folder: Path) -> None:
        skipped: dict[str, str] = {}
        write_rows(folder, shape, np.uint8, _decoded(listed, side, skipped))
        (folder / SKIPPED).write_text(json.dumps(skipped, indent=1) + "\n")

    folder = stored(root, listed.name, f"bilinear {shape}\n{stamps}", int(np.prod(shape)), make)
    skipped = json.loads((folder / SKIPPED).read_text())
    rows = np.array([row for row, file in enumerate(listed.files) if file not in skipped], np.int64)
    if not len(rows):
        raise RemnantError(
            f"{listed.home}: expected {len(listed.files):,} pictures for {listed.name}, found none that "
            f"can be read. {next(iter(skipped), 'The list')}: {next(iter(skipped.values()), 'empty')}"
        )
    return Pictures(Mapped(read_rows(folder, shape, np.uint8), rows), rows, skipped)


def unreadable(listed: Listed, side: int) -> dict[str, str]:
    """Read all files, and return those that cannot be read with why."""
    skipped: dict[str, str] = {}
    for _ in _decoded(listed, side, skipped):
        pass
    return skipped


def read_picture(path: Path, side: int) -> Pixels:
    """Return a picture in three colours, squeezed to (3, S, S); ValueError says what is wrong."""
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
    loader: DataLoader[tuple[Tensor, str]] = DataLoader(
        _Files([listed.home / file for file in files], side),  # type: ignore[arg-type]  # no subclass
        batch_size=BATCH,
        num_workers=min(os.cpu_count() or 1, len(files) // FEW),
        generator=torch.Generator(),  # of its own: the global one stays as it is
    )
    is_seen = sys.stderr.isatty()
    with tqdm(total=len(files), desc=listed.name, mininterval=0.1 if is_seen else 60) as bar:
        for x, problems in loader:
            for problem in problems:
                if problem:
                    skipped[files[bar.n]] = problem
                bar.update()
            yield x.numpy()


@dataclass(frozen=True)
class _Files:
    """What the processes of a DataLoader share: each row is a picture, or black and why."""

    paths: Sequence[Path]
    side: int

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> tuple[Tensor, str]:
        try:
            return torch.from_numpy(read_picture(self.paths[row], self.side)), ""
        except ValueError as error:
            return torch.zeros(3, self.side, self.side, dtype=torch.uint8), str(error)


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except FileNotFoundError:
        return "missing"
    return f"{found.st_size} {found.st_mtime_ns}"
