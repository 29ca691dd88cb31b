"""Galleries of final buffers: small images with their observed and true labels, embedded in a page."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor

from remnant.report.figures.groups import Variant
from remnant.report.runs import FinishedRun, final_buffer

SIDE = 40  # pixels; larger images are reduced
EXACT = 48  # pixels of images that are embedded without loss
OTHER = "another or none"  # true class of noisy samples for which it is unknown, or that are of no class
PER_RUN, IN_TOTAL, LEAST = 60, 600, 8  # images: at most, at most in one page, and at least of each run


@dataclass(frozen=True)
class Thumbnail:
    """An image of a buffer."""

    image: str  # as a data URI
    observed: str  # class name
    truth: str | None  # name of the true class, or OTHER; None: clean, or true labels are unknown


@dataclass(frozen=True)
class Gallery:
    """Some images of the final buffer of a run."""

    title: str
    about: str
    thumbnails: tuple[Thumbnail, ...]


def galleries(variants: Sequence[Variant], of_report: int) -> list[Gallery]:
    """Return a gallery for each variant with images in its buffer; `of_report` variants share a page."""
    most = max(LEAST, min(PER_RUN, IN_TOTAL // max(1, of_report)))
    found = [gallery(variant.label, variant.runs[0], most) for variant in variants]
    return [shown for shown in found if shown is not None]


def gallery(label: str, run: FinishedRun, most: int) -> Gallery | None:
    """Return evenly spaced samples of a buffer, ordered by class; None if it has no images."""
    buffer = final_buffer(run)
    if buffer is None or not _are_images(buffer["x"]):
        return None
    y, truth = buffer["y"], buffer.get("truth")
    order = torch.argsort(y, stable=True)
    count = min(len(y), most)
    chosen = order[torch.arange(count) * len(y) // count].tolist()
    names = run.classes
    thumbnails = tuple(
        Thumbnail(
            data_uri(buffer["x"][slot]),
            names[int(y[slot])],
            None if truth is None else _true_name(int(y[slot]), int(truth[slot]), names),
        )
        for slot in chosen
    )
    return Gallery(label, _about(len(y), count, run.seed, truth is not None), thumbnails)


def _are_images(x: Tensor) -> bool:
    return x.dim() == 4 and x.shape[1] in (1, 3) and x.dtype == torch.uint8


def _true_name(observed: int, truth: int, names: Sequence[str]) -> str | None:
    if truth == observed:
        return None
    return names[truth] if truth >= 0 else OTHER


def _about(size: int, shown: int, seed: int, is_known: bool) -> str:
    part = f"All {size:,}" if shown == size else f"{shown} of {size:,}"
    truth = "Framed: noisy labels, struck out before the true ones." if is_known else "True labels unknown."
    return f"{part} samples at the end, by class; seed {seed}. {truth}"


def data_uri(x: Tensor, side: int = SIDE) -> str:
    """Return an image (channels, height, width) of bytes, reduced to `side` pixels, as a data URI.

    Small images are embedded exactly, as PNG; larger ones as JPEG, which takes less space.
    """
    pixels = x.permute(1, 2, 0).contiguous().numpy()
    image = Image.fromarray(pixels[:, :, 0] if x.shape[0] == 1 else pixels)
    if max(image.size) > side:
        image.thumbnail((side, side))
    kind, options = ("PNG", {"optimize": True}) if max(image.size) <= EXACT else ("JPEG", {"quality": 85})
    file = io.BytesIO()
    image.save(file, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
