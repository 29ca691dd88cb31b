"""Soft labels, i.e. distributions over classes, and the losses that use them.

B samples, C classes.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.transforms.mixing import mixup


def sharpen(p: Tensor, temperature: float) -> Tensor:
    """Return p ** (1 / temperature), normalised; a temperature below 1 sharpens.

    >>> [round(v, 4) for v in sharpen(torch.tensor([[0.5, 0.3, 0.2]]), 0.5)[0].tolist()]
    [0.6579, 0.2368, 0.1053]
    """
    # Logarithms, because powers of small probabilities underflow.
    return (p.clamp_min(torch.finfo(p.dtype).tiny).log() / temperature).softmax(1)


def refine(clean: Tensor, onehot: Tensor, guess: Tensor) -> Tensor:
    """Return clean * onehot + (1 - clean) * guess (Eq. 5); `clean` (B,) are probabilities.

    >>> refine(torch.tensor([0.25]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.2, 0.8]]))
    tensor([[0.4000, 0.6000]])
    """
    weight = clean.to(guess)[:, None]
    return weight * onehot + (1 - weight) * guess


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy with soft labels; 0 for an empty batch."""
    return -(target * logits.log_softmax(1)).sum() / max(1, len(logits))


def squared_error(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error of the predicted probabilities; 0 for an empty batch."""
    return F.mse_loss(logits.softmax(1), target, reduction="sum") / max(1, target.numel())


def uniformity(logits: Tensor, seen: Tensor) -> Tensor:
    """Return KL(uniform over the seen classes || mean prediction)."""
    mean = logits.log_softmax(1)[:, seen].logsumexp(0) - math.log(len(logits))
    return -(mean.mean() + math.log(int(seen.sum())))


class MixedLosses(NamedTuple):
    """The losses of a batch of labelled and unlabelled samples after MixUp."""

    supervised: Tensor
    consistent: Tensor
    logits: Tensor  # (B, C)


def mixed_losses(
    net: nn.Module, x: Tensor, target: Tensor, labelled: int, weight: Tensor, rng: torch.Generator
) -> MixedLosses:
    """Return the losses after MixUp over the whole batch, whose first `labelled` samples have labels."""
    x, target = mixup(x, target, weight, torch.randperm(len(x), generator=rng))
    net.train()
    logits = net(x)
    supervised = soft_cross_entropy(logits[:labelled], target[:labelled])
    return MixedLosses(supervised, squared_error(logits[labelled:], target[labelled:]), logits)
