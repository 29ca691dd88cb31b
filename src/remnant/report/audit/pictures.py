"""The pictures of the audit page: the original image of a sample, reduced and not cropped, as a data URI."""

import base64
import io

import torch
from PIL import Image

from remnant.data import OwnData
from remnant.data.images import read_image
from remnant.report.audit.samples import AuditedRun
from remnant.transforms.resizing import upright_whole

SIDE = 320  # pixels of the longest side; larger images are reduced
EXACT = 48  # pixels of images that are embedded without loss
MOST_BYTES = 17_000  # of a picture; 500 of them are less than 12 MB in base64
SMALLER = ((320, 80), (320, 65), (240, 65), (160, 65), (96, 65))  # side and JPEG quality, the best first


def picture(run: AuditedRun, position: int) -> str:
    """Return the picture of a sample as a data URI; empty if samples are no images.

    It is read from the file of the sample, or from its row of a Hugging Face dataset. If that cannot be
    read any more, and for other data, it is made from the pixels that the network was trained on.
    """
    spec = run.data.spec
    if not spec.are_images or spec.shape[0] not in (1, 3):
        return ""
    return data_uri(_original(run, position) or _stored(run, position))


def _original(run: AuditedRun, position: int) -> Image.Image | None:
    """Return the image from its source; None if there is none, or it cannot be read any more."""
    own = run.config.data
    if not isinstance(own, OwnData):
        return None
    try:
        source = own.listing.images.open(int(run.data.index[position]))
        return Image.fromarray(read_image(source, SIDE, upright_whole).transpose(1, 2, 0))
    except (ValueError, OSError):
        return None


def _stored(run: AuditedRun, position: int) -> Image.Image:
    x = run.data.train.take(torch.tensor([position]))[0]
    pixels = x.permute(1, 2, 0).contiguous().numpy()
    return Image.fromarray(pixels[:, :, 0] if x.shape[0] == 1 else pixels)


def data_uri(image: Image.Image) -> str:
    """Return an image as a data URI: PNG if it is small, else a JPEG of at most `MOST_BYTES`."""
    if max(image.size) <= EXACT:
        return _uri("png", _encoded(image, "PNG", optimize=True))
    for side, quality in SMALLER:
        image.thumbnail((side, side))
        content = _encoded(image, "JPEG", quality=quality)
        if len(content) <= MOST_BYTES:
            break
    return _uri("jpeg", content)


def _encoded(image: Image.Image, kind: str, **options: int) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
