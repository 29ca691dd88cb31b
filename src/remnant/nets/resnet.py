"""ResNet, with a stem for images of 32 x 32 pixels or for photos of 224 x 224."""

from collections.abc import Sequence
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn


def small_stem(channels: int, width: int) -> nn.Sequential:
    """Return a stem that keeps the size: a 3 x 3 convolution."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    )


def photo_stem(channels: int, width: int) -> nn.Sequential:
    """Return a stem that leaves a quarter of the height and the width: 7 x 7, then max-pooling."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    )


class ResNet(nn.Module):
    """A stem, then basic blocks in four stages of width, 2 width, 4 width, 8 width."""

    def __init__(self, stem: nn.Sequential, classes: int, blocks: Sequence[int], width: int) -> None:
        super().__init__()
        self.stem = stem
        stages, inputs = [], width
        for stage, count in enumerate(blocks):
            outputs = width * 2**stage
            for i in range(count):
                stages.append(Block(inputs, outputs, stride=2 if stage and i == 0 else 1))
                inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, classes)

    def features(self, x: Tensor) -> Tensor:
        """Return what the head sees, (B, 8 * width)."""
        return cast(Tensor, self.stages(self.stem(x))).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return cast(Tensor, self.head(self.features(x)))


class Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride = stride
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(F(x) + shortcut(x))."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        # The same bits as a strided 1 x 1 convolution, whose backward pass in torch 2.13 writes beyond
        # its memory when channels are few and last, threads several and the batch odd.
        x = x[:, :, :: self.stride, :: self.stride]
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x), inplace=True)
