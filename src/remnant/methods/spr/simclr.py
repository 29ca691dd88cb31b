"""Self-supervised learning (SimCLR): the contrastive loss and the strong augmentation of images.

Each image is augmented independently, with a fixed number of random numbers, whether they are used or
not. B images of K channels, H x W; n images in 2 n views; d features.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

ATTEMPTS = 10  # to find a crop that fits into the image
SCALE = (0.08, 1.0)  # area of the crop as a fraction of the image
RATIO = (3 / 4, 4 / 3)  # width / height of the crop
STRENGTH = (0.5, 0.5, 0.5, 0.2)  # of brightness, contrast, saturation, hue
JITTER = 0.5  # probability of colour jitter
GREY = (0.299, 0.587, 0.114)


def contrastive_loss(z: Tensor, temperature: float = 0.5) -> Tensor:
    """Return the NT-Xent loss of features (2 n, d), where rows i and i + n are views of the same image.

    For each view, this is the cross-entropy of cos / temperature over all other views, with the other
    view of the same image as the target; the result is the mean over the views.

    >>> round(contrastive_loss(torch.eye(2).repeat(2, 1)).item(), 5)  # log(1 + 2 / e^2)
    0.23954
    """
    unit = F.normalize(z, dim=1)
    logits = (unit @ unit.T / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(z) // 2))


def strong_view(x: Tensor, flip: bool, rng: torch.Generator) -> Tensor:
    """Crop, mirror and colour-jitter uint8 images (B, K, H, W); return floats in [0, 1]."""
    u = torch.rand(len(x), 2 * ATTEMPTS + 12, generator=rng, dtype=torch.float64)
    boxes = crop_boxes(u[:, : 2 * ATTEMPTS].unflatten(1, (ATTEMPTS, 2)), u[:, -12:-10], *x.shape[-2:])
    view = crop_and_resize(x.float() / 255, boxes.to(x.device), ((u[:, -10] < 0.5) & flip).to(x.device))
    if x.shape[1] == 3:
        chosen = torch.nonzero(u[:, -9] < JITTER).flatten()
        view[chosen] = colour_jitter(view[chosen], u[chosen, -8:-4], u[chosen, -4:].argsort(1))
    return view


def crop_boxes(attempts: Tensor, position: Tensor, height: int, width: int) -> Tensor:
    """Return top, left, height and width of a random crop of each image, in whole pixels, (B, 4).

    `attempts` (B, ATTEMPTS, 2) are uniforms for the area and the logarithm of the ratio; the first crop
    that fits is used, or the whole image if none does. `position` (B, 2) are uniforms for its position.
    """
    area = height * width * (SCALE[0] + (SCALE[1] - SCALE[0]) * attempts[..., 0])
    ratio = (math.log(RATIO[0]) + math.log(RATIO[1] / RATIO[0]) * attempts[..., 1]).exp()
    size = torch.stack([(area / ratio).sqrt(), (area * ratio).sqrt()], 2).round()
    whole = torch.tensor([height, width], dtype=attempts.dtype)
    fits = ((size >= 1) & (size <= whole)).all(2)
    first = torch.where(fits.any(1), fits.double().argmax(1), -1)
    size = torch.cat([size, whole.expand(len(size), 1, 2)], 1)[torch.arange(len(size)), first]
    return torch.cat([(position * (whole - size + 1)).floor(), size], 1)


def crop_and_resize(x: Tensor, boxes: Tensor, is_mirrored: Tensor) -> Tensor:
    """Crop each image to its box (B, 4), resize it to the size of the image, and mirror some."""
    top, left, height, width = boxes.to(x).unbind(1)
    rows, columns = _positions(top, height, x.shape[-2]), _positions(left, width, x.shape[-1])
    columns = torch.where(is_mirrored.to(x.device)[:, None], columns.flip(1), columns)
    shape = (len(x), *x.shape[-2:])
    grid = torch.stack([columns[:, None, :].expand(shape), rows[:, :, None].expand(shape)], 3)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True).clamp(0, 1)


def _positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Return the position in the image, from -1 to 1, of each pixel of the view, clamped to the box."""
    centre = (torch.arange(size).to(start) + 0.5) * (length[:, None] / size) - 0.5
    pixel = start[:, None] + centre.clamp_min(0).minimum(length[:, None] - 1)
    return 2 * pixel / max(1, size - 1) - 1


def colour_jitter(x: Tensor, uniforms: Tensor, order: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue of colour images (B, 3, H, W) in [0, 1].

    `uniforms` (B, 4) are the amounts of the changes, 1/2 meaning none; `order` (B, 4) is their order.
    """
    x, amount = x.clone(), ((2 * uniforms - 1) * torch.tensor(STRENGTH)).to(x)
    for current in order.unbind(1):
        for kind, adjust in enumerate(ADJUSTMENTS):
            index = torch.nonzero(current == kind).flatten()
            x[index] = adjust(x[index], amount[index, kind].view(-1, 1, 1, 1))
    return x


def _grey(x: Tensor) -> Tensor:
    return (x * torch.tensor(GREY).to(x).view(-1, 1, 1)).sum(1, keepdim=True)


def _extrapolate(x: Tensor, other: Tensor, amount: Tensor) -> Tensor:
    return (x + amount * (x - other)).clamp(0, 1)


def adjust_brightness(x: Tensor, amount: Tensor) -> Tensor:
    """Multiply the image by 1 + amount."""
    return _extrapolate(x, torch.zeros_like(x), amount)


def adjust_contrast(x: Tensor, amount: Tensor) -> Tensor:
    """Multiply the difference from the mean grey of the image by 1 + amount."""
    return _extrapolate(x, _grey(x).mean((1, 2, 3), keepdim=True), amount)


def adjust_saturation(x: Tensor, amount: Tensor) -> Tensor:
    """Multiply the difference from the grey value of each pixel by 1 + amount."""
    return _extrapolate(x, _grey(x), amount)


def adjust_hue(x: Tensor, amount: Tensor) -> Tensor:
    """Rotate the hue of each pixel by a fraction of the circle; value and saturation are unchanged."""
    value, largest = x.max(1, keepdim=True)
    chroma = value - x.min(1, keepdim=True).values
    ahead, behind = x.roll(-1, 1).gather(1, largest), x.roll(-2, 1).gather(1, largest)
    # In sixths of the circle.
    hue = 2 * largest + (ahead - behind) / chroma.clamp_min(1e-12) + 6 * amount
    away = (hue - torch.tensor([0.0, 2.0, 4.0]).to(x).view(-1, 1, 1)).remainder(6)
    distance = away.minimum(6 - away)  # of the hue from red, green and blue
    return value - chroma * (distance - 1).clamp(0, 1)


ADJUSTMENTS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue,
)  # fmt: skip
