"""Networks that are chosen by name, and `build`, which creates one with reproducible initial weights."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import nn

from remnant.data.dataset import Spec
from remnant.errors import RemnantError
from remnant.nets.efficientgcn import EfficientGcn
from remnant.nets.head import NormedHead, linear_head
from remnant.nets.pretrained.features import Features
from remnant.nets.resnet import ResNet, photo_stem, small_stem
from remnant.nets.small import SmallNet
from remnant.settings import expect, setting
from remnant.transforms.skeleton import SkeletonTransform


class Net(Protocol):
    """A network factory: any callable that builds a network for a dataset, for example a plain function.

    The network returns logits. Some methods also require `features(x)` and a linear layer `head`. A factory
    may have an attribute `inputs`, "images" or "skeletons", which is checked against the dataset,
    and a method `adapted`, which returns the spec of the samples that it is trained on.
    """

    def __call__(self, spec: Spec, /) -> nn.Module:
        """Build the network for a dataset."""
        ...


@dataclass(frozen=True)
class Small:
    """Three convolutions, for small images such as digits."""

    inputs: ClassVar[str] = "images"
    width: int = setting(32, "channels of the first layer")

    def __post_init__(self) -> None:
        expect({"width from 1 to 4096": 1 <= self.width <= 4096}, self)

    def __call__(self, spec: Spec) -> nn.Module:
        """Build the network for a dataset."""
        return SmallNet(spec.shape[0], len(spec.classes), self.width)


@dataclass(frozen=True)
class CifarResNet:
    """ResNet with a 3 x 3 stem, for images of 32 x 32 pixels."""

    inputs: ClassVar[str] = "images"
    blocks: tuple[int, ...]  # number of blocks in each stage
    width: int = setting(64, "channels of the first stage; 64 in the paper")

    def __post_init__(self) -> None:
        expect({"width from 1 to 4096": 1 <= self.width <= 4096}, self)

    def __call__(self, spec: Spec) -> nn.Module:
        """Build the network for a dataset."""
        return ResNet(small_stem(spec.shape[0], self.width), len(spec.classes), self.blocks, self.width)


@dataclass(frozen=True)
class PhotoResNet(CifarResNet):
    """ResNet with a 7 x 7 stem and max-pooling, for photos of 224 x 224 pixels."""

    def __call__(self, spec: Spec) -> nn.Module:
        """Build the network for a dataset."""
        return ResNet(photo_stem(spec.shape[0], self.width), len(spec.classes), self.blocks, self.width)


@dataclass(frozen=True)
class EfficientGcnB0:
    """EfficientGCN-B0, a graph network for skeletons."""

    inputs: ClassVar[str] = "skeletons"

    def __call__(self, spec: Spec) -> nn.Module:
        """Build the network for a dataset."""
        if not isinstance(spec.transform, SkeletonTransform):
            raise TypeError(f"EfficientGCN expects skeletons, got the dataset {spec.name}, which has none")
        return EfficientGcn(spec.transform.graph, len(spec.classes))


NETS: dict[str, Net] = {
    "small": Small(),
    "resnet18": CifarResNet((2, 2, 2, 2)),
    "resnet34": CifarResNet((3, 4, 6, 3)),
    "resnet34-224": PhotoResNet((3, 4, 6, 3)),
    "efficientgcn-b0": EfficientGcnB0(),
    "features": Features(),
}


def adapted(net: Net, spec: Spec) -> Spec:
    """Return the spec of the samples that methods receive, which a factory can change: its `adapted`."""
    found: Spec = net.adapted(spec) if hasattr(net, "adapted") else spec
    return found


def completed(net: Net, network: nn.Module, spec: Spec) -> tuple[nn.Module, Spec]:
    """Return a trained network with its frozen backbone, if it has one, and the spec of its raw inputs."""
    if isinstance(net, Features):
        return net.completed(network), net.normalised(spec)
    return network, adapted(net, spec)


def pretrained_weights(net: Net) -> list[str]:
    """Return the sha256 of the weights that a network starts from, or nothing if they are random."""
    return [net.pretrained.weights] if isinstance(net, Features) else []


def check_fits(net: Net, spec: Spec) -> None:
    """Raise RemnantError if the inputs that a network declares are not those of the dataset."""
    expected, given = getattr(net, "inputs", None), _inputs(spec)
    if expected in (None, given):
        return
    names = [name for name, known in NETS.items() if getattr(known, "inputs", None) == given]
    *others, last = names or ["a network of your own: net=FILE.py:NAME, or net=FUNCTION in Python"]
    choices = f"{', '.join(others)} or {last}" if others else last
    raise RemnantError(
        f"the network expects {expected}, but the dataset {spec.name} has {given}. Use {choices}."
    )


def _inputs(spec: Spec) -> str:
    """Return what the inputs of a dataset are, as far as networks are concerned."""
    if isinstance(spec.transform, SkeletonTransform):
        return "skeletons"
    return "images" if len(spec.shape) == 3 else f"inputs of shape {spec.shape}"


def build(net: Net, spec: Spec, seed: int, normed_head: bool = False) -> nn.Module:
    """Build a network whose initial weights depend on `seed` only; `normed_head` adds a NormedHead."""
    name = getattr(net, "__name__", type(net).__name__)
    if isinstance(net, nn.Module):
        raise RemnantError(
            f"expected a function from a Spec to a torch.nn.Module as the net, got the module {name}. Some "
            "methods need several networks: write a function that builds one."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: object = net(spec)
        if not isinstance(network, nn.Module):
            raise RemnantError(
                f"expected a torch.nn.Module from the net factory {name}, got {type(network).__name__}. "
                "Return the network from the factory."
            )
        if normed_head:
            head = linear_head(network, "This method normalises logits")
            network.head = NormedHead(head.in_features, len(spec.classes))
        return network
