"""Division of the buffer into samples with trusted and with untrusted labels, and batches of both."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NO_TRUSTED_LABEL = "no label is trusted"


@dataclass(frozen=True, eq=False)
class Division:
    """Trusted and untrusted labels of the n samples in a buffer, for each of K networks."""

    clean: Tensor  # (K, n) probability that each label is clean; above 1/2 it is trusted
    fallback: tuple[str, ...]  # (K,) why network k falls back to cross-entropy on all labels; "" if not
    relabel: Tensor | None = None  # (n,) untrusted samples that get a new label; the others are unlabelled
    predicted: Tensor | None = None  # (n,) most probable class of each sample, without augmentation

    @classmethod
    def from_posteriors(
        cls, posteriors: Sequence[Tensor | str], predicted: Tensor | None = None
    ) -> "Division":
        """Create a division from a posterior (n,) for each network, or the reason why there is none."""
        samples = max((len(p) for p in posteriors if isinstance(p, Tensor)), default=0)
        reasons = [
            p if isinstance(p, str) else "" if (p > 0.5).any() else NO_TRUSTED_LABEL for p in posteriors
        ]
        clean = [p if isinstance(p, Tensor) else torch.ones(samples) for p in posteriors]
        return cls(torch.stack([c.double() for c in clean]), tuple(reasons), predicted=predicted)


def paired_batches(groups: Sequence[Tensor], size: int) -> list[Tensor]:
    """Return batches with at most `size` samples of each group: as few as possible, evenly filled.

    Every batch has samples of the first group, the labelled one; they are repeated if necessary.

    >>> groups = torch.tensor([1, 2]), torch.arange(10, 18)
    >>> [batch.tolist() for batch in paired_batches(groups, 3)]
    [[1, 10, 11, 12], [2, 13, 14, 15], [1, 16, 17]]
    """
    first, *others = groups
    steps = max(math.ceil(len(group) / size) for group in groups)
    labelled = first[torch.arange(max(steps, len(first))) % len(first)]
    parts = [group.tensor_split(steps) for group in (labelled, *others)]
    return [torch.cat(batch) for batch in zip(*parts, strict=True)]
