"""Losses of steps, which are read from a GPU in groups: reading one waits for all that is being computed."""

from typing import NamedTuple

import torch
from torch import Tensor

from remnant.errors import Diverged

READ_EVERY = 32  # steps


class StepLoss(NamedTuple):
    """The mean loss of the samples of a step."""

    kind: str  # of work
    loss: float
    samples: int


class Losses:
    """The losses of the steps since the last reading."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}  # loss that was read, by kind of work
        self._waiting: list[tuple[str, float | Tensor, int]] = []

    def add(self, kind: str, loss: float | Tensor | None, samples: int) -> None:
        """Add the loss of a step: a tensor if it is not read yet, None if nothing was trained."""
        if loss is not None:
            self._waiting.append((kind, loss, samples))

    @property
    def are_due(self) -> bool:
        """Whether losses have to be read: they are known, or there are many."""
        return bool(self._waiting) and (
            not isinstance(self._waiting[-1][1], Tensor) or len(self._waiting) >= READ_EVERY
        )

    def read(self) -> list[StepLoss]:
        """Return the losses in the order of the steps; raise Diverged if one is not finite."""
        waiting, self._waiting = self._waiting, []
        tensors = [loss for _, loss, _ in waiting if isinstance(loss, Tensor)]
        values = iter(torch.stack(tensors).tolist() if tensors else [])
        read = [StepLoss(k, next(values) if isinstance(v, Tensor) else v, n) for k, v, n in waiting]
        for kind, loss, _ in read:
            if not -torch.inf < loss < torch.inf:
                raise Diverged(f"the loss became {loss}")
            self.last[kind] = loss
        return read
