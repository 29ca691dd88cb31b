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

    n counts candidates, not samples of the stream, and includes candidates that are already stored. The
    acceptance of a stored candidate passes to the next one of the task that is not stored: if it were
    lost, later tasks, whose samples are offered as often, would get less than their share of the buffer.
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
        count, buffer, state = len(choice.uniforms), choice.buffer, choice.state
        before = state.get("candidates", 0)
        is_accepted = choice.uniforms[:, 0] * (before + torch.arange(1, count + 1)) < buffer.capacity
        waiting = state.get("waiting", 0) if state.get("task") == choice.task else 0
        state.update(candidates=before + count, task=choice.task, waiting=waiting)
        slots = torch.full((count,), -1)
        if not count or (len(buffer) == buffer.capacity and not waiting and not is_accepted.any()):
            return slots
        candidates, draft = choice.offer(), Draft(choice)
        for i, id in enumerate(candidates.id.tolist()):
            is_free = draft.size < buffer.capacity
            state["waiting"] += int(is_accepted[i] and not is_free)
            if (is_free or state["waiting"]) and (self.allow_duplicates or id not in draft.id):
                slots[i] = draft.size if is_free else self._evicted(choice, draft, i)
                draft.put(int(slots[i]), id, candidates.y[i], candidates.loss[i])
        return slots

    def _evicted(self, choice: Choice, draft: Draft, candidate: int) -> int:
        """Return the slot of the sample that a candidate replaces, which uses up an acceptance."""
        choice.state["waiting"] -= 1
        _, group, victim = choice.uniforms[candidate].tolist()
        return self.victim(draft, group, victim)
