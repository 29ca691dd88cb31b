"""NTD (Chen, CVPR workshops 2024). Usage: remnant run --method examples/ntd.py:NTD"""

import torch
from remnant.buffer import Choice, Draft
from remnant.methods import Replay


def evict_from_largest_class(choice: Choice) -> torch.Tensor:
    """Return a slot for each candidate, or -1 to discard it: evict the highest loss of the largest class."""
    candidates, draft = choice.offer(), Draft(choice)
    slots = torch.full_like(candidates.id, -1)
    for i, new in enumerate(candidates.id.tolist()):
        slot = draft.size
        if slot == choice.buffer.capacity:  # full: evict a sample, or discard the candidate itself
            y = torch.cat([draft.y, candidates.y[[i]]])
            loss = torch.cat([draft.losses(torch.arange(slot)), candidates.loss[[i]]])
            slot = int(loss.masked_fill(y != y.mode().values, -torch.inf).argmax())
        if slot < choice.buffer.capacity and new not in draft.id:
            slots[i] = slot
            draft.put(slot, new, candidates.y[i], candidates.loss[i])
    return slots


NTD = Replay(replacement=evict_from_largest_class, about="er; evicts the highest loss of the largest class")
