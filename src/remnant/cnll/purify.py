"""Which labels a network agrees with: how far each is from the prediction, and which side it falls on.

n rows, C classes.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of distributions (n, C): 0 where equal, at most log 2.

    With m = (p + q) / 2 and the entropy H it is H(m) - (H(p) + H(q)) / 2, in nats.

    >>> divergence(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor([0.0000, 0.6931])
    """
    apart = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
    return apart.clamp(0.0, math.log(2))


def entropy(p: Tensor) -> Tensor:
    """Return the entropy of distributions (n, C) in nats; a class of probability 0 adds nothing."""
    return -torch.xlogy(p, p).sum(1)


def disagreement(logits: Tensor, y: Tensor, classes: Tensor, hardened: bool) -> Tensor:
    """Return how far each label is from what is predicted among `classes`, in [0, log 2], (n,).

    A hardened prediction is its largest class alone: the answer is then 0 or log 2, agreed or not.
    """
    among = logits[:, classes].double()
    given = (y[:, None] == classes).double()
    if hardened:
        return divergence(F.one_hot(among.argmax(1), len(classes)).double(), given)
    return divergence(among.softmax(1), given)


class Split(NamedTuple):
    """Row numbers, those judged most surely first; ties in order of arrival."""

    clean: Tensor
    noisy: Tensor


def split(apart: Tensor) -> Split:
    """Call the labels clean that are nearer to their prediction than the mean is, the others noisy.

    A label that agrees with its prediction altogether is clean in any case: where all do, none of them
    is nearer than the mean. Labels that are all equally far are all noisy: nothing speaks for any.

    >>> [rows.tolist() for rows in split(torch.tensor([0.1, 0.6, 0.0, 0.5]))]
    [[2, 0], [1, 3]]
    """
    above = apart - apart.min()  # so that equal ones are not divided by a mean that was rounded
    is_clean = (above < above.mean()) | (apart == 0)
    nearest = apart.argsort(stable=True)
    farthest = apart.argsort(stable=True, descending=True)
    return Split(nearest[is_clean[nearest]], farthest[~is_clean[farthest]])
