"""Cross-entropy on the buffer: "w. buffer fit." in the paper, and the training of GDumb."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from remnant.methods.consolidation.base import Consolidation, ConsolidationContext, StepBatch
from remnant.methods.consolidation.division import Division
from remnant.settings import expect, setting
from remnant.transforms.mixing import cutmix


@dataclass(frozen=True, kw_only=True)
class BufferFit(Consolidation):
    """Cross-entropy on all samples in the buffer with their observed labels."""

    cutmix: float = setting(0.0, "probability of applying CutMix to a batch")

    def __post_init__(self) -> None:
        super().__post_init__()
        expect({"cutmix in [0, 1]": 0 <= self.cutmix <= 1}, self)

    def loss(
        self, context: ConsolidationContext, step: StepBatch, division: Division | None, epoch: int
    ) -> Tensor:
        """Return the cross-entropy of a batch; with CutMix, labels are weighted by area."""
        mixed = cutmix(context.augmented(step.samples), self.cutmix, context.rng)
        y = context.buffer.y[step.samples]
        logits = context.nets[0](mixed.x)
        return mixed.blend(F.cross_entropy(logits, y), F.cross_entropy(logits, y[mixed.other]))
