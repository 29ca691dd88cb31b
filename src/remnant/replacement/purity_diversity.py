"""PuriDivER's memory: class-balanced, without the rows that are doubtful or that others resemble.

n rows stored or offered, D features, C classes.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.memory import Memory
from remnant.predict import Embedding
from remnant.replacement.choice import Losses, Offer


@dataclass(frozen=True)
class PurityDiversity:
    """While there are too many rows, one leaves the largest class: a high loss, or one of many alike."""

    alpha: float = 0.1  # weight of likeness against loss; 0.1 is the paper's

    needs_loss = False  # it looks at all rows at once

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is a weight in [0, 1], got {self.alpha}")

    def __call__(
        self, memory: Memory, offer: Offer, losses: Losses, task: int, uniforms: Tensor
    ) -> Tensor:
        """Return a slot for each candidate, -1 for those that stay out."""
        candidates, stored = offer(), len(memory)
        memory.candidates += len(candidates.id)
        is_new = ~torch.isin(candidates.id, memory.rows().id)
        surplus = stored + int(is_new.sum()) - memory.capacity
        leaving: list[int] = []
        if surplus > 0:
            embedding = candidates.embed()
            alpha = self.alpha * min(1.0, 1 / max(float(embedding.loss[stored:].mean()), 1e-12))
            present = torch.cat([torch.ones(stored, dtype=torch.bool), is_new])
            leaving = choose(embedding, present, alpha, uniforms[:surplus, 1].tolist())
        free = [row for row in leaving if row < stored] + list(range(stored, memory.capacity))
        slots, stays_out = torch.full((len(is_new),), -1), set(leaving)
        entering = [i for i in range(len(is_new)) if is_new[i] and stored + i not in stays_out]
        slots[entering] = torch.tensor(free[: len(entering)], dtype=torch.long)
        return slots


def choose(embedding: Embedding, present: Tensor, alpha: float, ties: list[float]) -> list[int]:
    """Return the rows that leave, one after another; a uniform for each breaks ties of classes."""
    classes = {int(c): Class.of(embedding, present, int(c)) for c in embedding.y[present].unique()}
    leaving = []
    for tie in ties:
        most = max(len(group) for group in classes.values())
        largest = [c for c, group in classes.items() if len(group) == most]
        leaving.append(classes[largest[int(tie * len(largest))]].drop(alpha))
    return leaving


class Class:
    """The rows of one class that are still there, as unit vectors in the features that speak for it."""

    def __init__(self, rows: Tensor, unit: Tensor, loss: Tensor) -> None:
        self.rows, self.unit, self.loss = rows, unit, loss
        self.total = unit.sum(0)  # the mean cosine to all is one product with it

    @classmethod
    def of(cls, embedding: Embedding, present: Tensor, label: int) -> "Class":
        """Take the rows of a class; its own features are those it weighs above the mean of classes."""
        rows = torch.nonzero((embedding.y == label) & present).flatten()
        own = embedding.weight[label] > embedding.weight.mean(0)
        unit = F.normalize(embedding.features[rows][:, own].double(), dim=1)
        return cls(rows, unit, embedding.loss[rows])

    def __len__(self) -> int:
        return len(self.rows)

    def drop(self, alpha: float) -> int:
        """Remove the row with the highest score, and return it."""
        alike = self.unit @ self.total / len(self)
        worst = int(scores(self.loss, alike, alpha).argmax())
        row = int(self.rows[worst])
        self.total = self.total - self.unit[worst]
        keep = torch.arange(len(self)) != worst
        self.rows, self.unit, self.loss = self.rows[keep], self.unit[keep], self.loss[keep]
        return row


def scores(loss: Tensor, alike: Tensor, alpha: float) -> Tensor:
    """Return (1 - alpha) z(loss) + alpha z(likeness), standardised inside the class.

    >>> loss, alike = torch.tensor([0.1, 0.2, 2.0]), torch.tensor([0.9, 0.8, 0.1])
    >>> [round(v, 3) for v in scores(loss, alike, 0.1).tolist()]
    [-0.603, -0.528, 1.131]
    """
    return (1 - alpha) * standardised(loss) + alpha * standardised(alike)


def standardised(values: Tensor) -> Tensor:
    """Return values with mean 0 and variance 1; zeros where they are all equal."""
    centred = values - values.mean()
    spread = centred.square().mean().sqrt()
    return centred / spread if spread > 1e-12 else torch.zeros_like(values)
