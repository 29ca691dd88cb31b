"""What CNLL does to its buffers: offer rows, make room, put two together."""

import torch
from torch import Tensor

from remnant.memory import Memory
from remnant.replacement import Candidates, Reservoir
from remnant.stream import Batch


def offer(memory: Memory, rows: Batch, task: int, rng: torch.Generator) -> None:
    """Store rows while there is room, then by reservoir sampling; none is stored twice."""
    unknown = torch.full((len(rows),), torch.nan, dtype=torch.float64)
    candidates = Candidates(torch.arange(len(rows)), rows.y, rows.id, unknown)
    uniforms = torch.rand(len(rows), 3, generator=rng, dtype=torch.float64)
    slots = Reservoir()(memory, lambda: candidates, lambda slots: unknown[slots], task, uniforms)
    memory.put(slots, rows, task, unknown, torch.empty(len(rows), 0))


def roomy(memory: Memory, rows: int) -> Memory:
    """Return the memory if it has room for so many more rows, or a larger one with the same rows."""
    if len(memory) + rows <= memory.capacity:
        return memory
    capacity = max(2 * memory.capacity, len(memory) + rows)
    larger = Memory(capacity, tuple(memory.x.shape[1:]), memory.x.dtype)
    for name, value in vars(memory).items():
        if isinstance(value, Tensor):
            getattr(larger, name)[: len(value)] = value
        elif name != "capacity":
            setattr(larger, name, value)
    return larger


def joined(first: Batch, second: Batch) -> Batch:
    """Return the rows of both."""
    return Batch(
        torch.cat([first.x, second.x]), torch.cat([first.y, second.y]), torch.cat([first.id, second.id])
    )
