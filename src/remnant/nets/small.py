"""A small convolutional network for small images."""

from typing import cast

from torch import Tensor, nn


class SmallNet(nn.Module):
    """Three 3 x 3 convolutions with BatchNorm, the second with stride 2, then pooling to 2 x 2."""

    def __init__(self, channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_block(channels, width, stride=1),
            *_block(width, 2 * width, stride=2),
            *_block(2 * width, 2 * width, stride=1),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Linear(8 * width, classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, 8 * width)."""
        return cast(Tensor, self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return cast(Tensor, self.head(self.features(x)))


def _block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
