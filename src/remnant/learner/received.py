"""The samples that a method receives from a learner: images of one size, or features of images of any size.

n images of K channels, H x W pixels; D features.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from remnant.config import Config
from remnant.data import Spec
from remnant.data.dataset import Source
from remnant.data.own.image_size import is_side
from remnant.engine.inference import device_of
from remnant.errors import RemnantError
from remnant.experiment.build import embeds
from remnant.learner.inputs import squares, with_channels
from remnant.nets import Backbone, Features
from remnant.transforms.image import ImageTransform

SIDE = 32  # pixels per side of image files, unless the network has a size of its own
PART = 256  # images whose features are computed at a time
# Of a learner that has not received any images.
UNKNOWN = Spec("learner", (3, 32, 32), ("a", "b"), ImageTransform((0.5,) * 3, (0.25,) * 3))

Embed = Callable[[Backbone, Tensor, torch.device], Tensor]


def check_side(image_size: object) -> None:
    """Raise RemnantError for a side length of image files that own data cannot have."""
    if not isinstance(image_size, int) or not is_side(image_size):
        raise RemnantError(f"image_size: expected 0 or a number from 8 to 1024, got {image_size!r:.60}.")


def side_of(net: object, image_size: int) -> int:
    """Return the side length of image files; if `image_size` is 0, that of a pretrained network, else 32."""
    return image_size or (net.pretrained.size if isinstance(net, Features) else SIDE)


def first_spec(
    images: Source, classes: tuple[str, ...], config: Config, transform: ImageTransform | None, side: int
) -> Spec:
    """Return the spec of the first images; features are computed of RGB images of any size."""
    if embeds(config):
        spec = Spec("learner", (3, side, side), classes, transform or ImageTransform((0.5,) * 3, (0.25,) * 3))
        normalised: Spec = config.net.normalised(spec)
        return normalised
    x = images.take(torch.arange(len(images)))
    return Spec("learner", tuple(x.shape[1:]), classes, transform or transform_of(x))


def transform_of(x: Tensor) -> ImageTransform:
    """Return the transform that normalises images like these; colour images are flipped."""
    pixels = x.double() / 255
    mean, std = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3)).clamp(min=1e-3)
    return ImageTransform(tuple(mean.tolist()), tuple(std.tolist()), x.shape[-1] // 8, len(mean) == 3)


def received(images: Source, spec: Spec, backbone: Backbone | None, embed: Embed) -> Tensor:
    """Return images (n, K, H, W) that fit the spec, or features (n, D) if there is a frozen backbone."""
    index = torch.arange(len(images))
    if backbone is not None:
        parts = (squares(images.take(part)) for part in index.split(PART))
        return torch.cat([embed(backbone, part, device_of(backbone)) for part in parts])
    x = with_channels(images.take(index), spec.shape[0])
    if tuple(x.shape[1:]) != spec.shape:
        raise RemnantError(f"expected images of shape {spec.shape}, got {tuple(x.shape[1:])}. Resize them.")
    return x
