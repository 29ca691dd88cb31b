"""AutoAugment: strong augmentation of uint8 images by the policy for CIFAR-10 (Cubuk et al., 2019).

One of 25 sub-policies is drawn for each image, and each of its two steps is applied with its own
probability. Results are identical to those of Pillow with nearest-neighbour resampling. Shapes: B images of
K channels (1 or 3), H x W pixels. An operation is applied to N of them, with strengths (N,) in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

GREY = 128  # fill value for pixels that come from outside the image
LEVELS = 10  # levels of strength, 0 to 9
_ONE = 1 << 16  # Pillow computes positions and grey values in units of 1 / 65536
_LUMA = (19595, 38470, 7471)  # weights of red, green and blue in grey, in these units

# (p, q, s): a pixel is copied from p * column + q * row + s, where pixel centres are half-integers.
_Affine = tuple[Tensor | float, Tensor | float, Tensor | float]


def autoaugment(x: Tensor, rng: torch.Generator) -> Tensor:
    """Augment each uint8 image (B, K, H, W) by a random sub-policy.

    Always draws the five random numbers per image that `apply_policy` takes, whether or not they are used.
    """
    return apply_policy(x, torch.rand(len(x), 5, generator=rng))


def apply_policy(x: Tensor, uniforms: Tensor) -> Tensor:
    """Augment images with `uniforms` (B, 5): sub-policy, whether to apply each step, sign of each step."""
    x = x.clone()
    for turn in range(2):
        groups: dict[str, list[tuple[int, float]]] = {}
        for i, u in enumerate(uniforms.tolist()):
            step = POLICY[int(u[0] * len(POLICY))][turn]
            if u[1 + turn] < step.probability:
                strength = OPERATIONS[step.operation].strength(step.level, negative=u[3 + turn] < 0.5)
                groups.setdefault(step.operation, []).append((i, strength))
        for name, group in groups.items():
            index = torch.tensor([i for i, _ in group], device=x.device)
            strengths = torch.tensor([s for _, s in group], dtype=torch.float64, device=x.device)
            x[index] = OPERATIONS[name].apply(x[index], strengths)
    return x


def shear_y(x: Tensor, slope: Tensor) -> Tensor:
    """Shift each column up by `slope` times its distance from the left border."""
    return _resample(x, column=(1, 0, 0), row=(slope, 1, 0))


def translate_x(x: Tensor, fraction: Tensor) -> Tensor:
    """Shift the image to the left by this fraction of its width."""
    return _resample(x, column=(1, 0, fraction * x.shape[-1]), row=(0, 1, 0))


def translate_y(x: Tensor, fraction: Tensor) -> Tensor:
    """Shift the image up by this fraction of its height."""
    return _resample(x, column=(1, 0, 0), row=(0, 1, fraction * x.shape[-2]))


def rotate(x: Tensor, degrees: Tensor) -> Tensor:
    """Rotate the image counter-clockwise about its centre."""
    down, right = x.shape[-2] / 2, x.shape[-1] / 2  # the centre
    cos, sin = torch.cos(torch.deg2rad(degrees)), torch.sin(torch.deg2rad(degrees))
    column = (cos, -sin, right - cos * right + sin * down)
    return _resample(x, column, row=(sin, cos, down - sin * right - cos * down))


def colour(x: Tensor, change: Tensor) -> Tensor:
    """Change the saturation: blend with the grey version. Images of one channel are not changed."""
    return _blend(_grey(x), x, change)


def contrast(x: Tensor, change: Tensor) -> Tensor:
    """Change the contrast: blend with the mean grey value, rounded to an integer."""
    mean = _grey(x).double().mean((1, 2, 3), keepdim=True)
    return _blend((mean + 0.5).floor(), x, change)


def brightness(x: Tensor, change: Tensor) -> Tensor:
    """Change the brightness: blend with black."""
    return _blend(torch.zeros_like(x), x, change)


def sharpness(x: Tensor, change: Tensor) -> Tensor:
    """Change the sharpness: blend with a smoothed version.

    Smoothing is the mean of 3 x 3 pixels with weight 5 for the middle one; border pixels are not smoothed.
    """
    if min(x.shape[-2:]) < 3:
        return x
    smooth = x.float()
    three_rows = smooth[..., :-2, :] + smooth[..., 1:-1, :] + smooth[..., 2:, :]
    nine = three_rows[..., :-2] + three_rows[..., 1:-1] + three_rows[..., 2:]
    middle = smooth[..., 1:-1, 1:-1]
    middle.copy_(((nine + 4 * middle) / 13).round())
    return _blend(smooth, x, change)


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest `bits` bits of each value; `bits` is rounded to an integer."""
    return x & (256 - 2 ** (8 - bits.round())).to(torch.uint8).view(-1, 1, 1, 1)


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Invert the values at and above the threshold."""
    return torch.where(x < threshold.view(-1, 1, 1, 1), x, 255 - x)


def invert(x: Tensor, _: Tensor) -> Tensor:
    """Invert all values."""
    return 255 - x


def autocontrast(x: Tensor, _: Tensor) -> Tensor:
    """Stretch the values of each channel linearly to the range 0 to 255."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    white = torch.tensor(255.0, dtype=torch.float64, device=x.device)
    scale = white / (high - low).clamp(min=1)  # 255 / ... would round twice and may be off by one
    stretched = x * scale - low * scale
    return torch.where(high > low, stretched.clamp(0, 255).to(torch.uint8), x)


def equalize(x: Tensor, _: Tensor) -> Tensor:
    """Equalise the histogram of each channel.

    A value is mapped to the number of darker pixels divided by a step: 1/255 of the number of pixels that
    are darker than the lightest value. A channel with fewer than 255 such pixels is not changed.
    """
    flat = x.flatten(2).flatten(0, 1).long()  # one row per channel
    channels = torch.arange(len(flat), device=x.device)[:, None]
    histogram = torch.bincount((flat + 256 * channels).flatten(), minlength=256 * len(flat)).view(-1, 256)
    below = histogram.cumsum(1) - histogram
    step = below.gather(1, flat.amax(1, keepdim=True)) // 255
    table = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, table.gather(1, flat), flat).to(torch.uint8).view_as(x)


def _resample(x: Tensor, column: _Affine, row: _Affine) -> Tensor:
    """Copy each output pixel from its source position; positions outside the image are grey."""
    height, width = x.shape[-2:]
    from_column, from_row = _source(x, column), _source(x, row)
    inside = (from_column >= 0) & (from_column < width) & (from_row >= 0) & (from_row < height)
    source = torch.where(inside, from_row * width + from_column, 0).flatten(1)
    moved = x.flatten(2).gather(2, source[:, None].expand(-1, x.shape[1], -1)).view_as(x)
    return torch.where(inside[:, None], moved, GREY)


def _source(x: Tensor, affine: _Affine) -> Tensor:
    """Return the source column or row of each output pixel, (N or 1, H, W), as integers."""
    by_column, by_row, offset = affine
    columns = torch.arange(x.shape[-1], device=x.device)
    rows = torch.arange(x.shape[-2], device=x.device)[:, None]
    start = _fixed(offset + (by_column + by_row) / 2, x)
    return (start + _fixed(by_column, x) * columns + _fixed(by_row, x) * rows) // _ONE


def _fixed(value: Tensor | float, x: Tensor) -> Tensor:
    value = torch.as_tensor(value, dtype=torch.float64, device=x.device)
    return (value * _ONE + 0.5).floor().long().view(-1, 1, 1)


def _grey(x: Tensor) -> Tensor:
    """Return the luminance, (N, 1, H, W), rounded."""
    if x.shape[1] == 1:
        return x
    weights = torch.tensor(_LUMA, dtype=torch.int32, device=x.device).view(3, 1, 1)
    return ((x * weights).sum(1, keepdim=True) + _ONE // 2) // _ONE


def _blend(base: Tensor, x: Tensor, change: Tensor) -> Tensor:
    """Return base + (1 + change) * (x - base), computed in float32 and truncated."""
    factor = (1 + change).float().view(-1, 1, 1, 1)
    base = base.float()
    return (base + factor * (x.float() - base)).clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class Operation:
    """An operation on images, with a strength that depends linearly on the level."""

    apply: Callable[[Tensor, Tensor], Tensor]
    first: float = 0.0  # strength at level 0
    last: float = 0.0  # strength at level 9
    signed: bool = False  # the strength is negated with probability 1/2

    def strength(self, level: int, negative: bool) -> float:
        """Return the strength at this level, negated if the operation is signed and `negative`."""
        size = self.first + (self.last - self.first) * level / (LEVELS - 1)
        return -size if self.signed and negative else size


OPERATIONS = {
    "shear_y": Operation(shear_y, 0, 0.3, signed=True),
    "translate_x": Operation(translate_x, 0, 150 / 331, signed=True),
    "translate_y": Operation(translate_y, 0, 150 / 331, signed=True),
    "rotate": Operation(rotate, 0, 30, signed=True),
    "colour": Operation(colour, 0, 0.9, signed=True),
    "contrast": Operation(contrast, 0, 0.9, signed=True),
    "brightness": Operation(brightness, 0, 0.9, signed=True),
    "sharpness": Operation(sharpness, 0, 0.9, signed=True),
    "posterize": Operation(posterize, 8, 4),
    "solarize": Operation(solarize, 256, 0),
    "invert": Operation(invert),
    "autocontrast": Operation(autocontrast),
    "equalize": Operation(equalize),
}


class Step(NamedTuple):
    """One of the two steps of a sub-policy. The level has no effect if the operation has no strength."""

    operation: str
    probability: float
    level: int


# The table in the appendix of the paper. Operations that no sub-policy uses are not implemented.
POLICY: tuple[tuple[Step, Step], ...] = (
    (Step("invert", 0.1, 7), Step("contrast", 0.2, 6)),
    (Step("rotate", 0.7, 2), Step("translate_x", 0.3, 9)),
    (Step("sharpness", 0.8, 1), Step("sharpness", 0.9, 3)),
    (Step("shear_y", 0.5, 8), Step("translate_y", 0.7, 9)),
    (Step("autocontrast", 0.5, 8), Step("equalize", 0.9, 2)),
    (Step("shear_y", 0.2, 7), Step("posterize", 0.3, 7)),
    (Step("colour", 0.4, 3), Step("brightness", 0.6, 7)),
    (Step("sharpness", 0.3, 9), Step("brightness", 0.7, 9)),
    (Step("equalize", 0.6, 5), Step("equalize", 0.5, 1)),
    (Step("contrast", 0.6, 7), Step("sharpness", 0.6, 5)),
    (Step("colour", 0.7, 7), Step("translate_x", 0.5, 8)),
    (Step("equalize", 0.3, 7), Step("autocontrast", 0.4, 8)),
    (Step("translate_y", 0.4, 3), Step("sharpness", 0.2, 6)),
    (Step("brightness", 0.9, 6), Step("colour", 0.2, 8)),
    (Step("solarize", 0.5, 2), Step("invert", 0.0, 3)),
    (Step("equalize", 0.2, 0), Step("autocontrast", 0.6, 0)),
    (Step("equalize", 0.2, 8), Step("equalize", 0.6, 4)),
    (Step("colour", 0.9, 9), Step("equalize", 0.6, 6)),
    (Step("autocontrast", 0.8, 4), Step("solarize", 0.2, 8)),
    (Step("brightness", 0.1, 3), Step("colour", 0.7, 0)),
    (Step("solarize", 0.4, 5), Step("autocontrast", 0.9, 3)),
    (Step("translate_y", 0.9, 9), Step("translate_y", 0.7, 9)),
    (Step("autocontrast", 0.9, 2), Step("solarize", 0.8, 3)),
    (Step("equalize", 0.8, 8), Step("invert", 0.1, 3)),
    (Step("translate_y", 0.7, 9), Step("autocontrast", 0.9, 1)),
)
