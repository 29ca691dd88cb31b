"""Losses of stored samples: when they are measured, and how long a measured loss is used (Alg. 1 line 4).

The paper measures the whole buffer for each batch. A loss is needed only when an accepted candidate must
replace a stored sample, so it is measured only then, and only for the samples that may be evicted. M
slots.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from remnant.engine.state import restore
from remnant.settings import setting

NEVER = -(1 << 62)
Measure = Callable[[Tensor], Tensor]  # slots -> losses by the current network


@dataclass(frozen=True)
class Scoring:
    """Losses of stored samples are measured again after `refresh_every` writing steps."""

    refresh_every: int = setting(
        0, "writing steps for which a measured loss is reused; 1: as in the paper; 0: buffer size / 32"
    )

    def __post_init__(self) -> None:
        if self.refresh_every < 0:
            raise ValueError(f"expected refresh_every >= 0, a number of steps, got {self.refresh_every}")

    def limit(self, capacity: int) -> int:
        """Return the age at which a loss is measured again.

        By default this costs at most one forward pass per sample of the stream.
        """
        return self.refresh_every or math.ceil(capacity / 32)


SCORINGS: dict[str, Scoring] = {"lazy": Scoring()}


class Scores:
    """The last measured loss of each slot, with its age."""

    def __init__(self, capacity: int) -> None:
        self.clock = 0  # number of writing steps so far
        self.loss = torch.full((capacity,), torch.nan, dtype=torch.float64)
        self.measured = torch.full((capacity,), NEVER)  # the clock at the last measurement

    def of(self, slots: Tensor, limit: int, measure: Measure) -> Tensor:
        """Return the losses of these slots, after measuring those that are `limit` steps old or older."""
        old = slots[self.clock - self.measured[slots] >= limit]
        if len(old):
            self.store(old, measure(old))
        return self.loss[slots]

    def store(self, slots: Tensor, loss: Tensor) -> None:
        """Set the losses of these slots; NaN means not measured."""
        self.loss[slots] = loss.to(self.loss)
        self.measured[slots] = torch.where(self.loss[slots].isnan(), NEVER, self.clock)

    def expire(self) -> None:
        """Mark all losses as outdated."""
        self.measured.fill_(NEVER)

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        restore(self, state)
