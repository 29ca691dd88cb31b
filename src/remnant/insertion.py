"""Which rows of a batch may enter the memory (Sec. 3.2, sample insertion; Alg. 1 line 9).

How many may enter is known before any loss is: that is what lets the coins fall first.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Insertion(Protocol):
    """Chooses candidates among the rows of a batch."""

    @property
    def needs_loss(self) -> bool:
        """Whether the choice depends on the losses."""
        ...

    def count(self, batch: int) -> int:
        """Return how many rows of a batch of this size may enter."""
        ...

    def choose(self, loss: Tensor) -> Tensor:
        """Return the positions of the rows that may enter, in the order of the batch."""
        ...


@dataclass(frozen=True)
class Everything:
    """Every row is a candidate."""

    needs_loss = False

    def count(self, batch: int) -> int:
        """Return the size of the batch."""
        return batch

    def choose(self, loss: Tensor) -> Tensor:
        """Return all positions."""
        return torch.arange(len(loss))


@dataclass(frozen=True)
class LowestLoss:
    """The rows with the lowest loss are candidates: those are learned first, and mostly clean.

    The text of the paper discards a share alpha of the batch; its formula would keep that share.
    """

    alpha: float = 0.75  # share of the batch that may not enter

    needs_loss = True

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            hint = f"; for {self.alpha:g} % write {self.alpha / 100:g}" if self.alpha > 1 else ""
            raise ValueError(f"alpha is a share in [0, 1), got {self.alpha:g}{hint}")

    def count(self, batch: int) -> int:
        """Return round((1 - alpha) * batch).

        >>> [LowestLoss(0.75).count(b) for b in (32, 8, 1)]
        [8, 2, 0]
        """
        return round((1 - self.alpha) * batch)

    def choose(self, loss: Tensor) -> Tensor:
        """Return the positions of the smallest losses, in the order of the batch.

        >>> LowestLoss(0.5).choose(torch.tensor([3.0, 1.0, 2.0, 4.0]))
        tensor([1, 2])
        """
        lowest = loss.argsort(stable=True)[: self.count(len(loss))]
        return lowest.sort().values


INSERTIONS: dict[str, Insertion] = {"everything": Everything(), "lowest-loss": LowestLoss()}
