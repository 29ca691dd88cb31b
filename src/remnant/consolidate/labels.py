"""Labels that are distributions over classes: how they are made, and the losses against them.

B rows, C classes.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.augment import mixup


def sharpen(p: Tensor, temperature: float) -> Tensor:
    """Return p ** (1 / temperature), normalised again: below 1 the largest class gains.

    >>> [round(v, 4) for v in sharpen(torch.tensor([[0.5, 0.3, 0.2]]), 0.5)[0].tolist()]
    [0.6579, 0.2368, 0.1053]
    """
    # In logarithms, relative to the largest: a power of small probabilities would vanish.
    return (p.clamp_min(torch.finfo(p.dtype).tiny).log() / temperature).softmax(1)


def refine(clean: Tensor, onehot: Tensor, guess: Tensor) -> Tensor:
    """Return clean * onehot + (1 - clean) * guess: the label as far as it is trusted (Eq. 5).

    >>> refine(torch.tensor([0.25]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.2, 0.8]]))
    tensor([[0.4000, 0.6000]])
    """
    weight = clean.to(guess.dtype)[:, None]
    return weight * onehot + (1 - weight) * guess


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy against distributions; 0 of no rows."""
    return -(target * logits.log_softmax(1)).sum() / max(1, len(logits))


def squared_error(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared difference of probabilities, over rows and classes; 0 of no rows."""
    return F.mse_loss(logits.softmax(1), target, reduction="sum") / max(1, target.numel())


def uniformity(logits: Tensor, seen: Tensor) -> Tensor:
    """Return KL(uniform over the classes seen || mean prediction): 0 if, and only if, they agree."""
    mean = logits.log_softmax(1)[:, seen].logsumexp(0) - math.log(len(logits))
    return -(mean.mean() + math.log(int(seen.sum())))


class Mixed(NamedTuple):
    """The two losses of a batch of labelled and unlabelled rows after MixUp."""

    supervised: Tensor
    consistent: Tensor
    logits: Tensor  # (B, C)


def learn_mixed(
    net: nn.Module, x: Tensor, target: Tensor, labelled: int, share: Tensor, rng: torch.Generator
) -> Mixed:
    """Blend rows with each other, then look at them in train mode; the first rows are `labelled`."""
    x, target = mixup(x, target, share, torch.randperm(len(x), generator=rng))
    net.train()
    logits = net(x)
    supervised = soft_cross_entropy(logits[:labelled], target[:labelled])
    return Mixed(supervised, squared_error(logits[labelled:], target[labelled:]), logits)
