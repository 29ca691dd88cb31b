"""Partitioning reservoir sampling: classes have equal quotas, and doubtful labels are evicted first.

k candidates, C classes, M slots. The score of a sample is the probability that its label is noisy.
"""

import torch
from torch import Tensor

from remnant.buffer import Buffer, Candidates, pick


def partitioned(
    buffer: Buffer, score: Tensor, candidates: Candidates, offered: Tensor, uniforms: Tensor
) -> Tensor:
    """Return a slot for each candidate, -1 for those that are discarded, (k,); count them in `offered` (C,).

    The n-th candidate of a class is accepted with probability min(1, m / n), where the quota m is the
    capacity divided by the number of classes offered so far. A class is drawn by softmax(stored - m), and
    its sample with the highest score (M,) is evicted, the first one in case of ties. While a slot is free,
    every new sample is inserted. A sample that is already stored is discarded. Each candidate has two
    uniforms (k, 2): acceptance and class.
    """
    stored = buffer.samples()
    y, id, scores = stored.y.tolist(), stored.id.tolist(), score[: len(buffer)].tolist()
    slots = []
    for i, (label, sample) in enumerate(zip(candidates.y.tolist(), candidates.id.tolist(), strict=True)):
        offered[label] += 1
        quota = buffer.capacity / int((offered > 0).sum())
        accept, group = uniforms[i].tolist()
        is_free = len(y) < buffer.capacity
        if sample in id or not (is_free or accept * int(offered[label]) < quota):
            slots.append(-1)
            continue
        slot = len(y) if is_free else doubtful(y, scores, group)
        place = slice(slot, slot + 1)  # a slot at the end is appended
        y[place], id[place], scores[place] = [label], [sample], [float(candidates.loss[i])]
        slots.append(slot)
    return torch.tensor(slots, dtype=torch.long)


def doubtful(y: list[int], scores: list[float], uniform: float) -> int:
    """Return the slot with the highest score in a class that is drawn by softmax of the class sizes.

    The quota is the same for all classes, so it does not change the softmax.

    >>> [doubtful([3, 3, 3, 5], [0.2, 0.9, 0.1, 0.4], u) for u in (0.0, 0.88, 0.89)]  # odds e^2 : 1
    [1, 1, 3]
    """
    labels = sorted(set(y))
    count = torch.tensor([y.count(label) for label in labels], dtype=torch.float64)
    chosen = labels[pick(count.softmax(0), uniform)]
    slots = [slot for slot, label in enumerate(y) if label == chosen]
    return max(slots, key=lambda slot: scores[slot])
