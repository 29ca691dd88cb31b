"""A classification head on the features of a pretrained backbone, frozen or trained."""

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from remnant.data.dataset import Spec
from remnant.data.pretrained import Pretrained
from remnant.engine.inference import device_of
from remnant.errors import RemnantError
from remnant.nets.pretrained.backbone import (
    BACKBONES,
    Backbone,
    describe,
    is_backbone,
    load_backbone,
)
from remnant.settings import expect, setting
from remnant.transforms.image import ImageTransform
from remnant.transforms.vector import VectorTransform, standardised

MAX_SIZE = 4096


@dataclass(frozen=True)
class Features:
    """A head on features of a pretrained network, which are computed once and stored."""

    inputs: ClassVar[str] = "images"
    backbone: str = setting(
        "efficientnet-lite0", "efficientnet-lite0, or hf:NAME for a model of transformers"
    )
    head: str = setting("linear", "linear, or mlp:N with N hidden units")
    image_size: int = setting(
        0, "pixels per side after resizing; 0: 128, or that of the model of transformers"
    )
    noise: float = setting(0.1, "augmentation of features: Gaussian noise, relative to their deviation")
    train_backbone: bool = setting(False, "train the backbone as well, on images instead of features")

    def __post_init__(self) -> None:
        expect(
            {
                f"backbone {', '.join(BACKBONES)} or hf:NAME": is_backbone(self.backbone),
                "head linear or mlp:N with N from 1 to 65536": self._hidden() is not None,
                f"image_size 0, or from 8 to {MAX_SIZE}": self.image_size == 0
                or 8 <= self.image_size <= MAX_SIZE,
                "noise >= 0": self.noise >= 0,
            },
            self,
        )

    def _hidden(self) -> int | None:
        """Return the number of hidden units, 0 for a linear head, or None if `head` has another form."""
        kind, _, units = self.head.partition(":")
        if kind == "mlp" and units.isdecimal() and 1 <= int(units) <= 65536:
            return int(units)
        return 0 if self.head == "linear" else None

    @property
    def pretrained(self) -> Pretrained:
        """Return what the backbone expects and returns, with the chosen image size."""
        about = describe(self.backbone)
        return replace(about, size=self.image_size or about.size)

    def adapted(self, spec: Spec) -> Spec:
        """Return the spec of the samples that methods receive: features, or images normalised differently."""
        if not isinstance(spec.transform, ImageTransform):
            return spec  # the network does not fit the dataset, which is reported elsewhere
        if spec.shape[0] not in (1, 3):
            raise RemnantError(
                f"features: expected images with 1 or 3 channels, got {spec.shape[0]} in {spec.name}. Use "
                "another network."
            )
        if not self.train_backbone:
            transform = VectorTransform(self.noise)
            return replace(spec, shape=(self.pretrained.features,), transform=transform, dtype=torch.float32)
        return self.normalised(spec)

    def normalised(self, spec: Spec) -> Spec:
        """Return the spec of images that are normalised as the backbone expects them."""
        channels = slice(spec.shape[0])  # one mean is enough for grey images
        mean, std = self.pretrained.mean[channels], self.pretrained.std[channels]
        return replace(spec, transform=replace(spec.transform, mean=mean, std=std))  # type: ignore[type-var]

    def completed(self, net: nn.Module) -> nn.Module:
        """Return a trained network that takes normalised images, with the backbone if that is frozen."""
        return net if self.train_backbone else OnBackbone(self.load().to(device_of(net)), net)

    def load(self) -> Backbone:
        """Load the pretrained backbone."""
        return Backbone(load_backbone(self.backbone), self.pretrained)

    def __call__(self, spec: Spec) -> nn.Module:
        """Build the head for an adapted spec, with the backbone below it if that is trained."""
        body: list[nn.Module] = [self.load(), Standardise()] if self.train_backbone else []
        inputs = self.pretrained.features
        if hidden := self._hidden():
            body += [nn.Linear(inputs, hidden), nn.ReLU()]
            inputs = hidden
        return HeadNet(nn.Sequential(*body), nn.Linear(inputs, len(spec.classes)))


class Standardise(nn.Module):
    """Standardisation of feature vectors, as VectorTransform does it for frozen features."""

    def forward(self, x: Tensor) -> Tensor:
        """Return vectors with mean 0 and standard deviation 1."""
        return standardised(x)


class OnBackbone(nn.Module):
    """A frozen backbone, and a network that was trained on its features."""

    def __init__(self, backbone: Backbone, net: nn.Module) -> None:
        super().__init__()
        self.backbone, self.net = backbone, net

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of normalised images."""
        return cast(Tensor, self.net(standardised(self.backbone(x))))


class HeadNet(nn.Module):
    """A linear head on a body, which may be empty."""

    def __init__(self, body: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.body, self.head = body, head

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head."""
        return cast(Tensor, self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return cast(Tensor, self.head(self.features(x)))
