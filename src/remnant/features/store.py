"""A store of feature vectors on disk, in which each image is found by a digest of its pixels.

Vectors are appended in parts. A part is complete once its digests are written, after its vectors: a process
that is killed loses only the part it was computing. N vectors of D values.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.errors import RemnantError

DIGEST = 16  # bytes
VECTORS, DIGESTS = "vectors.f32", "digests.bin"
NUMBER = np.dtype("<f4")


def image_digest(image: NDArray[np.generic]) -> bytes:
    """Return the digest of the shape and the pixels of an image."""
    return hashlib.blake2b(repr(image.shape).encode() + image.tobytes(), digest_size=DIGEST).digest()


class FeatureStore:
    """The vectors in a folder, by the digests of their images."""

    def __init__(self, folder: Path, width: int) -> None:
        self.folder, self.width = folder, width  # D
        self.places: dict[bytes, int] = {}  # digest -> number of the vector, of complete parts
        self.refresh()

    def refresh(self) -> None:
        """Read the digests of all complete parts, including those of other processes."""
        with self._file_errors():
            content = _content(self.folder / DIGESTS)
            count = min(len(content) // DIGEST, _size(self.folder / VECTORS) // self._vector_size)
        self.places = {content[i * DIGEST : (i + 1) * DIGEST]: i for i in range(count)}

    def vectors(self) -> NDArray[np.float32]:
        """Memory-map the vectors (N, D)."""
        count = _size(self.folder / VECTORS) // self._vector_size
        with self._file_errors():
            return np.memmap(self.folder / VECTORS, NUMBER, "r", shape=(count, self.width))

    def append(self, digests: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Add a part; the store must be locked."""
        count = max(self.places.values(), default=-1) + 1
        with self._file_errors():
            _append(self.folder / VECTORS, count * self._vector_size, vectors.astype(NUMBER).tobytes())
            _append(self.folder / DIGESTS, count * DIGEST, b"".join(digests))
        self.places |= {digest: count + number for number, digest in enumerate(digests)}

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder, and keep other processes from writing to it."""
        import filelock

        with self._file_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self.folder / ".lock", fallback_to_soft=False)
            lock.acquire()
        try:
            self.refresh()
            yield
        finally:
            lock.release()

    @property
    def _vector_size(self) -> int:
        return self.width * NUMBER.itemsize

    @contextlib.contextmanager
    def _file_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RemnantError(
                f"{self.folder}: expected to read and write features there, found: "
                f"{error.strerror or error}. Free some space, make it writable, or use --data-dir "
                "(data_dir=...) to choose another folder that contains links to the data files"
            ) from error


def _append(path: Path, start: int, content: bytes) -> None:
    """Write at `start`, over what a killed process left there."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(start)
        file.seek(start)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
