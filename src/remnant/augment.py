"""How raw inputs become what a network sees: normalised, augmented in training, mixed with each other.

Each image of a batch gets its own crop and flip, drawn from an explicit generator.
B images of K channels, H x W, C classes.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.autoaugment import autoaugment


@dataclass(frozen=True)
class View:
    """Normalisation and weak augmentation of images; `mean` and `std` are of values in [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 4  # zeros around the image before a random crop of its own size
    flip: bool = True  # mirror left and right with probability 1/2

    def plain(self, x: Tensor) -> Tensor:
        """Normalise uint8 images (B, K, H, W)."""
        return self.normalised(x.float() / 255)

    def normalised(self, x: Tensor) -> Tensor:
        """Normalise images in [0, 1]."""
        mean = torch.tensor(self.mean, device=x.device).view(-1, 1, 1)
        std = torch.tensor(self.std, device=x.device).view(-1, 1, 1)
        return (x - mean) / std

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Crop and flip each image on its own, then normalise."""
        return self.plain(crop_and_flip(x, self.pad, self.flip, rng))

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Augment each image by a policy of its own (AutoAugment), then crop and flip it."""
        return self.augmented(autoaugment(x, rng), rng)


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


def beta(parameter: float, count: int, rng: torch.Generator) -> Tensor:
    """Draw from Beta(parameter, parameter), one uniform each, by inverse distribution function."""
    from scipy.special import betaincinv

    uniform = torch.rand(count, generator=rng, dtype=torch.float64)
    return torch.from_numpy(betaincinv(parameter, parameter, uniform.numpy()))


def mixup(x: Tensor, target: Tensor, share: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Blend each row with row `other` of the batch; it keeps the larger part: max(share, 1 - share).

    One share for each row, or one for all; the target (B, C) is blended like the input.
    """
    taken = torch.minimum(share, 1 - share)
    wide = taken.to(x.dtype).view(-1, *[1] * (x.dim() - 1))
    return x.lerp(x[other], wide), target.lerp(target[other], taken.to(target.dtype)[:, None])


@dataclass(frozen=True, eq=False)
class Pasted:
    """A batch in which each image may hold a patch of another one."""

    x: Tensor
    other: Tensor  # (B,) where the patches come from
    share: float  # of each image that is its own

    def blend(self, own: Tensor, other: Tensor) -> Tensor:
        """Weigh two losses as the pixels are."""
        return self.share * own + (1 - self.share) * other


def cutmix(x: Tensor, probability: float, rng: torch.Generator) -> Pasted:
    """Paste one rectangle of other images of the batch into each, with this probability (CutMix).

    It covers a share of the image drawn uniformly, around a uniform centre, cut off at the border. Four
    uniforms and a permutation are drawn, whether they are used or not. Inputs (B, K, H, W) have
    rectangles; others are for probability 0 only.
    """
    if probability and x.dim() != 4:
        raise ValueError(
            f"CutMix expects images (B, K, H, W), got the shape {tuple(x.shape)}; set cutmix to 0"
        )
    chance, own, down, right = torch.rand(4, generator=rng).tolist()
    other = torch.randperm(len(x), generator=rng)
    if chance >= probability:
        return Pasted(x, other, 1.0)
    height, width = x.shape[2:]
    top, bottom = _stretch(down, height, own)
    left, right_end = _stretch(right, width, own)
    mixed = x.clone()
    mixed[..., top:bottom, left:right_end] = x[other][..., top:bottom, left:right_end]
    return Pasted(mixed, other, 1 - (bottom - top) * (right_end - left) / (height * width))


def _stretch(centre: float, size: int, own: float) -> tuple[int, int]:
    half, middle = int(size * math.sqrt(1 - own)) // 2, int(centre * size)
    return max(0, middle - half), min(size, middle + half)
