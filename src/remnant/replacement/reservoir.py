"""Who enters the memory and who leaves it (Sec. 3.2, sample selection; Alg. 1 lines 4, 9, 10).

Every candidate owns three uniforms, drawn whether they are used or not: accept, group, victim. The coin
for acceptance does not depend on any loss, so it falls first: a step in which nobody is accepted asks
neither for candidates nor for losses. The coin for the group falls next: only that group is measured.
M slots, k candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.memory import Memory
from remnant.replacement.choice import Losses, Offer


class Draft:
    """The memory as it will be once the candidates before this one are in."""

    def __init__(self, memory: Memory, losses: Losses, task: int) -> None:
        self.size = memory.size
        self.id = memory.id.tolist()
        self.is_current = memory.task == task
        self._loss = torch.zeros(memory.capacity, dtype=torch.float64)
        self._is_known = torch.zeros(memory.capacity, dtype=torch.bool)
        self._measure = losses

    def losses(self, slots: Tensor) -> Tensor:
        """Return the losses of these slots, measured at most once."""
        unknown = slots[~self._is_known[slots]]
        if len(unknown):
            self._loss[unknown] = self._measure(unknown)
            self._is_known[unknown] = True
        return self._loss[slots]

    def put(self, slot: int, id: int, loss: Tensor) -> None:
        """Place a candidate of the current task."""
        self.id[slot] = id
        self.is_current[slot] = True
        self._loss[slot], self._is_known[slot] = loss, True
        self.size = max(self.size, slot + 1)


Victim = Callable[[Draft, float, float], int]  # (draft, group uniform, victim uniform) -> slot


def pick(weight: Tensor, uniform: float) -> int:
    """Return a position drawn in proportion to `weight` by inverse distribution function.

    All weights equal to zero: uniformly.

    >>> [pick(torch.tensor([1.0, 2.0, 5.0]), u) for u in (0.12, 0.13, 0.37, 0.38)]
    [0, 1, 1, 2]
    """
    cumulative = weight.double().cumsum(0)
    total = cumulative[-1]
    if total <= 0:
        return int(uniform * len(weight))
    # Below the total, so that no rounding can choose a last weight of zero.
    height = min(uniform * total, total.nextafter(torch.zeros_like(total)))
    return int(torch.searchsorted(cumulative, height, right=True))


def uniform_victim(draft: Draft, group: float, victim: float) -> int:
    """Reservoir sampling (Vitter's R): everybody may have to leave."""
    return int(victim * draft.size)


def loss_aware_victim(draft: Draft, group: float, victim: float) -> int:
    """LASS: p(x) = s(x) / Z with s = L; a high loss leaves sooner."""
    return pick(draft.losses(torch.arange(draft.size)), victim)


def asymmetric_victim(draft: Draft, group: float, victim: float) -> int:
    """ABS: a coin with probability |M_cur| / |M| picks the group, then s(x) the victim.

    s = L for the current task (doubtful labels leave), s = max(L_past) - L for past ones (easy rows
    leave and hard ones stay): -L, moved up so that it can be normalised.
    """
    is_current = draft.is_current[: draft.size]
    chooses_current = group * draft.size < int(is_current.sum())
    slots = torch.nonzero(is_current if chooses_current else ~is_current).flatten()
    loss = draft.losses(slots)
    return int(slots[pick(loss if chooses_current else loss.max() - loss, victim)])


@dataclass(frozen=True)
class Reservoir:
    """The n-th candidate is accepted with probability M / n; `victim` says who leaves for it.

    What is counted are candidates, not rows of the stream, and all of them, also those that are in
    memory already. While a slot is free, every new row gets one.
    """

    victim: Victim = uniform_victim
    allow_duplicates: bool = False  # whether a row may be stored twice

    @property
    def needs_loss(self) -> bool:
        """Whether the losses of candidates matter."""
        return self.victim is not uniform_victim

    def __call__(
        self, memory: Memory, offer: Offer, losses: Losses, task: int, uniforms: Tensor
    ) -> Tensor:
        """Return a slot for each candidate, -1 for those that stay out."""
        count = len(uniforms)
        ordinal = memory.candidates + torch.arange(1, count + 1)
        is_accepted = uniforms[:, 0] * ordinal < memory.capacity
        memory.candidates += count
        slots = torch.full((count,), -1)
        if not count or (len(memory) == memory.capacity and not is_accepted.any()):
            return slots
        candidates, draft = offer(), Draft(memory, losses, task)
        for i, id in enumerate(candidates.id.tolist()):
            is_free = draft.size < memory.capacity
            if not (is_free or is_accepted[i]) or (id in draft.id and not self.allow_duplicates):
                continue
            _, group, victim = uniforms[i].tolist()
            slot = draft.size if is_free else self.victim(draft, group, victim)
            draft.put(slot, id, candidates.loss[i])
            slots[i] = slot
        return slots
