"""The side length of images if a user does not choose one."""

import os
from pathlib import Path
from statistics import median

import numpy as np

from remnant.data.images import DECODE_ERRORS, Images

MEASURED = 20  # images whose size is read, from their headers
SMALL, LARGE = 32, 64  # side lengths to choose from
LIMIT = 48  # images of at most this size are small


def usual_side(images: Images) -> int:
    """Return the side length for images of this size: enlarging small images would only cost time."""
    from PIL import Image

    sides = []
    count = min(MEASURED, len(images.files))
    for i in np.arange(count) * len(images.files) // max(count, 1):
        file = images.open(int(i))
        if isinstance(file, Path) and not os.path.isfile(file):  # such as a pipe, which may never end
            continue
        try:
            with Image.open(file, formats=images.resize.formats) as image:
                sides.append(min(image.size))
        except (OSError, Image.DecompressionBombError, *DECODE_ERRORS):  # reported when it is decoded
            continue
    return SMALL if sides and median(sides) <= LIMIT else LARGE


def is_side(size: int) -> bool:
    """Return whether this is a possible side length of decoded images; 0 means that it is chosen.

    >>> [is_side(size) for size in (0, 7, 8, 1024, 1025)]
    [True, False, True, True, False]
    """
    return size == 0 or 8 <= size <= 1024
