"""Cross-entropy on the memory: "w. buffer fit." of the paper, and how GDumb learns."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from remnant.augment import cutmix
from remnant.component import expect
from remnant.consolidate.choice import Bench, Consolidation, Part
from remnant.protocol import Division


@dataclass(frozen=True, kw_only=True)
class BufferFit(Consolidation):
    """Cross-entropy on all stored rows, their labels taken as they are."""

    cutmix: float = 0.0  # probability that a batch is pasted

    def __post_init__(self) -> None:
        super().__post_init__()
        expect({"cutmix in [0, 1]": 0 <= self.cutmix <= 1}, self)

    def loss(self, bench: Bench, part: Part, division: Division | None, epoch: int) -> Tensor:
        """Return the cross-entropy of a batch, pasted patches having the labels they came with."""
        pasted = cutmix(bench.augmented(part.rows), self.cutmix, bench.rng)
        y = bench.memory.y[part.rows]
        logits = bench.nets[0](pasted.x)
        return pasted.blend(F.cross_entropy(logits, y), F.cross_entropy(logits, y[pasted.other]))
