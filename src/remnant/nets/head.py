"""A classification head with normalised logits."""

from typing import cast

from torch import Tensor, nn


class NormedHead(nn.Module):
    """A linear layer without bias, followed by BatchNorm of the logits."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, classes, bias=False)
        self.norm = nn.BatchNorm1d(classes, eps=1e-6)

    @property
    def weight(self) -> Tensor:
        """Return the weights of the linear layer, (C, D)."""
        return self.linear.weight

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return cast(Tensor, self.norm(self.linear(x)))
