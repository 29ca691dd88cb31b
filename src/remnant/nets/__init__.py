"""Networks by name; each gives logits, and the features its head sees."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from remnant.data.source import Spec
from remnant.nets.resnet import ResNet
from remnant.nets.small import SmallNet


def check_width(width: int) -> None:
    """Refuse a network without channels, or with more than any machine holds."""
    if not 1 <= width <= 4096:
        raise ValueError(f"width is a number of channels from 1 to 4096, got {width}")


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


def build(net: Net, spec: Spec, seed: int) -> nn.Module:
    """Build a network whose initial weights depend on `seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return net.build(spec)
