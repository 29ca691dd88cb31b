"""PuriDivER on the memory: labels are trusted, mended or left out, by loss and by uncertainty."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.augment import cutmix
from remnant.component import expect, tuned
from remnant.consolidate.choice import Bench, Consolidation, Part, side_by_side
from remnant.consolidate.labels import refine, soft_cross_entropy
from remnant.mixture import FEWEST, small_posterior
from remnant.predict import predict
from remnant.protocol import Division

LOPSIDED = "too few doubted rows to mend, or to leave without labels"


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
        sure = small_posterior(1 - logits[doubted].softmax(1).max(1).values)
        if isinstance(sure, str):
            return Division(division.clean, (f"of the doubted rows: {sure}",))
        mended, rest = doubted[sure > 0.5], doubted[sure <= 0.5]
        if min(len(mended), len(rest)) < FEWEST:
            return Division(division.clean, (LOPSIDED,))
        relabel = torch.zeros(len(rows), dtype=torch.bool)
        relabel[mended] = True
        return Division(division.clean, division.plain, relabel)

    def parts(self, order: Tensor, division: Division | None) -> list[Part]:
        """Return batches of trusted rows, mended ones and the rest, at most `batch` of each."""
        if division is None or division.relabel is None:
            return super().parts(order, division)
        return [Part((0,), rows) for rows in side_by_side(groups(order, division), self.batch)]

    def loss(self, bench: Bench, part: Part, division: Division | None, epoch: int) -> Tensor:
        """Return the losses of the three groups, weighted by their numbers of rows; one forward."""
        trusted, mended, rest = groups(part.rows, division)
        pasted = cutmix(bench.strong(trusted), self.cutmix, bench.rng)
        pairs = [view(group) for group in (mended, rest) for view in (bench.augmented, bench.strong)]
        logits = bench.nets[0](torch.cat([pasted.x, *pairs]))
        own, weak, strong, one, other = logits.split([len(trusted), *map(len, pairs)])
        y = bench.memory.y[trusted]
        supervised = pasted.blend(F.cross_entropy(own, y), F.cross_entropy(own, y[pasted.other]))
        p = torch.zeros(0) if division is None else division.clean[0][mended]
        label = refine(p, bench.onehot(mended), weak.softmax(1).detach())
        terms = [
            supervised * len(trusted),
            soft_cross_entropy(strong, label) * len(mended),
            F.mse_loss(one, other, reduction="sum") / max(1, one.shape[1]),
        ]
        return torch.stack(terms).sum() / len(part.rows)


def groups(rows: Tensor, division: Division | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return which of these rows are trusted, which are mended, and which lose their labels."""
    if division is None or division.relabel is None:
        return rows, rows[:0], rows[:0]
    is_clean, is_mended = division.clean[0][rows] > 0.5, division.relabel[rows]
    return rows[is_clean], rows[is_mended], rows[~is_clean & ~is_mended]
