"""Transform for images: normalisation, random crop and flip, and AutoAugment.

The crop and the flip of each image of a batch are drawn independently, from an explicit generator.
Shapes: B images of K channels, H x W pixels.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.transforms.autoaugment import autoaugment


@dataclass(frozen=True)
class ImageTransform:
    """Normalisation and augmentation of images; `mean` and `std` refer to pixel values in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 4  # zero padding on each side before a random crop to the original size
    flip: bool = True  # flip horizontally with probability 1/2

    def plain(self, x: Tensor) -> Tensor:
        """Normalise uint8 images (B, K, H, W), without augmentation."""
        return self.normalised(x.float() / 255)

    def normalised(self, x: Tensor) -> Tensor:
        """Normalise images with values in [0, 1]."""
        mean = torch.tensor(self.mean, device=x.device).view(-1, 1, 1)
        std = torch.tensor(self.std, device=x.device).view(-1, 1, 1)
        return (x - mean) / std

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Apply weak augmentation: crop and flip each image independently, then normalise."""
        return self.plain(crop_and_flip(x, self.pad, self.flip, rng))

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Apply strong augmentation: AutoAugment of each image independently, then weak augmentation."""
        return self.augmented(autoaugment(x, rng), rng)


def crop_and_flip(x: Tensor, pad: int, flip: bool, rng: torch.Generator) -> Tensor:
    """Shift each image by up to `pad` pixels, filling with zeros; if `flip`, flip it with probability 1/2.

    Always draws three random numbers per image (down, right, flip), whether or not they are used.
    """
    batch, channels, height, width = x.shape
    u = torch.rand(batch, 3, generator=rng)
    top, left = (u[:, :2] * (2 * pad + 1)).long().to(x.device).unbind(1)
    flipped = ((u[:, 2] < 0.5) & flip).to(x.device)
    columns = torch.arange(width, device=x.device).expand(batch, width)
    columns = torch.where(flipped[:, None], width - 1 - columns, columns) + left[:, None]
    rows = torch.arange(height, device=x.device) + top[:, None]
    image = torch.arange(batch, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    padded = F.pad(x, (pad, pad, pad, pad))
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
