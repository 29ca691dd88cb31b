"""Sample insertion: which samples of a batch are candidates for the buffer (Sec. 3.2; Alg. 1 line 9).

The number of candidates does not depend on the losses, so that acceptance is drawn before any loss is
computed.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from remnant.settings import setting


class Insertion(Protocol):
    """Chooses candidates among the samples of a batch."""

    @property
    def needs_loss(self) -> bool:
        """Whether the choice depends on the losses."""
        ...

    def count(self, batch: int) -> int:
        """Return the number of candidates in a batch of this size."""
        ...

    def choose(self, loss: Tensor) -> Tensor:
        """Return the positions of the candidates, in the order of the batch."""
        ...


@dataclass(frozen=True)
class Everything:
    """Every sample is a candidate."""

    needs_loss = False

    def count(self, batch: int) -> int:
        """Return the size of the batch."""
        return batch

    def choose(self, loss: Tensor) -> Tensor:
        """Return all positions."""
        return torch.arange(len(loss))


@dataclass(frozen=True)
class LowestLoss:
    """The samples with the lowest loss are candidates: clean labels are learned before noisy ones.

    A fraction alpha of the batch is discarded, as in the text of the paper; its formula would keep it.
    """

    alpha: float = setting(0.75, "fraction of each batch, with the highest losses, that is never inserted")

    needs_loss = True

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            hint = f"; for {self.alpha:g} % write {self.alpha / 100:g}" if self.alpha > 1 else ""
            raise ValueError(f"expected alpha as a fraction in [0, 1), got {self.alpha:g}{hint}")

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
