"""Conversion of an opened image of any size and mode to an RGB image, a square unless it is to be shown."""

import contextlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

EXIF_ERRORS = (SyntaxError, ValueError, TypeError, KeyError, IndexError, OSError, struct.error)


class Resize(Protocol):
    """A conversion of images. `about` identifies its results in a cache of decoded images."""

    @property
    def about(self) -> str:
        """Return a short description, which differs from that of every other conversion."""
        ...

    @property
    def formats(self) -> tuple[str, ...]:
        """Return the image formats that are read; decoders of other formats may run programs."""
        ...

    def __call__(self, image: "Image", side: int, /) -> "Image":
        """Return an RGB image of side x side pixels."""
        ...


@dataclass(frozen=True)
class Stretched:
    """Resize without preserving the aspect ratio."""

    about: ClassVar[str] = "bilinear"
    formats: ClassVar[tuple[str, ...]] = ("JPEG", "PNG", "GIF", "WEBP", "BMP")  # found in .jpg of the web

    def __call__(self, image: "Image", side: int) -> "Image":
        """Return an RGB image of side x side pixels."""
        from PIL.Image import Resampling

        return image.convert("RGB").resize((side, side), Resampling.BILINEAR)


@dataclass(frozen=True)
class UprightCrop:
    """Resize the largest square in the centre, after the rotation that a camera has recorded in EXIF data.

    Of an animation, the first frame is used. Greyscale images of 16 bits are scaled to 8 bits.
    """

    about: ClassVar[str] = "upright crop"
    formats: ClassVar[tuple[str, ...]] = (*Stretched.formats, "TIFF")

    def __call__(self, image: "Image", side: int) -> "Image":
        """Return an RGB image of side x side pixels."""
        from PIL import Image, ImageOps

        return ImageOps.fit(_upright(image, side), (side, side), Image.Resampling.BILINEAR)


@dataclass(frozen=True)
class UprightWhole:
    """Reduce an image whose longest side is larger than `side`, to be shown; nothing is cut off."""

    about: ClassVar[str] = "upright whole"
    formats: ClassVar[tuple[str, ...]] = UprightCrop.formats

    def __call__(self, image: "Image", side: int) -> "Image":
        """Return an RGB image of at most side x side pixels, of any shape."""
        whole = _upright(image, side)
        whole.thumbnail((side, side))
        return whole


def _upright(image: "Image", side: int) -> "Image":
    """Return an RGB image, rotated as a camera has recorded; it may be reduced, but not below 2 * side."""
    from PIL import Image, ImageOps

    image.draft(None, (2 * side, 2 * side))  # a large JPEG is decoded at a fraction of its size
    with contextlib.suppress(*EXIF_ERRORS):  # damaged metadata of an intact image
        ImageOps.exif_transpose(image, in_place=True)
    if image.mode == "F":
        raise ValueError("pixels that are floating-point numbers")
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) / 257).clip(0, 255).astype(np.uint8))
    return image.convert("RGB")


stretched = Stretched()
upright_crop = UprightCrop()
upright_whole = UprightWhole()
RESIZES: dict[str, Resize] = {resize.about: resize for resize in (stretched, upright_crop)}
