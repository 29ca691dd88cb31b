"""DivideMix (Li et al., 2020) on the memory: two networks divide the rows for each other."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from remnant.augment import beta
from remnant.component import expect, tuned
from remnant.consolidate.choice import Bench, Consolidation, Part, plain_loss, side_by_side
from remnant.consolidate.labels import learn_mixed, refine, sharpen, uniformity
from remnant.mixture import small_posterior
from remnant.protocol import Division
from remnant.stream import even_batches


@dataclass(frozen=True, kw_only=True)
class DivideMix(Consolidation):
    """Two networks; each trusts the labels that the losses of the other one speak for."""

    lambda_u: float = tuned(25.0)  # weight of the unlabelled rows, once it has been reached
    warmup: int = 10  # epochs of cross-entropy before the first division
    ramp: int = 16  # epochs after them until lambda_u is reached
    temperature: float = 0.5  # below 1 sharpens refined and guessed labels
    mixup: float = 4.0  # both parameters of the Beta distribution
    confidence_penalty: bool = tuned(False)  # in the warm-up; for asymmetric noise

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
        """Return the weight of the unlabelled rows.

        >>> [DivideMix().weight(epoch) for epoch in (10, 18, 26, 200)]
        [0.0, 12.5, 25.0, 25.0]
        """
        return self.lambda_u * min(1.0, max(0.0, (epoch - self.warmup) / self.ramp))

    def divide(self, bench: Bench, epoch: int) -> Division | None:
        """Divide for each network by the losses of the other one."""
        if epoch < self.warmup:
            return None
        first, second = (small_posterior(bench.losses(net)) for net in bench.nets)
        return Division.of([second, first])

    def parts(self, order: Tensor, division: Division | None) -> list[Part]:
        """Return all batches of the first network, then all of the second; both share a warm-up.

        A batch has labelled and unlabelled rows, at most `batch` of either.
        """
        if division is None:
            return super().parts(order, division)
        parts = []
        for k in range(self.networks):
            if division.plain[k]:
                parts += [Part((k,), rows) for rows in even_batches(order, self.batch)]
                continue
            is_clean = division.clean[k][order] > 0.5
            both = side_by_side([order[is_clean], order[~is_clean]], self.batch)
            parts += [Part((k,), rows) for rows in both]
        return parts

    def loss(self, bench: Bench, part: Part, division: Division | None, epoch: int) -> Tensor:
        """Return L_x + lambda_u L_u + L_reg for one network."""
        if division is None:
            return self._warm_up(bench, part)
        k = part.nets[0]
        if division.plain[k]:
            return plain_loss(bench, part)
        net, clean = bench.nets[k], division.clean[k][part.rows]
        labelled, unlabelled = part.rows[clean > 0.5], part.rows[clean <= 0.5]
        views = [bench.augmented(labelled) for _ in range(2)]
        refined = refine(clean[clean > 0.5], bench.onehot(labelled), bench.guess([net], views))
        targets = [sharpen(refined, self.temperature)] * 2  # co-refinement
        if len(unlabelled):
            more = [bench.augmented(unlabelled) for _ in range(2)]
            views += more
            targets += [sharpen(bench.guess(bench.nets, more), self.temperature)] * 2  # co-guessing
        share = beta(self.mixup, 1, bench.rng)
        mixed = learn_mixed(
            net, torch.cat(views), torch.cat(targets), 2 * len(labelled), share, bench.rng
        )
        penalty = uniformity(mixed.logits, bench.seen)
        return mixed.supervised + self.weight(epoch) * mixed.consistent + penalty

    def _warm_up(self, bench: Bench, part: Part) -> Tensor:
        if not self.confidence_penalty:
            return plain_loss(bench, part)
        x, onehot = bench.augmented(part.rows), bench.onehot(part.rows)
        logs = [bench.nets[k](x).log_softmax(1) for k in part.nets]
        # Cross-entropy less the entropy of the prediction: no network may become certain too soon.
        rows = [((log.exp() - onehot) * log).sum(1).mean() for log in logs]
        return torch.stack(rows).sum()
