"""What a policy of the memory is given, and what it answers: a slot for each candidate, or -1.

M slots, k candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from remnant.memory import Memory
from remnant.predict import Embedding


def unseen() -> Embedding:
    """Look at nothing: for callers whose policy never asks."""
    raise LookupError("this memory is kept without looking at features")


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows of the batch that may enter."""

    rows: Tensor  # (k,) positions in the batch
    y: Tensor  # (k,) observed labels
    id: Tensor  # (k,)
    loss: Tensor  # (k,) unmasked, or nan where nobody asked for it
    embed: Callable[[], Embedding] = unseen  # all stored rows, then the candidates


Offer = Callable[[], Candidates]
Losses = Callable[[Tensor], Tensor]  # slots -> their losses


class Replacement(Protocol):
    """Decides on the candidates of a batch."""

    @property
    def needs_loss(self) -> bool:
        """Whether the losses of candidates matter."""
        ...

    def __call__(
        self, memory: Memory, offer: Offer, losses: Losses, task: int, uniforms: Tensor
    ) -> Tensor:
        """Return a slot for each candidate, -1 for those that stay out; (k,)."""
        ...
