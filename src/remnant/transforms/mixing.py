"""MixUp and CutMix: augmentations that combine the samples of a batch.

Shapes: B images of K channels, H x W pixels, C classes.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


def beta(parameter: float, count: int, rng: torch.Generator) -> Tensor:
    """Return `count` draws from Beta(parameter, parameter) by inverse transform sampling."""
    from scipy.special import betaincinv

    uniform = torch.rand(count, generator=rng, dtype=torch.float64)
    return torch.from_numpy(betaincinv(parameter, parameter, uniform.numpy()))


def mixup(x: Tensor, target: Tensor, weight: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Mix each sample i with sample other[i] of the batch; sample i has weight max(weight, 1 - weight).

    `weight` holds one value for each sample, or one for all. Targets (B, C) are mixed like the inputs.
    """
    other_weight = torch.minimum(weight, 1 - weight)
    input_weight = other_weight.to(x).view(-1, *[1] * (x.dim() - 1))
    target_weight = other_weight.to(target)[:, None]
    return x.lerp(x[other], input_weight), target.lerp(target[other], target_weight)


@dataclass(frozen=True, eq=False)
class CutMixed:
    """A batch after CutMix: each image may contain a patch of another image."""

    x: Tensor
    other: Tensor  # (B,) indices of the images that the patches come from
    own_fraction: float  # fraction of each image outside the patch

    def blend(self, own: Tensor, other: Tensor) -> Tensor:
        """Return the mean of the losses for own and other labels, weighted by the fraction of pixels."""
        return self.own_fraction * own + (1 - self.own_fraction) * other


def cutmix(x: Tensor, probability: float, rng: torch.Generator) -> CutMixed:
    """Apply CutMix with this probability: replace a rectangle of each image by that of another image.

    The rectangle covers a uniform random fraction of the image, around a uniform random centre, and is
    clipped at the border. Always draws four random numbers and a permutation, whether or not they are used.
    Inputs must be images (B, K, H, W) unless the probability is 0.
    """
    if probability and x.dim() != 4:
        raise ValueError(
            f"CutMix expects images (B, K, H, W), got the shape {tuple(x.shape)}; set cutmix to 0"
        )
    chance, own, down, right = torch.rand(4, generator=rng).tolist()
    other = torch.randperm(len(x), generator=rng)
    if chance >= probability:
        return CutMixed(x, other, 1.0)
    height, width = x.shape[2:]
    top, bottom = _interval(down, height, own)
    left, right_end = _interval(right, width, own)
    mixed = x.clone()
    mixed[..., top:bottom, left:right_end] = x[other][..., top:bottom, left:right_end]
    return CutMixed(mixed, other, 1 - (bottom - top) * (right_end - left) / (height * width))


def _interval(centre: float, size: int, own: float) -> tuple[int, int]:
    half, middle = int(size * math.sqrt(1 - own)) // 2, int(centre * size)
    return max(0, middle - half), min(size, middle + half)
