"""Images of any size, decoded once by worker processes and resized to a common size.

Missing and damaged files are skipped. S is the side length of a decoded image in pixels.
"""

import contextlib
import errno
import io
import json
import os
import struct
import sys
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remnant.data.cache import cache_path, cached, damaged, read_array, write_array
from remnant.data.dataset import Indices, MemoryMapped
from remnant.errors import RemnantError
from remnant.settings import read_file
from remnant.transforms.resizing import Resize, stretched

Pixels = NDArray[np.uint8]

DECODE_ERRORS = (
    *(SyntaxError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, EOFError),
    *(struct.error, zlib.error),
)
# Errors that persist until the file is changed; any other system error may be temporary.
PERMANENT = (
    *(errno.ENOENT, errno.EACCES, errno.EINVAL, errno.EISDIR, errno.ENOTDIR),
    *(errno.ELOOP, errno.ENAMETOOLONG),
)
BATCH_SIZE = 32  # images that a worker process returns at a time
IMAGES_PER_WORKER = 256  # minimum number of images for each worker process
SKIPPED = "skipped.json"
NO_FILE = ("missing", "not readable")  # stamps of files that cannot be read
T = TypeVar("T")


class Images(Protocol):
    """Encoded images, and the name of the cache of their decoded images."""

    @property
    def name(self) -> str:
        """Return the first part of the name of the cache folder."""
        ...

    @property
    def home(self) -> Path:
        """Return where the images are, for error messages."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """Return the name of each image."""
        ...

    @property
    def resize(self) -> Resize:
        """Return how images are converted to a square."""
        ...

    def stamps(self) -> dict[str, str]:
        """Return for each image a string that changes when the image changes or becomes readable."""
        ...

    def open(self, i: int) -> Path | BinaryIO:
        """Return the file of an image, or its content."""
        ...


@dataclass(frozen=True)
class ImageList:
    """Image files, and the name of the cache of their decoded images."""

    name: str
    home: Path
    files: tuple[str, ...]  # paths relative to `home`
    resize: Resize = stretched

    def stamps(self) -> dict[str, str]:
        """Return size and time of each file."""
        return {file: _stamp(self.home / file) for file in self.files}

    def open(self, i: int) -> Path:
        """Return the path of a file."""
        return self.home / self.files[i]


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """The images that could be decoded."""

    source: MemoryMapped
    index: Indices  # (n,) positions of these images in the image list
    skipped: dict[str, str]  # file that could not be decoded -> reason


def decode_images(root: Path, images: Images, side: int) -> DecodedImages:
    """Return the decoded images, which are cached as one array in the folder `root`.

    If a file is changed, added or removed, all images are decoded again.
    """
    shape = (len(images.files), 3, side, side)
    stamps = images.stamps()
    if all(stamp in NO_FILE for stamp in stamps.values()):
        raise _no_images(images, stamps)

    def make(folder: Path) -> None:
        skipped: dict[str, str] = {}
        write_array(folder, shape, np.uint8, _decode(images, side, skipped))
        if len(skipped) == len(images.files):  # raised here, so that an existing cache is kept
            raise _no_images(images, skipped)
        (folder / SKIPPED).write_text(json.dumps(skipped, indent=1) + "\n")

    folder = cached(root, images.name, _origin(images, side, stamps), int(np.prod(shape)), make)
    skipped = _read_skipped(folder)
    index = np.array([i for i, file in enumerate(images.files) if file not in skipped], np.int64)
    return DecodedImages(MemoryMapped(read_array(folder, shape, np.uint8), index), index, skipped)


def is_decoded(root: Path, images: Images, side: int) -> bool:
    """Return whether `decode_images` would find its result in the cache."""
    return cache_path(root, images.name, _origin(images, side, images.stamps())).exists()


def _origin(images: Images, side: int, stamps: Mapping[str, str]) -> str:
    kind, shape = images.resize.about, (len(images.files), 3, side, side)
    return f"{kind} {shape}\n" + "".join(f"{file} {stamp}\n" for file, stamp in stamps.items())


def _no_images(images: Images, skipped: Mapping[str, str]) -> RemnantError:
    first, reason = next(iter(skipped.items()), ("the list", "empty"))
    return RemnantError(
        f"{images.home}: expected {len(images.files):,} images for {images.name}, found none that can "
        f"be read. First problem: {first}: {reason}"
    )


def _read_skipped(folder: Path) -> dict[str, str]:
    expected = "a JSON object of files that could not be read"
    try:
        skipped = json.loads(read_file(folder / SKIPPED))
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(folder, SKIPPED, expected, str(error)) from error
    if not isinstance(skipped, dict):
        raise damaged(folder, SKIPPED, expected, repr(skipped))
    return skipped


def unreadable(images: Images, side: int) -> dict[str, str]:
    """Decode all files; return the names of those that cannot be decoded, with the reasons."""
    skipped: dict[str, str] = {}
    for _ in _decode(images, side, skipped):
        pass
    return skipped


def read_image(file: Path | BinaryIO, side: int, resize: Resize = stretched) -> Pixels:
    """Return an RGB image, resized to (3, S, S), or as `resize` does.

    Raises ValueError if the file is missing or damaged, OSError if reading it failed temporarily.
    """
    from PIL import Image, UnidentifiedImageError

    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about metadata, which is not used
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            content = io.BytesIO(read_file(file)) if isinstance(file, Path) else file
            with Image.open(content, formats=resize.formats) as image:
                resized = resize(image, side)
        except FileNotFoundError as error:
            raise ValueError("expected a file, found nothing") from error
        except UnidentifiedImageError as error:
            raise ValueError("not an intact image: another kind of file") from error
        except OSError as error:
            if error.errno not in (None, *PERMANENT):
                raise
            raise ValueError(f"not an intact image: {error.strerror or error}") from error
        except bombs as error:
            raise ValueError(f"not an image of a reasonable size: {error}") from error
        except DECODE_ERRORS as error:
            raise ValueError(f"not an intact image: {error}") from error
    return np.asarray(resized).transpose(2, 0, 1).copy()


_DELAY = ContextVar("seconds before a progress bar is shown", default=1.0)


@contextlib.contextmanager
def hidden_bars(are_hidden: bool) -> Iterator[None]:
    """Hide the progress bars of what is done inside, if `are_hidden`."""
    token = _DELAY.set(float("inf") if are_hidden else _DELAY.get())
    try:
        yield
    finally:
        _DELAY.reset(token)


def progress_bar(total: int, name: str) -> Any:  # noqa: ANN401
    """Return a progress bar on standard error; where it is no terminal, it is written once in a minute.

    Work that takes less than a second has none.

    The bar has no thread: one that cannot be started for lack of memory makes the process wait for ever.
    """
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0

    return Bar(total=total, desc=name, delay=_DELAY.get(), mininterval=0.1 if sys.stderr.isatty() else 60)


def _decode(images: Images, side: int, skipped: dict[str, str]) -> Iterator[Pixels]:
    """Yield batches of all images in order; damaged images are black and are recorded in `skipped`."""
    from torch.utils.data import DataLoader

    files = images.files
    loader: DataLoader[tuple[Tensor, str, str]] = DataLoader(
        _Decoder(images, side),  # type: ignore[arg-type]  # not a subclass
        batch_size=BATCH_SIZE,
        num_workers=min(os.cpu_count() or 1, len(files) // IMAGES_PER_WORKER),
        generator=torch.Generator(),  # leaves the global generator unchanged
    )
    with progress_bar(len(files), images.name) as bar:
        for x, problems, system_errors in _until_killed(loader):
            for problem, system_error in zip(problems, system_errors, strict=True):
                if system_error:
                    path = images.home / files[bar.n]
                    raise RemnantError(
                        f"{path}: expected a readable file, found an error that may be temporary: "
                        f"{system_error}. Run the command again."
                    )
                if problem:
                    skipped[files[bar.n]] = problem
                bar.update()
            yield x.numpy()


def _until_killed(loader: Iterable[T]) -> Iterator[T]:
    """Yield the results of worker processes; raise an error if one of them is killed."""
    try:
        yield from loader
    except RuntimeError as error:
        raise RemnantError(
            f"decoding images: expected worker processes to finish, found: {error}. They may have run "
            "out of memory. Nothing was saved; run the command again."
        ) from error


@dataclass(frozen=True)
class _Decoder:
    """The dataset of a DataLoader: each item is an image, a problem and a system error.

    The image is black if there is a problem (the file is missing or damaged) or a system error (which may
    be temporary).
    """

    images: Images
    side: int

    def __len__(self) -> int:
        return len(self.images.files)

    def __getitem__(self, i: int) -> tuple[Tensor, str, str]:
        problem = system_error = ""
        try:
            x = read_image(self.images.open(i), self.side, self.images.resize)
            return torch.from_numpy(x), problem, system_error
        except ValueError as error:
            problem = str(error)
        except OSError as error:
            system_error = str(error.strerror)
        return torch.zeros(3, self.side, self.side, dtype=torch.uint8), problem, system_error


def _stamp(path: Path) -> str:
    """Return a string that changes when the file changes or becomes readable."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # includes errors of a parent folder, and invalid file names
        return "missing"
    return f"{found.st_size} {found.st_mtime_ns}" if os.access(path, os.R_OK) else "not readable"
