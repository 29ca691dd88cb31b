"""A given torch module as the network of a learner."""

import copy
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from remnant.data.dataset import Spec
from remnant.errors import RemnantError


class WithHead(nn.Module):
    """A module that maps a batch to features, with a linear layer from the features to logits."""

    def __init__(self, body: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(features, classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (B, features)."""
        return cast(Tensor, self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return cast(Tensor, self.head(self.features(x)))


@dataclass(frozen=True, eq=False)
class GivenModule:
    """A factory that copies a module: with `head` features it gets a linear layer, else it returns logits."""

    module: nn.Module
    head: int | None = None

    def __call__(self, spec: Spec) -> nn.Module:
        """Return a copy for a dataset."""
        body, classes = copy.deepcopy(self.module), len(spec.classes)
        return body if self.head is None else WithHead(body, self.head, classes)

    def check_grows(self) -> None:
        """Raise RemnantError if the number of logits is fixed."""
        if self.head is None:
            raise RemnantError(
                f"expected samples of known classes, because {type(self.module).__name__} returns logits and "
                "cannot get new ones. Give the classes beforehand (classes=[...]), or a module that returns "
                "features, with their number (head=...)."
            )
