"""Co-teaching (Han et al., 2018) on the memory: two networks choose each other's rows."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from remnant.augment import cutmix
from remnant.component import expect, tuned
from remnant.consolidate.choice import Bench, Consolidation, Part
from remnant.protocol import Division


@dataclass(frozen=True, kw_only=True)
class CoTeaching(Consolidation):
    """Two networks; each learns from the rows of a batch on which the other has the smallest loss."""

    forget_rate: float = tuned(-1.0)  # share of rows left out; -1: the known share of wrong labels
    ramp: int = 10  # epochs until it is reached
    cutmix: float = 0.0  # probability that a batch is pasted

    networks: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "forget_rate in [0, 1), or -1": 0 <= self.forget_rate < 1 or self.forget_rate == -1,
            "ramp >= 1": self.ramp >= 1,
            "cutmix in [0, 1]": 0 <= self.cutmix <= 1,
        }
        expect(rules, self)

    def kept(self, rows: int, epoch: int, noise_rate: float) -> int:
        """Return how many rows of a batch are learned from.

        >>> [CoTeaching(forget_rate=0.4).kept(32, epoch, 0.0) for epoch in (0, 1, 10, 11)]
        [32, 31, 20, 20]
        """
        rate = noise_rate if self.forget_rate < 0 else self.forget_rate
        remembered = 1 - min(rate * epoch / self.ramp, rate)
        return max(1, math.ceil(round(remembered * rows, 9)))  # not one more for a rounding error

    def loss(self, bench: Bench, part: Part, division: Division | None, epoch: int) -> Tensor:
        """Return the sum of both networks' losses, each on the rows that the other chose."""
        pasted = cutmix(bench.augmented(part.rows), self.cutmix, bench.rng)
        y = bench.memory.y[part.rows]

        def losses(k: int) -> Tensor:
            logits = bench.nets[k](pasted.x)
            ours = F.cross_entropy(logits, y, reduction="none")
            return pasted.blend(ours, F.cross_entropy(logits, y[pasted.other], reduction="none"))

        return crossed(losses(0), losses(1), self.kept(len(y), epoch, bench.noise_rate))


def crossed(first: Tensor, second: Tensor, count: int) -> Tensor:
    """Return the mean of each network's losses on the `count` rows where the other's are smallest.

    >>> import torch
    >>> crossed(torch.tensor([0.0, 9.0]), torch.tensor([9.0, 0.0]), 1)
    tensor(18.)
    """
    for_first = second.detach().argsort(stable=True)[:count]
    for_second = first.detach().argsort(stable=True)[:count]
    return first[for_first].mean() + second[for_second].mean()
