"""What self-purified replay can be told."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from remnant.component import expect, tuned
from remnant.protocol import STREAM, Plan, Work

LEAST = 4  # images in a batch: half of it is two, which can be compared
CONSTANT = 10  # steps before the rate begins to fall
EXPERT, BASE, CLASSIFIER = "expert", "base", "classifier"  # its kinds of work


@dataclass(frozen=True, kw_only=True)
class Spr:
    """Two memories: rows wait, are judged without their labels, and what is central goes on."""

    delay: int = 0  # rows of the stream that are judged at once, at most; 0: as many as `buffer`
    purified: int = 0  # rows that are kept; 0: as many as `buffer`
    expert_steps: int = tuned(4000)  # for each full delayed memory of an epoch, spread over all epochs
    base_steps: int = tuned(3000)  # after them, as many times
    batch: int = 0  # images in such a step, each in two views; 0: as many as `buffer`
    lr: float = tuned(3e-4)  # of expert and base
    temperature: float = 0.5  # of the contrastive loss
    features: int = 256  # that are compared
    finetune_epochs: int = tuned(50)  # over the purified memory, at the end of a task
    finetune_batch: int = 16  # rows of the purified memory in a step
    finetune_lr: float = tuned(2e-3)  # of the classifier
    finetune_drop: int = 300  # steps after which that rate falls to a tenth, again and again
    clip: float = 0.5  # largest entry of a gradient then

    def __post_init__(self) -> None:
        counts = ("expert_steps", "base_steps", "features", "finetune_epochs", "finetune_drop")
        expect(
            {f"{name} >= 1": getattr(self, name) >= 1 for name in counts}
            | {
                f"{name} >= 2, or 0": getattr(self, name) >= 2 or not getattr(self, name)
                for name in ("delay", "purified")
            }
            | {
                f"batch >= {LEAST}, or 0": self.batch >= LEAST or not self.batch,
                "finetune_batch >= 3": self.finetune_batch >= 3,  # so that no batch has one row
            }
            | {f"{name} > 0": getattr(self, name) > 0 for name in ("lr", "temperature", "finetune_lr")}
            | {"clip >= 0": self.clip >= 0},
            self,
        )

    def sized(self, buffer: int) -> "Spr":
        """Return the same with the sizes of its memories and batches filled in."""
        return replace(
            self,
            delay=self.delay or buffer,
            purified=self.purified or buffer,
            batch=self.batch or max(LEAST, buffer),
        )

    def budget(self, buffer: int) -> int:
        """Return how many rows its memories may hold together: the paper grants 2 x 500."""
        return 2 * buffer

    def capacity(self, buffer: int) -> int:
        """Return how many rows its memories can hold together."""
        return self.sized(buffer).delay + self.sized(buffer).purified

    def per_fill(self, epochs: int) -> tuple[int, int]:
        """Return the steps of the expert and of the base at each fill: the epochs share them.

        >>> Spr().per_fill(25)  # the paper's
        (160, 120)
        """
        return math.ceil(self.expert_steps / epochs), math.ceil(self.base_steps / epochs)

    def plan(self, rows: Sequence[int], epochs: int, batch: int) -> Plan:
        """Return the steps on tasks of so many rows; sizes are filled in."""
        fills = epochs * sum(math.ceil(n / self.delay) for n in rows)
        expert, base = self.per_fill(epochs)
        tune = len(rows) * self.finetune_epochs * math.ceil(self.purified / self.finetune_batch)
        return {
            STREAM: Work(epochs * sum(math.ceil(n / batch) for n in rows), epochs),
            EXPERT: Work(fills * expert, epochs),
            BASE: Work(fills * base, epochs),
            CLASSIFIER: Work(tune, self.finetune_epochs),
        }

    def rehearsed(self) -> "Spr":
        """Return the same, so short that each kind of work is met soon: to be timed."""
        return replace(self, expert_steps=3, base_steps=3, finetune_epochs=1)

    def rate_of(self, work: str) -> str:
        """Return the setting that says how fast a kind of work learns."""
        return "learner.finetune_lr" if work == CLASSIFIER else "learner.lr"


def annealed(step: int, steps: int, lr: float) -> float:
    """Return a rate that is constant at first and then falls to 0 like a cosine.

    >>> [round(annealed(step, 30, 1.0), 3) for step in (0, 10, 15, 20, 25, 29)]
    [1.0, 1.0, 0.854, 0.5, 0.146, 0.006]
    """
    done = max(0, step - CONSTANT) / max(1, steps - CONSTANT)
    return lr * (1 + math.cos(math.pi * done)) / 2
