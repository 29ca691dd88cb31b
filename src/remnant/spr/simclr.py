"""Learning without labels (SimCLR): two strong views of an image are to be alike, and unlike all others.

Each image has its own draws, a fixed number of uniforms from an explicit generator, whether they are
used or not. B images of K channels, H x W; n images in 2 n views; d features.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

TRIES = 10  # for a rectangle that fits into the image
SCALE = (0.08, 1.0)  # share of the image that is kept
RATIO = (3 / 4, 4 / 3)  # width over height
STRENGTH = (0.5, 0.5, 0.5, 0.2)  # of brightness, contrast, saturation, hue
JITTER = 0.5  # probability that the colours of an image change
GREY = (0.299, 0.587, 0.114)


def contrastive_loss(z: Tensor, temperature: float = 0.5) -> Tensor:
    """Return NT-Xent of features (2 n, d) in which rows i and i + n are views of one image, a scalar.

    For each view the cross-entropy of cos / temperature, its partner against the 2 n - 2 views of other
    images; the mean over the views.

    >>> round(contrastive_loss(torch.eye(2).repeat(2, 1)).item(), 5)  # log(1 + 2 / e^2)
    0.23954
    """
    unit = F.normalize(z, dim=1)
    logits = (unit @ unit.T / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(z) // 2))


def strong_view(x: Tensor, flip: bool, rng: torch.Generator) -> Tensor:
    """Crop, mirror and colour uint8 images (B, K, H, W), each on its own, into floats in [0, 1]."""
    u = torch.rand(len(x), 2 * TRIES + 12, generator=rng, dtype=torch.float64)
    boxes = crop_boxes(u[:, : 2 * TRIES].unflatten(1, (TRIES, 2)), u[:, -12:-10], *x.shape[-2:])
    view = crop_and_resize(x.float() / 255, boxes, (u[:, -10] < 0.5) & flip)
    if x.shape[1] == 3:
        chosen = torch.nonzero(u[:, -9] < JITTER).flatten()
        view[chosen] = colour_jitter(view[chosen], u[chosen, -8:-4], u[chosen, -4:].argsort(1))
    return view


def crop_boxes(tries: Tensor, place: Tensor, height: int, width: int) -> Tensor:
    """Return top, left, height and width of a random rectangle of whole pixels in each image, (B, 4).

    The first of the tries (B, TRIES, 2) that fits is taken: a uniform area, and a ratio whose logarithm
    is uniform. `place` (B, 2) says where it lies. Where none fits, it is the whole image.
    """
    area = height * width * (SCALE[0] + (SCALE[1] - SCALE[0]) * tries[..., 0])
    ratio = (math.log(RATIO[0]) + math.log(RATIO[1] / RATIO[0]) * tries[..., 1]).exp()
    size = torch.stack([(area / ratio).sqrt(), (area * ratio).sqrt()], 2).round()
    whole = torch.tensor([height, width], dtype=tries.dtype)
    fits = ((size >= 1) & (size <= whole)).all(2)
    first = torch.where(fits.any(1), fits.double().argmax(1), -1)
    size = torch.cat([size, whole.expand(len(size), 1, 2)], 1)[torch.arange(len(size)), first]
    return torch.cat([(place * (whole - size + 1)).floor(), size], 1)


def crop_and_resize(x: Tensor, boxes: Tensor, is_mirrored: Tensor) -> Tensor:
    """Cut a rectangle (B, 4) out of each image, bring it to the image's size, and mirror some."""
    top, left, tall, wide = boxes.to(x).unbind(1)
    rows, columns = _positions(top, tall, x.shape[-2]), _positions(left, wide, x.shape[-1])
    columns = torch.where(is_mirrored.to(x.device)[:, None], columns.flip(1), columns)
    shape = (len(x), *x.shape[-2:])
    grid = torch.stack([columns[:, None, :].expand(shape), rows[:, :, None].expand(shape)], 3)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True).clamp(0, 1)


def _positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Return where in the image each pixel of the view looks, from -1 to 1, never outside the box."""
    middle = (torch.arange(size).to(start) + 0.5) * (length[:, None] / size) - 0.5
    pixel = start[:, None] + middle.clamp_min(0).minimum(length[:, None] - 1)
    return 2 * pixel / max(1, size - 1) - 1


def colour_jitter(x: Tensor, uniforms: Tensor, order: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue of colour images (B, 3, H, W) in [0, 1].

    How much of each is uniform around no change (B, 4); each image has an order of its own (B, 4).
    """
    x, amount = x.clone(), ((2 * uniforms - 1) * torch.tensor(STRENGTH)).to(x)
    for turn in order.unbind(1):
        for kind, change in enumerate(CHANGES):
            now = torch.nonzero(turn == kind).flatten()
            x[now] = change(x[now], amount[now, kind].view(-1, 1, 1, 1))
    return x


def _grey(x: Tensor) -> Tensor:
    return (x * torch.tensor(GREY).to(x).view(-1, 1, 1)).sum(1, keepdim=True)


def _away_from(x: Tensor, other: Tensor, amount: Tensor) -> Tensor:
    return (x + amount * (x - other)).clamp(0, 1)


def brighter(x: Tensor, amount: Tensor) -> Tensor:
    """Multiply by 1 + amount."""
    return _away_from(x, torch.zeros_like(x), amount)


def contrasted(x: Tensor, amount: Tensor) -> Tensor:
    """Move away from the mean grey of the image."""
    return _away_from(x, _grey(x).mean((1, 2, 3), keepdim=True), amount)


def saturated(x: Tensor, amount: Tensor) -> Tensor:
    """Move away from the grey of each pixel."""
    return _away_from(x, _grey(x), amount)


def hue_turned(x: Tensor, amount: Tensor) -> Tensor:
    """Turn the hue of each pixel by a share of the circle; value and saturation stay."""
    value, largest = x.max(1, keepdim=True)
    chroma = value - x.min(1, keepdim=True).values
    ahead, behind = x.roll(-1, 1).gather(1, largest), x.roll(-2, 1).gather(1, largest)
    hue = (
        2 * largest + (ahead - behind) / chroma.clamp_min(1e-12) + 6 * amount
    )  # in sixths of the circle
    away = (hue - torch.tensor([0.0, 2.0, 4.0]).to(x).view(-1, 1, 1)).remainder(6)
    distance = away.minimum(6 - away)  # of the hue from red, green and blue
    return value - chroma * (distance - 1).clamp(0, 1)


CHANGES: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (brighter, contrasted, saturated, hue_turned)
