"""Reservoir sampling with pluggable eviction: uniform, LASS and ABS (Sec. 3.2; Alg. 1 lines 4, 9, 10).

Three random numbers are drawn for every candidate, used or not: acceptance, group, victim. Acceptance does
not depend on any loss, so it is decided first: a step without an accepted candidate needs no forward
pass. The group (current or past tasks) is chosen next, so that losses are measured in that group only.
M slots, k candidates.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.buffer.base import Choice
from remnant.buffer.eviction import Draft, Victim, uniform_victim
from remnant.settings import setting


@dataclass(frozen=True)
class Reservoir:
    """The n-th candidate is accepted with probability M / n; `victim` chooses the sample it replaces.

    n counts candidates, not samples of the stream, and includes candidates that are already stored.
    While a slot is free, every new sample is inserted.
    """

    victim: Victim = uniform_victim
    allow_duplicates: bool = setting(False, "whether a sample may be stored twice")

    @property
    def needs_loss(self) -> bool:
        """Whether the losses of candidates are used."""
        return self.victim is not uniform_victim

    def __call__(self, choice: Choice) -> Tensor:
        """Return a slot for each candidate, -1 for those that are discarded."""
        count, buffer, before = len(choice.uniforms), choice.buffer, choice.state.get("candidates", 0)
        is_accepted = choice.uniforms[:, 0] * (before + torch.arange(1, count + 1)) < buffer.capacity
        choice.state["candidates"] = before + count
        slots = torch.full((count,), -1)
        if not count or (len(buffer) == buffer.capacity and not is_accepted.any()):
            return slots
        candidates, draft = choice.offer(), Draft(choice)
        for i, id in enumerate(candidates.id.tolist()):
            is_free = draft.size < buffer.capacity
            if not (is_free or is_accepted[i]) or (id in draft.id and not self.allow_duplicates):
                continue
            _, group, victim = choice.uniforms[i].tolist()
            slots[i] = draft.size if is_free else self.victim(draft, group, victim)
            draft.put(int(slots[i]), id, candidates.y[i], candidates.loss[i])
        return slots
