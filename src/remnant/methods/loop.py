"""The position of a learner in its training: epochs, batches, and the state to resume from any step.

Every learner iterates over a `Loop` and has no counters of its own. Iteration starts at the saved
position: a learner that was saved after a step continues with the next one.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from remnant.engine.state import restore
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import StepDone

T = TypeVar("T")


def even_batches(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """Split samples into the fewest batches of at most `size`, as equal in length as possible.

    Otherwise a last batch of two or three samples would count as a full step, and its unreliable
    statistics would have full weight in BatchNorm.

    >>> [len(batch) for batch in even_batches(torch.arange(67), 32)]
    [23, 22, 22]
    """
    return order.tensor_split(math.ceil(len(order) / size))


class Loop:
    """Nested epochs and steps that can be interrupted after any step.

    `key` identifies what is iterated over, such as the number of the task; a new key restarts the loop.
    Each step must end with `step_done`, which returns its event. State that is saved at this event resumes
    with the next step; state that is saved inside the step, by a nested loop, resumes within it.
    """

    def __init__(self) -> None:
        self.key: int | str = -1
        self.epoch = 0
        self.step = 0  # finished steps of this epoch
        self.steps = 0  # all steps of this epoch
        self.order = torch.empty(0, dtype=torch.long)  # shuffled samples of this epoch; empty between epochs

    def start(self, key: int | str) -> bool:
        """Restart the loop if the key is new; return whether it is."""
        is_new = self.key != key
        if is_new:
            self.key, self.epoch = key, 0
            self._end_epoch()
        return is_new

    def epochs(self, key: int | str, total: int) -> Iterator[int]:
        """Yield the remaining epochs."""
        self.start(key)
        while self.epoch < total:
            yield self.epoch
            self.epoch += 1
            self._end_epoch()

    @property
    def starts_epoch(self) -> bool:
        """Whether the samples of this epoch are not shuffled yet."""
        return not len(self.order)

    def shuffled(self, samples: int, rng: torch.Generator) -> Tensor:
        """Return the order of the samples in this epoch, which is drawn only once."""
        if self.starts_epoch:
            self.order = torch.randperm(samples, generator=rng)
        return self.order

    def batches(self, samples: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
        """Yield the remaining batches of this epoch, as positions of samples."""
        return self.each(even_batches(self.shuffled(samples, rng), size))

    def each(self, parts: Sequence[T]) -> Iterator[T]:
        """Yield the parts of this epoch whose steps are not finished."""
        self.steps = len(parts)
        while self.step < len(parts):
            before = self.step
            yield parts[before]
            if self.step == before:
                raise RuntimeError("expected each step of a loop to end with step_done(); add it to the body")

    def step_done(
        self, task: int, phase: Phase, loss: Tensor | None, samples: int, **details: Any  # noqa: ANN401
    ) -> StepDone:  # fmt: skip
        """Finish a step and return its event; `details` replace fields of `StepDone`.

        A loss on the CPU is read. On another device that would wait for the whole step, so it is left unread.
        """
        self.step += 1
        details = {"epoch": self.epoch, "step": self.step, "steps": self.steps} | details
        value = None
        if loss is not None and loss.device.type != "cpu":
            details["unread"] = loss.detach()
        elif loss is not None:
            value = loss.item()
        return StepDone(task=task, phase=phase, loss=value, samples=samples, **details)

    def _end_epoch(self) -> None:
        self.step, self.order = 0, self.order[:0]

    def state_dict(self) -> dict[str, Any]:
        """Return the position."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved position."""
        self.key = state["key"]  # a number or a name
        restore(self, state, varying=("order",))
        is_shuffled = torch.equal(self.order.sort().values, torch.arange(len(self.order)))
        if not isinstance(self.key, int | str) or min(self.epoch, self.step) < 0 or not is_shuffled:
            raise ValueError(f"expected a position in a loop, found epoch {self.epoch}, step {self.step}")
