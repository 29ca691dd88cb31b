"""The replay buffer, which stores samples of the stream. Policies decide which samples it holds.

M slots, B samples in a batch, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.engine.state import restore
from remnant.stream import Batch


@dataclass(frozen=True, eq=False)
class ReplayBatch:
    """Samples drawn from the buffer for replay."""

    x: Tensor  # (B, *shape)
    y: Tensor  # (B,)
    logits: Tensor  # (B, C), or (B, 0) if the buffer stores none


class Buffer:
    """Samples with their observed labels, the task in which each was stored, and optionally its logits.

    Inputs, labels and logits are on the device; ids and tasks, by which policies decide, are on the CPU.
    """

    def __init__(
        self,
        capacity: int,
        shape: tuple[int, ...],
        dtype: torch.dtype = torch.uint8,
        logits: int = 0,
        device: torch.device | None = None,
    ) -> None:
        """Allocate all slots; `logits` is the number of logits to store with each sample."""
        self.capacity = capacity
        self.size = 0
        self.changes = 0  # number of times that samples were written or removed; not part of the state
        self.x = torch.zeros(capacity, *shape, dtype=dtype, device=device)
        self.y = torch.full((capacity,), -1, device=device)
        self.id = torch.full((capacity,), -1)
        self.task = torch.full((capacity,), -1)  # the task in which each sample was stored
        self.logits = torch.full((capacity, logits), torch.nan, device=device)

    def __len__(self) -> int:
        return self.size

    def put(self, slots: Tensor, samples: Batch, task: int, logits: Tensor | None = None) -> None:
        """Write sample i to slots[i]; -1 discards it, len(self) appends it. Missing logits become NaN."""
        at, i = written(slots)
        if not len(at):
            return
        self.x[at], self.y[at], self.id[at] = samples.x[i], samples.y[i], samples.id[i]
        self.task[at] = task
        if self.logits.shape[1]:
            self.logits[at] = torch.nan if logits is None else logits[i].to(self.logits.dtype)
        self.size = max(self.size, int(at.max()) + 1)
        self.changes += 1

    def remove(self, id: Tensor) -> None:
        """Remove the samples with these ids; the remaining ones move to the front."""
        keep = torch.nonzero(~torch.isin(self.id[: self.size], id)).flatten()
        for value in self._columns().values():
            value[: len(keep)] = value[keep]
        self.size = len(keep)
        self.changes += 1

    def reserve(self, samples: int) -> None:
        """Grow the capacity so that this many more samples fit."""
        missing = self.size + samples - self.capacity
        if missing > 0:
            self.capacity += max(self.capacity, missing)
            for name, value in self._columns().items():
                more = value.new_zeros(self.capacity - len(value), *value.shape[1:])
                setattr(self, name, torch.cat([value, more]))

    def _columns(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def samples(self) -> Batch:
        """Return all stored samples."""
        return Batch(self.x[: self.size], self.y[: self.size], self.id[: self.size])

    def draw(self, count: int, rng: torch.Generator) -> ReplayBatch:
        """Draw up to `count` samples uniformly without replacement."""
        slots = torch.randperm(self.size, generator=rng)[:count]
        return ReplayBatch(self.x[slots], self.y[slots], self.logits[slots])

    def state_dict(self) -> dict[str, Tensor | int]:
        """Return the complete state."""
        return {name: value for name, value in vars(self).items() if name != "changes"}

    def load_state_dict(self, state: dict[str, Tensor | int]) -> None:
        """Restore a saved state."""
        restore(self, state | {"changes": self.changes + 1}, varying=self._columns())
        lengths = {len(value) for value in self._columns().values()}
        if lengths != {self.capacity} or not 0 <= self.size <= self.capacity:
            raise ValueError(f"expected {self.size} samples in {self.capacity} slots, found other tensors")


def written(slots: Tensor) -> tuple[Tensor, Tensor]:
    """Return the slots that are written, and the position of the sample written to each.

    A slot that occurs twice keeps its last sample, because samples are inserted one after another.

    >>> [t.tolist() for t in written(torch.tensor([3, -1, 5, 3]))]
    [[3, 5], [3, 2]]
    """
    last = {slot: i for i, slot in enumerate(slots.tolist()) if slot >= 0}
    return torch.tensor(list(last), dtype=torch.long), torch.tensor(list(last.values()), dtype=torch.long)
