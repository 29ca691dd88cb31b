"""DivideMix (Li et al., 2020) on the buffer: two networks divide the samples for each other."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from remnant.methods.consolidation.base import Consolidation, ConsolidationContext, StepBatch
from remnant.methods.consolidation.division import Division, paired_batches
from remnant.methods.consolidation.soft_labels import mixed_losses, refine, sharpen, uniformity
from remnant.methods.loop import even_batches
from remnant.settings import expect, setting
from remnant.suspects.mixture import small_posterior
from remnant.transforms.mixing import beta


@dataclass(frozen=True, kw_only=True)
class DivideMix(Consolidation):
    """Two networks; each trusts the labels on which the other one has a small loss."""

    lambda_u: float = setting(25.0, "weight of the unlabelled samples after the ramp", tuned=True)
    warmup: int = setting(10, "epochs of cross-entropy before the first division", tuned=True)
    ramp: int = setting(16, "epochs after the warm-up until lambda_u is reached")
    temperature: float = setting(0.5, "temperature of refined and guessed labels; below 1 sharpens")
    mixup: float = setting(4.0, "both parameters of the Beta distribution of MixUp")
    confidence_penalty: bool = setting(
        False, "penalise confident predictions in the warm-up; for asymmetric noise", tuned=True
    )

    networks: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "lambda_u >= 0": self.lambda_u >= 0,
            "warmup >= 0": self.warmup >= 0,
            f"epochs > warmup ({self.warmup})": self.epochs > self.warmup,
            "ramp >= 1": self.ramp >= 1,
            "temperature > 0": self.temperature > 0,
            "mixup > 0": self.mixup > 0,
        }
        expect(rules, self)

    def weight(self, epoch: int) -> float:
        """Return the weight of the unlabelled samples.

        >>> [DivideMix().weight(epoch) for epoch in (10, 18, 26, 200)]
        [0.0, 12.5, 25.0, 25.0]
        """
        return self.lambda_u * min(1.0, max(0.0, (epoch - self.warmup) / self.ramp))

    def divide(self, context: ConsolidationContext, epoch: int) -> Division | None:
        """Divide the buffer for each network by the losses of the other one."""
        if epoch < self.warmup:
            return None
        logits = torch.stack([context.logits(net) for net in context.nets])
        first, second = (small_posterior(context.losses(each)) for each in logits)
        return Division.from_posteriors([second, first], logits.softmax(2).mean(0).argmax(1))

    def batches(self, order: Tensor, division: Division | None) -> list[StepBatch]:
        """Return all batches of the first network, then all of the second; the warm-up trains both.

        A batch has labelled and unlabelled samples, at most `batch` of each.
        """
        if division is None:
            return super().batches(order, division)
        batches = []
        for k in range(self.networks):
            if division.fallback[k]:
                batches += [StepBatch((k,), samples) for samples in even_batches(order, self.batch)]
                continue
            is_clean = division.clean[k][order] > 0.5
            groups = [order[is_clean], order[~is_clean]]
            batches += [StepBatch((k,), samples) for samples in paired_batches(groups, self.batch)]
        return batches

    def loss(
        self, context: ConsolidationContext, step: StepBatch, division: Division | None, epoch: int
    ) -> Tensor:
        """Return L_x + lambda_u L_u + L_reg for one network."""
        if division is None:
            return self._warm_up(context, step)
        k = step.nets[0]
        if division.fallback[k]:
            return context.cross_entropy_loss(step)
        net, clean = context.nets[k], division.clean[k][step.samples]
        labelled, unlabelled = step.samples[clean > 0.5], step.samples[clean <= 0.5]
        views = [context.augmented(labelled) for _ in range(2)]
        refined = refine(clean[clean > 0.5], context.onehot(labelled), context.guess([net], views))
        targets = [sharpen(refined, self.temperature)] * 2  # co-refinement
        if len(unlabelled):
            more = [context.augmented(unlabelled) for _ in range(2)]
            views += more
            targets += [sharpen(context.guess(context.nets, more), self.temperature)] * 2  # co-guessing
        weight = beta(self.mixup, 1, context.rng)
        x, target = torch.cat(views), torch.cat(targets)
        mixed = mixed_losses(net, x, target, 2 * len(labelled), weight, context.rng)
        penalty = uniformity(mixed.logits, context.seen)
        return mixed.supervised + self.weight(epoch) * mixed.consistent + penalty

    def _warm_up(self, context: ConsolidationContext, step: StepBatch) -> Tensor:
        if not self.confidence_penalty:
            return context.cross_entropy_loss(step)
        x, onehot = context.augmented(step.samples), context.onehot(step.samples)
        logs = [context.nets[k](x).log_softmax(1) for k in step.nets]
        # Cross-entropy minus the entropy of the prediction: keeps networks from becoming overconfident.
        losses = [((log.exp() - onehot) * log).sum(1).mean() for log in logs]
        return torch.stack(losses).sum()
