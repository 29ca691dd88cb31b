"""PuriDivER on the buffer: labels are kept, refined or dropped, by loss and by uncertainty."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.methods.consolidation.base import Consolidation, ConsolidationContext, StepBatch
from remnant.methods.consolidation.division import Division, paired_batches
from remnant.methods.consolidation.soft_labels import refine, soft_cross_entropy
from remnant.settings import expect, setting
from remnant.suspects.mixture import MIN_SAMPLES, small_posterior
from remnant.transforms.mixing import cutmix

GROUP_TOO_SMALL = "too few untrusted samples to relabel, or to use without labels"


@dataclass(frozen=True, kw_only=True)
class PuriDivER(Consolidation):
    """Trusted labels are kept; others are refined if the network is confident, and dropped if not."""

    batch: int = setting(16, "samples from the buffer per step, of each group")
    momentum: float = setting(0.9, "momentum of SGD")
    nesterov: bool = setting(True, "use Nesterov momentum")
    weight_decay: float = setting(1e-4, "weight decay of SGD")
    warmup: int = setting(10, "epochs of cross-entropy before the first division", tuned=True)
    cutmix: float = setting(0.5, "probability of applying CutMix to the trusted samples of a batch")

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "warmup >= 0": self.warmup >= 0,
            f"epochs > warmup ({self.warmup})": self.epochs > self.warmup,
            "cutmix in [0, 1]": 0 <= self.cutmix <= 1,
        }
        expect(rules, self)

    def divide(self, context: ConsolidationContext, epoch: int) -> Division | None:
        """Trust labels with a small loss; relabel the others where the network is confident."""
        if epoch < self.warmup:
            return None
        samples, logits = context.buffer.samples(), context.logits(context.nets[0])
        clean = small_posterior(F.cross_entropy(logits, samples.y.cpu(), reduction="none"))
        division = Division.from_posteriors([clean])
        if division.fallback[0]:
            return division
        untrusted = torch.nonzero(division.clean[0] <= 0.5).flatten()
        confident = small_posterior(1 - logits[untrusted].softmax(1).max(1).values)
        if isinstance(confident, str):
            return Division(division.clean, (f"untrusted samples: {confident}",))
        relabelled, unlabelled = untrusted[confident > 0.5], untrusted[confident <= 0.5]
        if min(len(relabelled), len(unlabelled)) < MIN_SAMPLES:
            return Division(division.clean, (GROUP_TOO_SMALL,))
        relabel = torch.zeros(len(samples), dtype=torch.bool)
        relabel[relabelled] = True
        return Division(division.clean, division.fallback, relabel, logits.argmax(1))

    def batches(self, order: Tensor, division: Division | None) -> list[StepBatch]:
        """Return batches of trusted, relabelled and unlabelled samples, at most `batch` of each."""
        if division is None or division.relabel is None:
            return super().batches(order, division)
        batches = paired_batches(split_groups(order, division), self.batch)
        return [StepBatch((0,), samples) for samples in batches]

    def loss(
        self, context: ConsolidationContext, step: StepBatch, division: Division | None, epoch: int
    ) -> Tensor:
        """Return the mean loss over the samples of all three groups, from one forward pass."""
        trusted, relabelled, unlabelled = split_groups(step.samples, division)
        mixed = cutmix(context.strong(trusted), self.cutmix, context.rng)
        views = (context.augmented, context.strong)
        pairs = [view(group) for group in (relabelled, unlabelled) for view in views]
        logits = context.nets[0](torch.cat([mixed.x, *pairs]))
        own, weak, strong, one, other = logits.split([len(trusted), *map(len, pairs)])
        y = context.buffer.y[trusted]
        supervised = mixed.blend(F.cross_entropy(own, y), F.cross_entropy(own, y[mixed.other]))
        clean = torch.zeros(0) if division is None else division.clean[0][relabelled]
        label = refine(clean, context.onehot(relabelled), weak.softmax(1).detach())
        terms = [
            supervised * len(trusted),
            soft_cross_entropy(strong, label) * len(relabelled),
            F.mse_loss(one, other, reduction="sum") / max(1, one.shape[1]),
        ]
        return torch.stack(terms).sum() / len(step.samples)


def split_groups(samples: Tensor, division: Division | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the samples with trusted labels, those with new labels, and those without labels."""
    if division is None or division.relabel is None:
        return samples, samples[:0], samples[:0]
    is_clean, is_relabelled = division.clean[0][samples] > 0.5, division.relabel[samples]
    return samples[is_clean], samples[is_relabelled], samples[~is_clean & ~is_relabelled]
