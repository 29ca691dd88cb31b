"""The AutoAugment policy found on CIFAR-10 (Cubuk et al. 2019): strong augmentation of uint8 images.

Each image draws one of 25 sub-policies, and each of its two operations happens with its own
probability. Operations give the bytes that Pillow gives, with the nearest pixel where one moves. B
images of K channels (1 or 3), H x W; an operation sees the N of them that drew it, and a strength (N,)
in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

GREY = 128  # what comes in from outside of an image
LEVELS = 10  # of strength, 0 to 9
_ONE = 1 << 16  # Pillow computes places and greys in units of 1 / 65536
_LUMA = (19595, 38470, 7471)  # weights of red, green and blue in grey, in these units

# Where a pixel comes from, its column or its row, as p c + q r + s of the column c and the row r where
# it is shown; a pixel's middle is at a half.
_Map = tuple[Tensor | float, Tensor | float, Tensor | float]


def autoaugment(x: Tensor, rng: torch.Generator) -> Tensor:
    """Augment each uint8 image (B, K, H, W) by a sub-policy of its own.

    Five uniforms per image, whether they are used or not: sub-policy, two coins, two signs.
    """
    return follow_policy(x, torch.rand(len(x), 5, generator=rng))


def follow_policy(x: Tensor, uniforms: Tensor) -> Tensor:
    """Augment each image as its own row of `uniforms` (B, 5) says: sub-policy, two coins, two signs."""
    steps = [POLICY[int(u * len(POLICY))] for u in uniforms[:, 0].tolist()]
    x = x.clone()
    for turn in range(2):
        groups: dict[str, list[tuple[int, float]]] = {}
        draws = zip(steps, uniforms[:, 1 + turn].tolist(), uniforms[:, 3 + turn].tolist(), strict=True)
        for row, (pair, coin, sign) in enumerate(draws):
            step = pair[turn]
            if coin < step.probability:
                strength = OPERATIONS[step.operation].strength(step.level, negative=sign < 0.5)
                groups.setdefault(step.operation, []).append((row, strength))
        for name, group in groups.items():
            rows = torch.tensor([row for row, _ in group], device=x.device)
            strengths = torch.tensor([s for _, s in group], dtype=torch.float64, device=x.device)
            x[rows] = OPERATIONS[name].apply(x[rows], strengths)
    return x


def shear_y(x: Tensor, slope: Tensor) -> Tensor:
    """Move each column up by its distance from the left border, times `slope`."""
    return _resample(x, column=(1, 0, 0), row=(slope, 1, 0))


def translate_x(x: Tensor, share: Tensor) -> Tensor:
    """Move the image to the left by this share of its width."""
    return _resample(x, column=(1, 0, share * x.shape[-1]), row=(0, 1, 0))


def translate_y(x: Tensor, share: Tensor) -> Tensor:
    """Move the image up by this share of its height."""
    return _resample(x, column=(1, 0, 0), row=(0, 1, share * x.shape[-2]))


def rotate(x: Tensor, degrees: Tensor) -> Tensor:
    """Turn the image about its centre, counter-clockwise."""
    down, right = x.shape[-2] / 2, x.shape[-1] / 2
    cos, sin = torch.cos(torch.deg2rad(degrees)), torch.sin(torch.deg2rad(degrees))
    column = (cos, -sin, right - cos * right + sin * down)
    return _resample(x, column, row=(sin, cos, down - sin * right - cos * down))


def colour(x: Tensor, more: Tensor) -> Tensor:
    """Take the image away from its grey version, or towards it; one channel stays as it is."""
    return _blend(_grey(x), x, more)


def contrast(x: Tensor, more: Tensor) -> Tensor:
    """Take the image away from its mean grey, one rounded number, or towards it."""
    mean = _grey(x).double().mean((1, 2, 3), keepdim=True)
    return _blend((mean + 0.5).floor(), x, more)


def brightness(x: Tensor, more: Tensor) -> Tensor:
    """Take the image away from black, or towards it."""
    return _blend(torch.zeros_like(x), x, more)


def sharpness(x: Tensor, more: Tensor) -> Tensor:
    """Take the image away from its smooth version, or towards it.

    Smooth is the mean of 3 x 3 pixels, in which the middle one counts five times; the border stays.
    """
    if min(x.shape[-2:]) < 3:
        return x
    smooth = x.float()
    three = smooth[..., :-2, :] + smooth[..., 1:-1, :] + smooth[..., 2:, :]
    nine = three[..., :-2] + three[..., 1:-1] + three[..., 2:]
    middle = smooth[..., 1:-1, 1:-1]
    middle.copy_(((nine + 4 * middle) / 13).round())
    return _blend(smooth, x, more)


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest bits of each value; their number is rounded."""
    return x & (256 - 2 ** (8 - bits.round())).to(torch.uint8).view(-1, 1, 1, 1)


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Invert the values at and above the threshold."""
    return torch.where(x < threshold.view(-1, 1, 1, 1), x, 255 - x)


def invert(x: Tensor, _: Tensor) -> Tensor:
    """Turn light into dark."""
    return 255 - x


def autocontrast(x: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel, so that its darkest value becomes 0 and its lightest 255."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    white = torch.tensor(255.0, dtype=torch.float64, device=x.device)
    scale = white / (high - low).clamp(min=1)  # 255 / tensor rounds twice, and now and then is one off
    stretched = x * scale - low * scale
    return torch.where(high > low, stretched.clamp(0, 255).to(torch.uint8), x)


def equalize(x: Tensor, _: Tensor) -> Tensor:
    """Spread the values of each channel, so that each is about as frequent as any other.

    A value becomes the number of darker pixels, counted in steps of 1/255 of those that are darker than
    the lightest one. With fewer than 255 of these the channel stays as it is.
    """
    flat = x.flatten(2).flatten(0, 1).long()  # one row per channel
    channels = torch.arange(len(flat), device=x.device)[:, None]
    counts = torch.bincount((flat + 256 * channels).flatten(), minlength=256 * len(flat))
    histogram = counts.view(-1, 256)
    below = histogram.cumsum(1) - histogram
    step = below.gather(1, flat.amax(1, keepdim=True)) // 255
    table = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, table.gather(1, flat), flat).to(torch.uint8).view_as(x)


def _resample(x: Tensor, column: _Map, row: _Map) -> Tensor:
    """Show at each place the pixel that lies where it comes from, grey if that is outside."""
    height, width = x.shape[-2:]
    from_column, from_row = _source(x, column), _source(x, row)
    inside = (from_column >= 0) & (from_column < width) & (from_row >= 0) & (from_row < height)
    place = torch.where(inside, from_row * width + from_column, 0).flatten(1)
    shown = x.flatten(2).gather(2, place[:, None].expand(-1, x.shape[1], -1)).view_as(x)
    return torch.where(inside[:, None], shown, GREY)


def _source(x: Tensor, place: _Map) -> Tensor:
    """Where the middle of each pixel comes from, (N or 1, H, W), as whole numbers."""
    by_column, by_row, beyond = place
    columns = torch.arange(x.shape[-1], device=x.device)
    rows = torch.arange(x.shape[-2], device=x.device)[:, None]
    start = _fixed(beyond + (by_column + by_row) / 2, x)
    return (start + _fixed(by_column, x) * columns + _fixed(by_row, x) * rows) // _ONE


def _fixed(value: Tensor | float, x: Tensor) -> Tensor:
    value = torch.as_tensor(value, dtype=torch.float64, device=x.device)
    return (value * _ONE + 0.5).floor().long().view(-1, 1, 1)


def _grey(x: Tensor) -> Tensor:
    """Brightness as the eye sees it, (N, 1, H, W), rounded."""
    if x.shape[1] == 1:
        return x
    weights = torch.tensor(_LUMA, dtype=torch.int32, device=x.device).view(3, 1, 1)
    return ((x * weights).sum(1, keepdim=True) + _ONE // 2) // _ONE


def _blend(plain: Tensor, x: Tensor, more: Tensor) -> Tensor:
    """plain + (1 + more) (x - plain) in float32, fractions cut off."""
    factor = (1 + more).float().view(-1, 1, 1, 1)
    plain = plain.float()
    return (plain + factor * (x.float() - plain)).clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class Operation:
    """What is done to images, and how strength depends on its level."""

    apply: Callable[[Tensor, Tensor], Tensor]
    first: float = 0.0  # strength at level 0
    last: float = 0.0  # strength at level 9
    signed: bool = False  # goes either way, with equal chances

    def strength(self, level: int, negative: bool) -> float:
        """Return the strength of this level, with a sign if the operation has one."""
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
    """Half of a sub-policy. The level means nothing to an operation that has no strength."""

    operation: str
    probability: float
    level: int


# The table of the paper's appendix. Those of its operations that no sub-policy uses are left out.
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
