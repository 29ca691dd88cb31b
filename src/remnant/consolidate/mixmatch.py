"""The paper's consolidation (appendix A): MixMatch, where doubted labels count as no labels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.augment import beta
from remnant.component import expect, tuned
from remnant.consolidate.choice import Bench, Consolidation, Part, plain_loss
from remnant.consolidate.labels import learn_mixed, refine, sharpen
from remnant.mixture import small_posterior
from remnant.protocol import Division


@dataclass(frozen=True, kw_only=True)
class MixMatch(Consolidation):
    """Cross-entropy on labels that are trusted, consistency on those that are not, MixUp over both."""

    lr: float = tuned(0.1)
    lambda_u: float = tuned(0.01)  # weight of the uncertain rows
    views: int = 3  # augmentations of each uncertain row: eta
    temperature: float = 0.5  # below 1 sharpens the guessed labels
    mixup: float = 0.5  # both parameters of the Beta distribution

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "lambda_u >= 0": self.lambda_u >= 0,
            "views >= 1": self.views >= 1,
            "temperature > 0": self.temperature > 0,
            "mixup > 0": self.mixup > 0,
        }
        expect(rules, self)

    def divide(self, bench: Bench, epoch: int) -> Division | None:
        """Fit two Gaussians to the losses; the posterior of the small ones is u(x)."""
        return Division.of([small_posterior(bench.losses(bench.nets[0]))])

    def loss(self, bench: Bench, part: Part, division: Division | None, epoch: int) -> Tensor:
        """Return L_s + lambda_u L_u."""
        if division is None or division.plain[0]:
            return plain_loss(bench, part)
        net, clean = bench.nets[0], division.clean[0][part.rows]
        pure, uncertain = part.rows[clean > 0.5], part.rows[clean <= 0.5]
        views = [bench.augmented(uncertain) for _ in range(self.views)]
        x = torch.cat([bench.augmented(pure), *views])
        labels = [bench.onehot(pure)]
        if len(uncertain):
            guess = sharpen(bench.guess([net], views), self.temperature)
            labels += [refine(clean[clean <= 0.5], bench.onehot(uncertain), guess)] * self.views
        share = beta(self.mixup, len(x), bench.rng)
        mixed = learn_mixed(net, x, torch.cat(labels), len(pure), share, bench.rng)
        return mixed.supervised + self.lambda_u * mixed.consistent
