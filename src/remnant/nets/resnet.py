"""ResNet with basic blocks, and stems for images of 32 x 32 and photos of 224 x 224 pixels."""

from collections.abc import Sequence
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn


def small_stem(channels: int, width: int) -> nn.Sequential:
    """Return a stem that keeps the image size: a 3 x 3 convolution."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    )


def photo_stem(channels: int, width: int) -> nn.Sequential:
    """Return a stem that divides height and width by 4: a 7 x 7 convolution, then max-pooling."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    )


class ResNet(nn.Module):
    """A stem, then stages of basic blocks; the first has `width` channels, each later stage doubles them."""

    def __init__(self, stem: nn.Sequential, classes: int, blocks: Sequence[int], width: int) -> None:
        super().__init__()
        self.stem = stem
        stages, inputs = [], width
        for stage, count in enumerate(blocks):
            outputs = width * 2**stage
            for i in range(count):
                stages.append(ResidualBlock(inputs, outputs, stride=2 if stage and i == 0 else 1))
                inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, D); D is 8 * width for four stages."""
        return cast(Tensor, self.stages(self.stem(x))).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return cast(Tensor, self.head(self.features(x)))


class ResidualBlock(nn.Module):
    """A basic block: two 3 x 3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride = stride
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(F(x) + shortcut(x))."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        # Bitwise equal to a strided 1 x 1 convolution, whose backward pass in torch 2.13 writes out of
        # bounds with channels_last, few channels, several threads and an odd batch size.
        x = x[:, :, :: self.stride, :: self.stride]
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x), inplace=True)
