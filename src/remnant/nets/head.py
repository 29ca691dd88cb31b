"""A classification head with normalised logits."""

from typing import cast

from torch import Tensor, nn

from remnant.errors import RemnantError


def linear_head(net: nn.Module, purpose: str, *, needs_features: bool = False) -> nn.Linear:
    """Return the linear layer `head` of a network, or raise RemnantError; `purpose` says what needs it."""
    head = getattr(net, "head", None)
    if not isinstance(head, nn.Linear) or (needs_features and not hasattr(net, "features")):
        expected = "a method features(x) and a torch.nn.Linear `head`" if needs_features else (
            "a torch.nn.Linear `head`"
        )  # fmt: skip
        raise RemnantError(
            f"expected a network with {expected}, got {type(net).__name__} with the head "
            f"{'none' if head is None else type(head).__name__}. {purpose}: add them to the network, or "
            "choose another method."
        )
    return head


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
