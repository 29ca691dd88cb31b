"""PuriDivER on the memory: labels are trusted, mended or left out, by loss and by uncertainty."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.augment import cutmix
from remnant.component import expect, tuned
from remnant.consolidate.choice import Bench, Consolidation, Part, side_by_side
from remnant.consolidate.labels import refine, soft_cross_entropy
from remnant.mixture import small_posterior
from remnant.predict import predict
from remnant.protocol import Division

CERTAIN = "too few doubted rows"


@dataclass(frozen=True, kw_only=True)
class PuriDivER(Consolidation):
    """Trusted labels as they are, mended ones where the network is sure, none where it is not."""

    batch: int = 16
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 1e-4
    warmup: int = tuned(10)  # epochs of cross-entropy before the first division
    cutmix: float = 0.5  # probability that a batch of trusted rows is mixed

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "warmup >= 0": self.warmup >= 0,
            f"epochs > warmup ({self.warmup})": self.epochs > self.warmup,
            "cutmix in [0, 1]": 0 <= self.cutmix <= 1,
        }
        expect(rules, self)

    def divide(self, bench: Bench, epoch: int) -> Division | None:
        """Trust small losses; of the others, mend what the network is sure of."""
        if epoch < self.warmup:
            return None
        rows = bench.memory.rows()
        logits = predict(bench.nets[0], rows.x, bench.view.plain)
        clean = small_posterior(F.cross_entropy(logits, rows.y, reduction="none"))
        division = Division.of([clean])
        if division.plain[0]:
            return division
        doubted = torch.nonzero(division.clean[0] <= 0.5).flatten()
        unsure = 1 - logits[doubted].softmax(1).max(1).values
        sure = small_posterior(unsure)
        if isinstance(sure, str):
            return Division(division.clean, (CERTAIN,))
        relabel = torch.zeros(len(rows), dtype=torch.bool)
        relabel[doubted[sure > 0.5]] = True
        return Division(division.clean, division.plain, relabel)

    def parts(self, order: Tensor, division: Division | None) -> list[Part]:
        """Return batches of trusted rows, mended ones and the rest, at most `batch` of each."""
        if division is None or division.plain[0]:
            return super().parts(order, division)
        is_clean = division.clean[0][order] > 0.5
        is_mended = mended(division)[order]
        groups = [order[is_clean], order[is_mended], order[~is_clean & ~is_mended]]
        return [Part((0,), rows) for rows in side_by_side(groups, self.batch)]

    def loss(self, bench: Bench, part: Part, division: Division | None, epoch: int) -> Tensor:
        """Return the losses of the three groups, weighted by their numbers of rows; one forward."""
        rows = part.rows
        clean = (
            torch.ones(len(rows)) if division is None or division.plain[0] else division.clean[0][rows]
        )
        is_mended = torch.zeros(len(rows), dtype=torch.bool)
        if division is not None and not division.plain[0]:
            is_mended = mended(division)[rows]
        trusted, relabelled = rows[clean > 0.5], rows[is_mended]
        rest = rows[(clean <= 0.5) & ~is_mended]
        pasted = cutmix(bench.strong(trusted), self.cutmix, bench.rng)
        pairs = [view(group) for group in (relabelled, rest) for view in (bench.augmented, bench.strong)]
        logits = bench.nets[0](torch.cat([pasted.x, *pairs]))
        own, weak, strong, one, other = logits.split([len(trusted), *map(len, pairs)])
        y = bench.memory.y[trusted]
        supervised = pasted.blend(F.cross_entropy(own, y), F.cross_entropy(own, y[pasted.other]))
        label = refine(clean[is_mended], bench.onehot(relabelled), weak.softmax(1).detach())
        terms = [
            supervised * len(trusted),
            soft_cross_entropy(strong, label) * len(relabelled),
            F.mse_loss(one, other, reduction="sum") / max(1, one.shape[1]),
        ]
        return torch.stack(terms).sum() / len(rows)


def mended(division: Division) -> Tensor:
    """Return which rows get a new label, (n,)."""
    assert division.relabel is not None
    return division.relabel
