"""Partitioning reservoir sampling: each class gets an equal part, and doubtful rows leave first.

k candidates, C classes. The loss of a row is here how probably its label is wrong.
"""

import torch
from torch import Tensor

from remnant.memory import Memory
from remnant.replacement import Candidates, pick


def partitioned(memory: Memory, candidates: Candidates, offered: Tensor, uniforms: Tensor) -> Tensor:
    """Return a slot for each candidate, -1 for those that stay out, (k,); count them in `offered` (C,).

    The n-th candidate of a class is accepted with probability min(1, m / n), where m is the part of a
    class: capacity over classes offered so far. A class is drawn by softmax(stored - m), and its row of
    the highest loss leaves, the first one among equals. While a slot is free, every new row gets one. A
    row that is stored already stays as it is. Each candidate owns two uniforms (k, 2): accept, class.
    """
    stored = memory.rows()
    y, id, loss = stored.y.tolist(), stored.id.tolist(), memory.loss[: len(memory)].tolist()
    slots = []
    for i, (label, row) in enumerate(zip(candidates.y.tolist(), candidates.id.tolist(), strict=True)):
        offered[label] += 1
        part = memory.capacity / int((offered > 0).sum())
        accept, group = uniforms[i].tolist()
        is_free = len(y) < memory.capacity
        if row in id or not (is_free or accept * int(offered[label]) < part):
            slots.append(-1)
            continue
        slot = len(y) if is_free else doubtful(y, loss, group)
        place = slice(slot, slot + 1)  # which may be the end
        y[place], id[place], loss[place] = [label], [row], [float(candidates.loss[i])]
        slots.append(slot)
    memory.candidates += len(slots)
    return torch.tensor(slots, dtype=torch.long)


def doubtful(y: list[int], loss: list[float], uniform: float) -> int:
    """Return the slot of the highest loss in a class drawn by softmax of its number of rows.

    The part of a class is the same for all, so it does not change the softmax.

    >>> [doubtful([3, 3, 3, 5], [0.2, 0.9, 0.1, 0.4], u) for u in (0.0, 0.88, 0.89)]  # e^2 to 1
    [1, 1, 3]
    """
    labels = sorted(set(y))
    count = torch.tensor([y.count(label) for label in labels], dtype=torch.float64)
    chosen = labels[pick(count.softmax(0), uniform)]
    slots = [slot for slot, label in enumerate(y) if label == chosen]
    return max(slots, key=lambda slot: loss[slot])
