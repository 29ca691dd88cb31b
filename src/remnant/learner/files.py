"""Predictions for image files, which are resized as in training."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from remnant.data.images import read_image
from remnant.data.own.folder import SUFFIXES
from remnant.errors import RemnantError
from remnant.learner.inputs import with_channels
from remnant.models.model import Label, Model


def image_files(path: Path) -> list[Path]:
    """Return a file, or the image files in a folder and the folders in it."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not found:
        raise RemnantError(f"{path}: expected a folder with images ({', '.join(SUFFIXES)}), found none.")
    return found


def predicted(model: Model, files: Sequence[Path]) -> list[tuple[Label, float] | str]:
    """Return label and confidence of each image, or why it cannot be read."""
    if not model.spec.are_images or model.spec.shape[-1] != model.spec.shape[-2]:
        raise RemnantError(f"expected a model of square images, got one of {model.spec.name}.")
    images: dict[int, Tensor] = {}
    results: list[tuple[Label, float] | str] = [""] * len(files)
    for i, path in enumerate(files):
        try:
            images[i] = torch.from_numpy(read_image(path, model.spec.shape[-1], model.spec.resize))
        except (ValueError, OSError) as error:
            results[i] = str(error)
    if images:
        x = with_channels(torch.stack(list(images.values())), model.spec.shape[0])
        confidence, best = model.probabilities(x).max(1)
        for i, value, number in zip(images, confidence.tolist(), best.tolist(), strict=True):
            results[i] = model.labels[number], value
    return results
