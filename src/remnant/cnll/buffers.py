"""What CNLL does to its buffers: offer rows, put two together."""

import torch

from remnant.memory import Memory
from remnant.replacement import Candidates, Reservoir
from remnant.stream import Batch


def offer(memory: Memory, rows: Batch, task: int, rng: torch.Generator) -> None:
    """Store rows while there is room, then by reservoir sampling; none is stored twice."""
    unknown = torch.full((len(rows),), torch.nan, dtype=torch.float64)
    candidates = Candidates(torch.arange(len(rows)), rows.y, rows.id, unknown)
    uniforms = torch.rand(len(rows), 3, generator=rng, dtype=torch.float64)
    slots = Reservoir()(memory, lambda: candidates, lambda slots: unknown[slots], task, uniforms)
    memory.put(slots, rows, task)


def joined(first: Batch, second: Batch) -> Batch:
    """Return the rows of both."""
    return Batch(
        torch.cat([first.x, second.x]), torch.cat([first.y, second.y]), torch.cat([first.id, second.id])
    )
