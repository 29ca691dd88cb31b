"""Networks by name; each gives logits, and the features its head sees."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from remnant.data.source import Spec
from remnant.nets.resnet import ResNet
from remnant.nets.small import SmallNet


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
        return ResNet(spec.shape[0], len(spec.classes), self.blocks, self.width)


NETS: dict[str, Net] = {
    "small": Small(),
    "resnet18": CifarResNet((2, 2, 2, 2)),
    "resnet34": CifarResNet((3, 4, 6, 3)),
}


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
