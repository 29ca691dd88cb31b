"""Separation of clean from noisy labels by their disagreement with the prediction of a network.

n samples, C classes.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of distributions (n, C) in nats, from 0 to log 2, (n,).

    It is H(m) - (H(p) + H(q)) / 2, with m = (p + q) / 2 and the entropy H.

    >>> divergence(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor([0.0000, 0.6931])
    """
    distance = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
    return distance.clamp(0.0, math.log(2))


def entropy(p: Tensor) -> Tensor:
    """Return the entropy of distributions (n, C) in nats, (n,), with 0 log 0 = 0."""
    return -torch.xlogy(p, p).sum(1)


def disagreement(logits: Tensor, y: Tensor, classes: Tensor, hardened: bool) -> Tensor:
    """Return the divergence of each label from the prediction over `classes`, in [0, log 2], (n,).

    If `hardened`, the prediction is the one-hot vector of the predicted class: the result is 0 or log 2.
    """
    relevant = logits[:, classes].double()
    onehot = (y[:, None] == classes).double()
    if hardened:
        return divergence(F.one_hot(relevant.argmax(1), len(classes)).double(), onehot)
    return divergence(relevant.softmax(1), onehot)


class Split(NamedTuple):
    """Indices of clean and noisy samples, the most certain ones first; ties in order of arrival."""

    clean: Tensor
    noisy: Tensor


def split(distance: Tensor) -> Split:
    """Split samples by the disagreement (n,) of their labels: clean if it is below the mean, else noisy.

    Labels with a disagreement of 0 are always clean; if all are equal and positive, all are noisy.

    >>> [index.tolist() for index in split(torch.tensor([0.1, 0.6, 0.0, 0.5]))]
    [[2, 0], [1, 3]]
    """
    above = distance - distance.min()  # exact for equal values, where the mean may be rounded
    is_clean = (above < above.mean()) | (distance == 0)
    nearest = distance.argsort(stable=True)
    farthest = distance.argsort(stable=True, descending=True)
    return Split(nearest[is_clean[nearest]], farthest[~is_clean[farthest]])
