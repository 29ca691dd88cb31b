"""A fixed number of rows kept from the stream. It knows where rows are, not who deserves a place.

M rows of capacity, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.stream import Batch

NEVER = -(1 << 62)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows drawn for replay."""

    x: Tensor  # (B, *shape)
    y: Tensor  # (B,)
    logits: Tensor  # (B, C), or (B, 0) where the memory keeps none


class Memory:
    """Rows with their observed labels, and what is known of each: task, loss, logits."""

    def __init__(
        self,
        capacity: int,
        shape: tuple[int, ...],
        dtype: torch.dtype = torch.uint8,
        logits: int = 0,
    ) -> None:
        self.capacity = capacity
        self.size = 0
        self.candidates = 0  # how many were ever offered
        self.clock = 0  # steps in which the memory could change
        self.x = torch.zeros(capacity, *shape, dtype=dtype)
        self.y = torch.full((capacity,), -1)
        self.id = torch.full((capacity,), -1)
        self.task = torch.full((capacity,), -1)  # in which the row was stored
        self.loss = torch.full((capacity,), torch.nan, dtype=torch.float64)  # as last measured
        self.measured = torch.full((capacity,), NEVER)  # the clock when it was
        self.logits = torch.full((capacity, logits), torch.nan)

    def __len__(self) -> int:
        return self.size

    def put(
        self, slots: Tensor, rows: Batch, task: int, loss: Tensor | None = None,
        logits: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Write row i at slots[i]; -1 drops it, slot len(self) appends. What is not given is unknown."""
        # A slot named twice keeps its last row: candidates come one after another.
        last = {slot: i for i, slot in enumerate(slots.tolist()) if slot >= 0}
        if not last:
            return
        at, i = torch.tensor(list(last)), torch.tensor(list(last.values()))
        self.x[at], self.y[at], self.id[at] = rows.x[i], rows.y[i], rows.id[i]
        self.task[at], self.loss[at] = task, torch.nan if loss is None else loss[i]
        self.measured[at] = torch.where(self.loss[at].isnan(), NEVER, self.clock)
        if self.logits.shape[1]:
            self.logits[at] = torch.nan if logits is None else logits[i].to(self.logits)
        self.size = max(self.size, int(at.max()) + 1)

    def drop(self, id: Tensor) -> None:
        """Take these rows out, where they are stored; the others close up."""
        keep = torch.nonzero(~torch.isin(self.id[: self.size], id)).flatten()
        for value in self._columns().values():
            value[: len(keep)] = value[keep]
        self.size = len(keep)

    def make_room(self, rows: int) -> None:
        """Grow, so that so many more rows fit."""
        missing = self.size + rows - self.capacity
        if missing > 0:
            self.capacity += max(self.capacity, missing)
            for name, value in self._columns().items():
                more = value.new_zeros(self.capacity - len(value), *value.shape[1:])
                setattr(self, name, torch.cat([value, more]))

    def _columns(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def rows(self) -> Batch:
        """Return all that is stored."""
        return Batch(self.x[: self.size], self.y[: self.size], self.id[: self.size])

    def draw(self, count: int, rng: torch.Generator) -> Drawn:
        """Draw up to `count` different rows uniformly."""
        rows = torch.randperm(self.size, generator=rng)[:count]
        return Drawn(self.x[rows], self.y[rows], self.logits[rows])

    def expire(self) -> None:
        """Let no measured loss be used again."""
        self.measured.fill_(NEVER)

    def state_dict(self) -> dict[str, Tensor | int]:
        """Return everything that changes."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Tensor | int]) -> None:
        """Go on from a saved state."""
        for name, value in state.items():
            setattr(self, name, value)
