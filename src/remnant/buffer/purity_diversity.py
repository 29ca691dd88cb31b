"""The replacement policy of PuriDivER, which balances classes, purity (low loss) and diversity.

n stored samples and candidates, D features, C classes.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.buffer.base import Choice
from remnant.engine.inference import Embedding
from remnant.settings import setting


@dataclass(frozen=True)
class PurityDiversity:
    """Evict samples of the largest class with a high loss or many similar samples, until the rest fits."""

    alpha: float = setting(0.1, "weight of similarity relative to loss; 0.1 in the paper")

    needs_loss = False  # losses are computed together with the features
    needs_features = True

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"expected alpha as a weight in [0, 1], got {self.alpha}")

    def __call__(self, choice: Choice) -> Tensor:
        """Return a slot for each candidate, -1 for those that are discarded."""
        candidates, buffer = choice.offer(), choice.buffer
        stored, is_new = len(buffer), ~torch.isin(candidates.id, buffer.samples().id)
        surplus = stored + int(is_new.sum()) - buffer.capacity
        evicted: list[int] = []
        if surplus > 0:
            embedding = candidates.embed()
            alpha = self.alpha * min(1.0, 1 / max(float(embedding.loss[stored:].mean()), 1e-12))
            present = torch.cat([torch.ones(stored, dtype=torch.bool), is_new])
            evicted = evict(embedding, present, alpha, choice.uniforms[:surplus, 1].tolist())
        free = [i for i in evicted if i < stored] + list(range(stored, buffer.capacity))
        slots, is_evicted = torch.full((len(is_new),), -1), set(evicted)
        inserted = [i for i in range(len(is_new)) if is_new[i] and stored + i not in is_evicted]
        slots[inserted] = torch.tensor(free[: len(inserted)], dtype=torch.long)
        return slots


def evict(embedding: Embedding, present: Tensor, alpha: float, ties: list[float]) -> list[int]:
    """Return the indices of the samples to evict; one uniform for each breaks ties between classes."""
    classes = {int(c): ClassSamples.of(embedding, present, int(c)) for c in embedding.y[present].unique()}
    evicted = []
    for tie in ties:
        most = max(len(group) for group in classes.values())
        largest = [c for c, group in classes.items() if len(group) == most]
        evicted.append(classes[largest[int(tie * len(largest))]].drop(alpha))
    return evicted


class ClassSamples:
    """The remaining samples of one class, as unit vectors of the features relevant to the class."""

    def __init__(self, index: Tensor, unit: Tensor, loss: Tensor) -> None:
        self.index, self.unit, self.loss = index, unit, loss
        self.total = unit.sum(0)  # the product with it gives the mean cosine to all samples

    @classmethod
    def of(cls, embedding: Embedding, present: Tensor, label: int) -> "ClassSamples":
        """Select a class; its relevant features are those with an above-average weight in its logit."""
        index = torch.nonzero((embedding.y == label) & present).flatten()
        is_relevant = embedding.weight[label] > embedding.weight.mean(0)
        unit = F.normalize(embedding.features[index][:, is_relevant].double(), dim=1)
        return cls(index, unit, embedding.loss[index])

    def __len__(self) -> int:
        return len(self.index)

    def drop(self, alpha: float) -> int:
        """Remove the sample with the highest score and return its index."""
        similarity = self.unit @ self.total / len(self)
        worst = int(scores(self.loss, similarity, alpha).argmax())
        sample = int(self.index[worst])
        self.total = self.total - self.unit[worst]
        keep = torch.arange(len(self)) != worst
        self.index, self.unit, self.loss = self.index[keep], self.unit[keep], self.loss[keep]
        return sample


def scores(loss: Tensor, similarity: Tensor, alpha: float) -> Tensor:
    """Return (1 - alpha) z(loss) + alpha z(similarity), with z-scores over the class; the highest is evicted.

    >>> loss, similarity = torch.tensor([0.1, 0.2, 2.0]), torch.tensor([0.9, 0.8, 0.1])
    >>> [round(v, 3) for v in scores(loss, similarity, 0.1).tolist()]
    [-0.603, -0.528, 1.131]
    """
    return (1 - alpha) * standardised(loss) + alpha * standardised(similarity)


def standardised(values: Tensor) -> Tensor:
    """Return values with mean 0 and variance 1; zeros if they are all equal."""
    centred = values - values.mean()
    spread = centred.square().mean().sqrt()
    return centred / spread if spread > 1e-12 else torch.zeros_like(values)
