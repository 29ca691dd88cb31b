"""The paper's consolidation (appendix A): MixMatch with untrusted samples as unlabelled samples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.methods.consolidation.base import Consolidation, ConsolidationContext, StepBatch
from remnant.methods.consolidation.division import Division
from remnant.methods.consolidation.soft_labels import mixed_losses, refine, sharpen
from remnant.settings import expect, setting
from remnant.suspects.mixture import small_posterior
from remnant.transforms.mixing import beta


@dataclass(frozen=True, kw_only=True)
class MixMatch(Consolidation):
    """Cross-entropy on trusted labels, consistency on untrusted ones, MixUp over both."""

    lr: float = setting(0.1, "learning rate at the start of each cosine cycle", tuned=True)
    lambda_u: float = setting(0.01, "weight of the untrusted samples", tuned=True)
    views: int = setting(3, "augmented views of each untrusted sample (eta)")
    temperature: float = setting(0.5, "temperature of guessed labels; below 1 sharpens")
    mixup: float = setting(0.5, "both parameters of the Beta distribution of MixUp")

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "lambda_u >= 0": self.lambda_u >= 0,
            "views >= 1": self.views >= 1,
            "temperature > 0": self.temperature > 0,
            "mixup > 0": self.mixup > 0,
        }
        expect(rules, self)

    def divide(self, context: ConsolidationContext, epoch: int) -> Division | None:
        """Fit two Gaussians to the losses; u(x) is the posterior of the one with the smaller mean."""
        logits = context.logits(context.nets[0])
        return Division.from_posteriors([small_posterior(context.losses(logits))], logits.argmax(1))

    def loss(
        self, context: ConsolidationContext, step: StepBatch, division: Division | None, epoch: int
    ) -> Tensor:
        """Return L_s + lambda_u L_u."""
        if division is None or division.fallback[0]:
            return context.cross_entropy_loss(step)
        net, clean = context.nets[0], division.clean[0][step.samples]
        trusted, untrusted = step.samples[clean > 0.5], step.samples[clean <= 0.5]
        views = [context.augmented(untrusted) for _ in range(self.views)]
        x = torch.cat([context.augmented(trusted), *views])
        labels = [context.onehot(trusted)]
        if len(untrusted):
            guess = sharpen(context.guess([net], views), self.temperature)
            labels += [refine(clean[clean <= 0.5], context.onehot(untrusted), guess)] * self.views
        weight = beta(self.mixup, len(x), context.rng)
        mixed = mixed_losses(net, x, torch.cat(labels), len(trusted), weight, context.rng)
        return mixed.supervised + self.lambda_u * mixed.consistent
