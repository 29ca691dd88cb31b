"""The replacement policy of GDumb, which balances classes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.buffer.base import Choice
from remnant.buffer.eviction import Draft


@dataclass(frozen=True)
class GreedyBalanced:
    """GDumb: insert a sample if its class is below its quota, and evict from the largest class.

    The quota is the capacity divided by the number of classes so far. A class at its quota gets no more
    samples, even if a slot is free.
    """

    needs_loss = False

    def __call__(self, choice: Choice) -> Tensor:
        """Return a slot for each candidate, -1 for those that are discarded."""
        candidates, draft, capacity = choice.offer(), Draft(choice), choice.buffer.capacity
        classes = max([0, *candidates.y.tolist()]) + 1
        count, slots = torch.bincount(draft.y[: draft.size], minlength=classes), []
        for i, label in enumerate(candidates.y.tolist()):
            seen = int((count > 0).sum()) + int(count[label] == 0)
            if int(count[label]) * seen >= capacity or candidates.id[i] in draft.id:
                slots.append(-1)
                continue
            slot = draft.size
            if slot == capacity:
                slot = _in_largest(draft.y, count, choice.uniforms[i])
                count[draft.y[slot]] -= 1
            count[label] += 1
            draft.put(slot, int(candidates.id[i]), candidates.y[i], candidates.loss[i])
            slots.append(slot)
        return torch.tensor(slots)


def _in_largest(y: Tensor, count: Tensor, uniforms: Tensor) -> int:
    """Return a random slot of the largest class; the uniforms choose among equal classes and among slots."""
    _, tie, victim = uniforms.tolist()
    largest = torch.nonzero(count == count.max()).flatten()
    slots = torch.nonzero(y == largest[int(tie * len(largest))]).flatten()
    return int(slots[int(victim * len(slots))])
