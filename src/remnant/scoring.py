"""How old the measured loss of a memory row may be (Alg. 1 line 4).

The paper measures the whole memory for each batch. A loss matters only when an accepted candidate must
evict somebody, so it is measured only then, and only for the rows among which the victim is drawn.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from remnant.memory import Memory

Measure = Callable[[Tensor], Tensor]  # slots -> losses, by the network as it is now


@dataclass(frozen=True)
class Scoring:
    """Losses are measured again after `refresh_every` steps in which the memory could change."""

    refresh_every: int = 0  # 1 is the paper; 0 is capacity / 32: one forward per stream row at most

    def __post_init__(self) -> None:
        if self.refresh_every < 0:
            raise ValueError(f"refresh_every is a number of steps, got {self.refresh_every}")

    def losses(self, memory: Memory, slots: Tensor, measure: Measure) -> Tensor:
        """Return the losses of these slots, measuring those that are too old."""
        limit = self.refresh_every or math.ceil(memory.capacity / 32)
        old = slots[memory.clock - memory.measured[slots] >= limit]
        if len(old):
            memory.loss[old] = measure(old).to(memory.loss)
            memory.measured[old] = memory.clock
        return memory.loss[slots]


SCORINGS: dict[str, Scoring] = {"lazy": Scoring()}
