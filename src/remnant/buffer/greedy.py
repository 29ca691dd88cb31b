"""The replacement policy of GDumb, which balances classes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.buffer.base import Choice


@dataclass(frozen=True)
class GreedyBalanced:
    """GDumb: insert a sample if its class is below its quota, and evict from the largest class.

    The quota is the capacity divided by the number of classes so far. A class at its quota gets no more
    samples, even if a slot is free.
    """

    needs_loss = False

    def __call__(self, choice: Choice) -> Tensor:
        """Return a slot for each candidate, -1 for those that are discarded."""
        candidates, stored, capacity = choice.offer(), choice.buffer.samples(), choice.buffer.capacity
        y, id, slots = stored.y.tolist(), stored.id.tolist(), []
        for i, label in enumerate(candidates.y.tolist()):
            is_at_quota = y.count(label) * len({*y, label}) >= capacity
            if is_at_quota or int(candidates.id[i]) in id:
                slots.append(-1)
                continue
            _, tie, victim = choice.uniforms[i].tolist()
            slot = len(y) if len(y) < capacity else _in_largest(y, tie, victim)
            y[slot:], id[slot:] = [label, *y[slot + 1 :]], [int(candidates.id[i]), *id[slot + 1 :]]
            slots.append(slot)
        return torch.tensor(slots)


def _in_largest(y: list[int], tie: float, victim: float) -> int:
    """Return a random slot of the largest class; the uniforms choose among equal classes and among slots."""
    count = {label: y.count(label) for label in sorted(set(y))}
    largest = [label for label in count if count[label] == max(count.values())]
    chosen = largest[int(tie * len(largest))]
    slots = [slot for slot, label in enumerate(y) if label == chosen]
    return slots[int(victim * len(slots))]
