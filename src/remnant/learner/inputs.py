"""Images and labels as users have them: arrays, tensors, torch datasets and names of data.

n images of K channels, H x W pixels.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from remnant.data.dataset import InMemory
from remnant.errors import RemnantError
from remnant.learner.sources import Samples, read_data
from remnant.models.model import Label

CHANNELS = (1, 3)
GREY = (0.299, 0.587, 0.114)  # weights of red, green and blue


def to_samples(images: Any, labels: Any, side: int) -> Samples:  # noqa: ANN401
    """Return images with labels; images in files are resized to `side` x `side` pixels.

    Without labels, `images` is a folder or another name of data, or a dataset whose items are pairs of an
    image and a label.
    """
    if isinstance(images, Samples):
        return images
    if isinstance(images, str | Path):
        return read_data(images, None, side)
    if labels is None:
        if not (hasattr(images, "__getitem__") and hasattr(images, "__len__")):
            raise RemnantError(
                f"expected images and labels, or a dataset with a length and an index, got "
                f"{type(images).__name__} without labels. Write learn(images, labels), or pass the dataset."
            )
        pairs = [images[i] for i in range(len(images))]
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise RemnantError(
                f"expected labels, or a dataset of pairs (image, label), got {type(images).__name__} without "
                "labels. Write learn(images, labels)."
            )
        images, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    x, given = to_images(images), to_labels(labels)
    if len(x) != len(given):
        raise RemnantError(f"expected a label for each of {len(x)} images, got {len(given)} labels.")
    return Samples(InMemory(x), given)


def to_images(images: Any) -> Tensor:  # noqa: ANN401
    """Return images as uint8 (n, K, H, W).

    Accepts (n, K, H, W), (n, H, W, K) and (n, H, W) with K = 1 or 3, of integers in [0, 255] or floats in
    [0, 1], and lists of such images.
    """
    if isinstance(images, str | Path):
        raise RemnantError(
            f"expected images as arrays, got the name {str(images)!r:.100}. Read the files first, or use the "
            "command remnant predict, which reads files and folders."
        )
    try:
        if isinstance(images, Tensor):
            found = _array(images)
        else:
            parts = images if isinstance(images, np.ndarray) else [_array(image) for image in images]
            found = np.asarray(parts)
    except (TypeError, ValueError) as error:
        raise RemnantError(f"expected images of the same size, got {error}. Resize them first.") from error
    if found.ndim == 3:
        found = found[:, None]
    if found.ndim == 4 and found.shape[1] not in CHANNELS and found.shape[3] in CHANNELS:
        found = found.transpose(0, 3, 1, 2)
    if found.ndim != 4 or found.shape[1] not in CHANNELS or not found.size:
        raise RemnantError(
            f"expected images of shape (n, channels, height, width) with 1 or 3 channels, got {found.shape}."
        )
    pixels = _bytes(found)
    return torch.from_numpy(np.ascontiguousarray(pixels)).view(pixels.shape)  # not the strides of the caller


def _array(image: Any) -> NDArray[Any]:  # noqa: ANN401
    if isinstance(image, Tensor):
        return (image.float() if image.dtype == torch.bfloat16 else image).numpy(force=True)
    if isinstance(image, Image.Image) and image.mode not in ("L", "RGB"):
        image = image.convert("RGB")  # the values of a palette, for example, are no colours
    return np.asarray(image)


def _bytes(found: NDArray[Any]) -> NDArray[np.uint8]:
    is_number = found.dtype.kind in "iuf"
    low, high = (float(found.min()), float(found.max())) if is_number else (0.0, 0.0)
    if found.dtype.kind == "f" and low >= 0 and high <= 1:
        return (found * 255).round().astype(np.uint8)
    if found.dtype.kind in "iu" and low >= 0 and high <= 255:
        return found.astype(np.uint8)
    raise RemnantError(
        f"expected integers in [0, 255] or floats in [0, 1] as images, got {found.dtype} from {low:g} to "
        f"{high:g}. Scale them first."
    )


def to_labels(labels: Any) -> list[Label]:  # noqa: ANN401
    """Return labels as a list of strings or of integers."""
    values = labels.tolist() if isinstance(labels, Tensor | np.ndarray) else labels
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise RemnantError(f"expected a list of labels, got {type(labels).__name__}.")
    found = [value.item() if _is_number(value) else value for value in values]
    kind = str if found and isinstance(found[0], str) else int
    for position, value in enumerate(found):
        if type(value) is not kind:
            raise RemnantError(
                f"expected labels that are all strings or all integers, got {value!r:.60} at position "
                f"{position}. Convert them first."
            )
    if any(value == "" for value in found):
        raise RemnantError(f"expected a label for each image, got none at position {found.index('')}.")
    return cast(list[Label], found)


def to_classes(classes: Any) -> list[Label]:  # noqa: ANN401
    """Return labels that differ as a list."""
    labels = to_labels(classes)
    if len(set(labels)) < len(labels):
        repeated = next(label for label in labels if labels.count(label) > 1)
        raise RemnantError(f"classes: expected each class once, got {repeated!r:.60} twice. Remove one.")
    return labels


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, np.generic) or (isinstance(value, Tensor) and value.numel() == 1)


def with_channels(x: Tensor, channels: int) -> Tensor:
    """Return images with this number of channels: greyscale and RGB are converted to each other."""
    if x.shape[1] == channels:
        return x
    if channels == 3:
        return x.expand(-1, 3, -1, -1)
    weights = torch.tensor(GREY).view(1, 3, 1, 1)
    return (x * weights).sum(1, keepdim=True).round().to(torch.uint8)


def squares(x: Tensor) -> Tensor:
    """Return the largest square in the centre of each image."""
    height, width = x.shape[-2:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return x[..., top : top + side, left : left + side]
