"""Networks by name; each gives logits, and the features its head sees."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from remnant.data.source import Spec
from remnant.errors import RemnantError
from remnant.nets.efficientgcn import EfficientGcn
from remnant.nets.resnet import ResNet, photo_stem, small_stem
from remnant.nets.small import SmallNet
from remnant.skeleton import SkeletonView


def check_width(width: int) -> None:
    """Refuse a network without channels, or with more than any machine holds."""
    if not 1 <= width <= 4096:
        raise ValueError(f"width is a number of channels from 1 to 4096, got {width}")


NewNet = Callable[[str], nn.Module]  # a name -> a network whose first weights depend on it alone


class Net(Protocol):
    """A description from which a network is built."""

    def build(self, spec: Spec) -> nn.Module:
        """Build the network for a data set."""
        ...


@dataclass(frozen=True)
class Small:
    """Three convolutions, for digits."""

    width: int = 32  # channels of the first layer

    def __post_init__(self) -> None:
        check_width(self.width)

    def build(self, spec: Spec) -> nn.Module:
        """Build the network for a data set."""
        return SmallNet(spec.shape[0], len(spec.classes), self.width)


@dataclass(frozen=True)
class CifarResNet:
    """ResNet with a 3 x 3 stem."""

    blocks: tuple[int, ...]
    width: int = 64  # channels of the first stage; 64 is the paper's

    def __post_init__(self) -> None:
        check_width(self.width)

    def build(self, spec: Spec) -> nn.Module:
        """Build the network for a data set."""
        return ResNet(small_stem(spec.shape[0], self.width), len(spec.classes), self.blocks, self.width)


@dataclass(frozen=True)
class PhotoResNet:
    """ResNet with a 7 x 7 stem and max-pooling, for 224 x 224 pixels."""

    blocks: tuple[int, ...]
    width: int = 64  # channels of the first stage; 64 is the paper's

    def __post_init__(self) -> None:
        check_width(self.width)

    def build(self, spec: Spec) -> nn.Module:
        """Build the network for a data set."""
        return ResNet(photo_stem(spec.shape[0], self.width), len(spec.classes), self.blocks, self.width)


@dataclass(frozen=True)
class EfficientGcnB0:
    """Graph network for skeletons."""

    def build(self, spec: Spec) -> nn.Module:
        """Build the network for a data set."""
        if not isinstance(spec.view, SkeletonView):
            raise TypeError(f"EfficientGCN expects skeletons, and {spec.name} has none")
        return EfficientGcn(spec.view.graph, len(spec.classes))


NETS: dict[str, Net] = {
    "small": Small(),
    "resnet18": CifarResNet((2, 2, 2, 2)),
    "resnet34": CifarResNet((3, 4, 6, 3)),
    "resnet34-224": PhotoResNet((3, 4, 6, 3)),
    "efficientgcn-b0": EfficientGcnB0(),
}


def check_fits(net: Net, spec: Spec) -> None:
    """Refuse a network whose inputs are of another kind."""
    of_images = [name for name, known in NETS.items() if not isinstance(known, EfficientGcnB0)]
    if isinstance(net, EfficientGcnB0) and spec.are_images:
        raise RemnantError(
            f"efficientgcn-b0 sees skeletons, and {spec.name} are images. "
            f"Use {', '.join(of_images[:-1])} or {of_images[-1]}."
        )
    if not isinstance(net, EfficientGcnB0) and not spec.are_images:
        raise RemnantError(f"it sees images, and {spec.name} are skeletons. Use efficientgcn-b0.")


class NormedHead(nn.Module):
    """A linear head without bias, then BatchNorm over the logits."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, classes, bias=False)
        self.norm = nn.BatchNorm1d(classes, eps=1e-6)

    @property
    def weight(self) -> Tensor:
        """Return the weights of the classes, (C, D)."""
        return self.linear.weight

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return cast(Tensor, self.norm(self.linear(x)))


def build(net: Net, spec: Spec, seed: int, normed_head: bool = False) -> nn.Module:
    """Build a network whose initial weights depend on `seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = net.build(spec)
        if normed_head:
            built.head = NormedHead(cast(nn.Linear, built.head).in_features, len(spec.classes))
        return built
