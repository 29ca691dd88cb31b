"""Fashion-MNIST from the four published idx files, or from Debian's package of them."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.data.dataset import Dataset, Spec, arrays
from remnant.data.files import DataFiles, Download, Place, prepare, read
from remnant.errors import RemnantError
from remnant.transforms.image import ImageTransform

CLASSES = (
    *("t-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle-boot"),
)
# The pairs of Zhang and Sabuncu (2018).
SIMILAR = {
    **{"ankle-boot": "sneaker", "sneaker": "sandal", "pullover": "shirt"},
    **{"coat": "dress", "dress": "coat"},
}
FASHION_MNIST = Spec(
    name="fashion-mnist",
    shape=(1, 28, 28),
    classes=CLASSES,
    transform=ImageTransform(mean=(0.2860,), std=(0.3530,), pad=2, flip=True),
    confused_with={CLASSES.index(a): CLASSES.index(b) for a, b in SIMILAR.items()},
)

SERVER = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
# Debian's package contains the same data compressed differently, so there are two hashes per file.
MD5_DECOMPRESSED = {
    "train-images-idx3-ubyte.gz": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte.gz": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte.gz": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte.gz": "15d484375f8d13e6eb1aabb0c3f46965",
}
MD5_DOWNLOAD = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
FASHION_MNIST_FILES = DataFiles(
    name="fashion-mnist",
    md5=MD5_DECOMPRESSED,
    downloads=tuple(
        Download(url=f"{SERVER}/{name}", md5=md5, files=(name,)) for name, md5 in MD5_DOWNLOAD.items()
    ),
    places=("fashion-mnist", "FashionMNIST/raw", "."),
    installed=Path("/usr/share/datasets/fashion-mnist"),
)

UNSIGNED_BYTE = 8  # code of the data type in the idx format


def load_fashion_mnist(folder: Path | None, files: DataFiles = FASHION_MNIST_FILES) -> Dataset:
    """Load Fashion-MNIST from a data folder, Debian's package, or the cache."""
    place = prepare(files, folder)
    x, y = _read_split(place, "train")
    test_x, test_y = _read_split(place, "t10k")
    return arrays(FASHION_MNIST, x, y, test_x, test_y, truth=y)


def parse_idx(content: bytes, dimensions: int, origin: Path) -> NDArray[np.uint8]:
    """Parse an array of bytes in the idx format; errors mention `origin`.

    The format is: two zero bytes, the data type, the number of dimensions, each dimension as a
    big-endian 32-bit number, then the values.

    >>> content = bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9])
    >>> parse_idx(content, 2, Path("example")).tolist()
    [[7, 8, 9]]
    """
    magic = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    start = 4 + 4 * dimensions
    if content[:4] != magic or len(content) < start:
        raise RemnantError(
            f"{origin}: expected an idx file that starts with {magic.hex()}, "
            f"found {content[:4].hex()} and {len(content):,} bytes; use the file as published"
        )
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    if math.prod(shape) != len(content) - start:
        raise RemnantError(
            f"{origin}: expected {math.prod(shape):,} values for the shape {shape}, "
            f"found {len(content) - start:,}; use the file as published"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def _read_split(place: Place, prefix: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the images (N, 1, 28, 28) and labels (N,) of the training or test split."""
    images, labels = f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"
    x = parse_idx(read(place, images), 3, place.path / images)
    y = parse_idx(read(place, labels), 1, place.path / labels)
    if x.shape != (len(y), 28, 28) or y.max(initial=0) >= len(FASHION_MNIST.classes):
        raise RemnantError(
            f"{place.path / labels}: expected a label from 0 to 9 for each 28 x 28 image, "
            f"found images {x.shape} and labels {y.shape} up to {y.max(initial=0)}; "
            "use the files as published"
        )
    return x[:, None], y
