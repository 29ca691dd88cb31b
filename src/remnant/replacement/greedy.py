"""GDumb's memory: as many rows of each class as can be."""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.memory import Memory
from remnant.replacement.choice import Losses, Offer


@dataclass(frozen=True)
class GreedyBalanced:
    """GDumb: a row enters while its class has less than its equal part; the largest class makes room.

    A class that has its part gets no more, even where a slot is free.
    """

    needs_loss = False

    def __call__(
        self, memory: Memory, offer: Offer, losses: Losses, task: int, uniforms: Tensor
    ) -> Tensor:
        """Return a slot for each candidate, -1 for those that stay out."""
        candidates, y, id = offer(), memory.rows().y.tolist(), memory.rows().id.tolist()
        memory.candidates += len(uniforms)
        slots = []
        for i, label in enumerate(candidates.y.tolist()):
            has_part = y.count(label) * len({*y, label}) >= memory.capacity
            if has_part or int(candidates.id[i]) in id:
                slots.append(-1)
                continue
            _, tie, victim = uniforms[i].tolist()
            slot = len(y) if len(y) < memory.capacity else _in_largest(y, tie, victim)
            y[slot:], id[slot:] = [label, *y[slot + 1 :]], [int(candidates.id[i]), *id[slot + 1 :]]
            slots.append(slot)
        return torch.tensor(slots)


def _in_largest(y: list[int], tie: float, victim: float) -> int:
    """Return a slot of the class with most rows; a uniform each for the class and the slot."""
    count = {label: y.count(label) for label in sorted(set(y))}
    largest = [label for label in count if count[label] == max(count.values())]
    chosen = largest[int(tie * len(largest))]
    slots = [slot for slot, label in enumerate(y) if label == chosen]
    return slots[int(victim * len(slots))]
