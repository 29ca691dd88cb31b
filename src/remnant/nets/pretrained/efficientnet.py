"""EfficientNet-Lite0: a small convolutional network without squeeze-and-excitation, trained on ImageNet.

From Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", in the variant
for devices without fast sigmoids: ReLU6 instead of swish. B images of S x S pixels, D = 1,280 features.
"""

import math
from typing import NamedTuple, cast

import torch.nn.functional as F
from torch import Tensor, nn

FEATURES = 1280
CLASSES = 1000  # of ImageNet
STEM = 32
EPSILON, MOMENTUM = 1e-3, 0.01  # of BatchNorm


class BlockGroup(NamedTuple):
    """A sequence of blocks, of which the first one has the stride and the others have stride 1."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    outputs: int


GROUPS = (
    BlockGroup(1, 3, 1, 1, 16),
    BlockGroup(2, 3, 2, 6, 24),
    BlockGroup(2, 5, 2, 6, 40),
    BlockGroup(3, 3, 2, 6, 80),
    BlockGroup(3, 5, 1, 6, 112),
    BlockGroup(4, 5, 2, 6, 192),
    BlockGroup(1, 3, 1, 6, 320),
)


class EfficientNetLite0(nn.Module):
    """The network of the published weights; `features` are the inputs of its ImageNet classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, STEM, 3, stride=2)
        blocks, inputs = [], STEM
        for group in GROUPS:
            for number in range(group.blocks):
                stride = group.stride if number == 0 else 1
                blocks.append(InvertedResidual(inputs, group.outputs, group.kernel, stride, group.expansion))
                inputs = group.outputs
        self.blocks = nn.Sequential(*blocks)
        self.last = ConvNorm(inputs, FEATURES, 1)
        self.head = nn.Linear(FEATURES, CLASSES)

    def features(self, x: Tensor) -> Tensor:
        """Return features (B, D) of normalised images (B, 3, S, S): the mean over all positions."""
        maps = self.blocks(F.relu6(self.stem(x)))
        return F.relu6(self.last(maps)).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of the ImageNet classes."""
        return cast(Tensor, self.head(self.features(x)))


class ConvNorm(nn.Module):
    """A convolution without bias, with BatchNorm; it pads like TensorFlow, more at the end."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        padding = kernel // 2 if stride == 1 else 0  # with stride 1, both sides are equal
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=EPSILON, momentum=MOMENTUM)
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        """Return ceil(S / stride) positions along each side."""
        if self.stride > 1:
            bottom, right = (same_padding(size, self.kernel, self.stride) for size in x.shape[2:])
            x = F.pad(x, (*right, *bottom))
        return cast(Tensor, self.norm(self.conv(x)))


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the zeros before and after `size` values, for ceil(size / stride) outputs.

    >>> same_padding(128, 3, 2), same_padding(7, 3, 2), same_padding(128, 5, 2)
    ((0, 1), (1, 1), (1, 2))
    """
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, projection."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = ConvNorm(inputs, inner, 1) if expansion > 1 else None
        self.depthwise = ConvNorm(inner, inner, kernel, stride, groups=inner)
        self.project = ConvNorm(inner, outputs, 1)
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the projected maps, added to the input if they have its shape."""
        inner = x if self.expand is None else F.relu6(self.expand(x))
        projected = self.project(F.relu6(self.depthwise(inner)))
        return cast(Tensor, projected + x if self.has_shortcut else projected)


# Names of the layers in the published file -> names here. A norm belongs to the convolution before it.
PUBLISHED = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "last.conv",
    "_bn1": "last.norm",
    "_fc": "head",
}
PUBLISHED_IN_BLOCK = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}


def renamed(published: str) -> str:
    """Return the name of a weight here for its name in the published file.

    >>> renamed("_blocks.3._bn1.weight"), renamed("_fc.bias")
    ('blocks.3.depthwise.norm.weight', 'head.bias')
    """
    *before, layer, kind = published.split(".")
    if before:
        return f"blocks.{before[1]}.{PUBLISHED_IN_BLOCK[layer]}.{kind}"
    return f"{PUBLISHED[layer]}.{kind}"
