"""Eviction policies of reservoir sampling: uniform, LASS and ABS (Sec. 3.2; Alg. 1 line 4)."""

from collections.abc import Callable

import torch
from torch import Tensor

from remnant.buffer.base import Choice


class Draft:
    """The state of the buffer after the insertion of all candidates before the current one."""

    def __init__(self, choice: Choice) -> None:
        buffer = choice.buffer
        self.size, self.y = buffer.size, buffer.y.cpu().clone()
        self.id = buffer.id.clone()
        self.id[buffer.size :] = -1  # of samples that were removed
        self.is_current = buffer.task == choice.task
        self._loss = torch.zeros(buffer.capacity, dtype=torch.float64)
        self._is_known = torch.zeros(buffer.capacity, dtype=torch.bool)
        self._measure = choice.losses

    def losses(self, slots: Tensor) -> Tensor:
        """Return the losses of these slots, each measured at most once."""
        unknown = slots[~self._is_known[slots]]
        if len(unknown):
            self._loss[unknown] = self._measure(unknown)
            self._is_known[unknown] = True
        return self._loss[slots]

    def put(self, slot: int, id: int, y: Tensor, loss: Tensor) -> None:
        """Insert a candidate of the current task."""
        self.id[slot], self.y[slot] = id, y
        self.is_current[slot] = True
        self._loss[slot], self._is_known[slot] = loss, True
        self.size = max(self.size, slot + 1)


Victim = Callable[[Draft, float, float], int]  # (draft, group uniform, victim uniform) -> slot


def pick(weight: Tensor, uniform: float) -> int:
    """Return a position drawn in proportion to `weight`, by inverse transform sampling.

    If all weights are zero, the position is drawn uniformly.

    >>> [pick(torch.tensor([1.0, 2.0, 5.0]), u) for u in (0.12, 0.13, 0.37, 0.38)]
    [0, 1, 1, 2]
    """
    cumulative = weight.double().cumsum(0)
    total = cumulative[-1]
    if total <= 0:
        return int(uniform * len(weight))
    # Strictly below the total, because rounding could otherwise select a trailing weight of zero.
    height = min(uniform * total, total.nextafter(torch.zeros_like(total)))
    return int(torch.searchsorted(cumulative, height, right=True))


def uniform_victim(draft: Draft, group: float, victim: float) -> int:
    """Reservoir sampling (Vitter's algorithm R): every stored sample is evicted with the same probability."""
    return int(victim * draft.size)


def loss_aware_victim(draft: Draft, group: float, victim: float) -> int:
    """LASS: evict x with probability s(x) / Z, where the score s is the loss."""
    return pick(draft.losses(torch.arange(draft.size)), victim)


def asymmetric_victim(draft: Draft, group: float, victim: float) -> int:
    """ABS: evict from the current task with probability |M_cur| / |M|, otherwise from past tasks.

    The victim is drawn in proportion to s. For the current task s = L (purity: noisy labels are evicted),
    for past tasks s = max(L_past) - L (diversity: easy samples are evicted), which is -L shifted to be
    non-negative.
    """
    is_current = draft.is_current[: draft.size]
    chooses_current = group * draft.size < int(is_current.sum())
    slots = torch.nonzero(is_current if chooses_current else ~is_current).flatten()
    loss = draft.losses(slots)
    return int(slots[pick(loss if chooses_current else loss.max() - loss, victim)])
