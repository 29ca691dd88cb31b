"""How raw inputs become what a network sees: normalised, and augmented in training.

Each image of a batch gets its own crop and flip, drawn from an explicit generator.
B images of K channels, H x W.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class View:
    """Normalisation and weak augmentation of images; `mean` and `std` are of values in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 4  # zeros around the image before a random crop of its own size
    flip: bool = True  # mirror left and right with probability 1/2

    def plain(self, x: Tensor) -> Tensor:
        """Normalise uint8 images (B, K, H, W)."""
        mean = torch.tensor(self.mean, device=x.device).view(-1, 1, 1)
        std = torch.tensor(self.std, device=x.device).view(-1, 1, 1)
        return (x.float() / 255 - mean) / std

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Crop and flip each image on its own, then normalise."""
        return self.plain(crop_and_flip(x, self.pad, self.flip, rng))


def crop_and_flip(x: Tensor, pad: int, flip: bool, rng: torch.Generator) -> Tensor:
    """Shift each image by up to `pad` pixels, zeros coming in, and mirror it half of the time.

    Three uniforms per image, whether they are used or not: down, right, mirror.
    """
    batch, channels, height, width = x.shape
    u = torch.rand(batch, 3, generator=rng)
    top, left = (u[:, :2] * (2 * pad + 1)).long().to(x.device).unbind(1)
    mirrored = ((u[:, 2] < 0.5) & flip).to(x.device)
    columns = torch.arange(width, device=x.device).expand(batch, width)
    columns = torch.where(mirrored[:, None], width - 1 - columns, columns) + left[:, None]
    rows = torch.arange(height, device=x.device) + top[:, None]
    image = torch.arange(batch, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    padded = F.pad(x, (pad, pad, pad, pad))
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
