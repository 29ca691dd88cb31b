"""Pretrained backbones: networks from images of any size to feature vectors.

B images of K channels (3, or 1 if they are grey), H x W pixels; D features.
"""

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.data.pretrained import EFFICIENTNET_LITE0, Pretrained
from remnant.nets.pretrained import huggingface
from remnant.nets.pretrained.efficientnet import FEATURES, EfficientNetLite0, renamed

HUGGING_FACE = "hf:"  # start of the names of backbones from transformers


class Backbone(nn.Module):
    """A pretrained network that resizes its inputs; it is used frozen, or trained with a head on top."""

    def __init__(self, body: nn.Module, pretrained: Pretrained) -> None:
        super().__init__()
        self.body, self.pretrained = body, pretrained

    def prepare(self, x: Tensor) -> Tensor:
        """Normalise uint8 images (B, K, H, W)."""
        mean, std = (
            torch.tensor(v, device=x.device).view(-1, 1, 1)
            for v in (self.pretrained.mean, self.pretrained.std)
        )
        return (x.float() / 255 - mean) / std

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, D) of normalised images (B, K, H, W)."""
        x, sides = x.expand(-1, 3, -1, -1), (self.pretrained.size, self.pretrained.size)
        if x.shape[2:] != sides:
            x = F.interpolate(x, sides, mode="bilinear", antialias=True)
        return cast(Tensor, self.body(x))


LITE0 = Pretrained(
    size=128,
    mean=(127 / 255,) * 3,
    std=(128 / 255,) * 3,
    features=FEATURES,
    weights=EFFICIENTNET_LITE0.sha256,
)


class _Lite0(nn.Module):
    """EfficientNet-Lite0 without its ImageNet classifier."""

    def __init__(self) -> None:
        super().__init__()
        published = EFFICIENTNET_LITE0.read()
        self.net = EfficientNetLite0()
        self.net.load_state_dict({renamed(name): torch.from_numpy(w) for name, w in published.items()})
        del self.net.head

    def forward(self, x: Tensor) -> Tensor:
        return self.net.features(x)


BACKBONES: dict[str, tuple[Pretrained, Callable[[], nn.Module]]] = {
    "efficientnet-lite0": (LITE0, _Lite0),
}


def is_backbone(name: str) -> bool:
    """Return whether a name has the form of a backbone's: a built-in one, or hf:NAME."""
    return name in BACKBONES or (name.startswith(HUGGING_FACE) and name != HUGGING_FACE)


def describe(name: str) -> Pretrained:
    """Return what a backbone expects and returns, by its name."""
    if name.startswith(HUGGING_FACE):
        return huggingface.describe(name.removeprefix(HUGGING_FACE))
    return BACKBONES[name][0]


def load_backbone(name: str) -> nn.Module:
    """Return a pretrained network from normalised images of the right size to features, in eval mode."""
    if name.startswith(HUGGING_FACE):
        return huggingface.load(name.removeprefix(HUGGING_FACE)).eval()
    return BACKBONES[name][1]().eval()
