"""Operations on the buffers of CNLL: insert by reservoir sampling, concatenate."""

from typing import Any

import torch

from remnant.buffer import Buffer, Candidates, Choice, Reservoir
from remnant.stream import Batch


def insert(buffer: Buffer, state: dict[str, Any], samples: Batch, task: int, rng: torch.Generator) -> None:
    """Store samples while slots are free, then by reservoir sampling; no sample is stored twice."""
    unknown = torch.full((len(samples),), torch.nan, dtype=torch.float64)
    candidates = Candidates(torch.arange(len(samples)), samples.y.cpu(), samples.id, unknown)
    uniforms = torch.rand(len(samples), 3, generator=rng, dtype=torch.float64)
    choice = Choice(buffer, task, uniforms, state, lambda: candidates, lambda slots: unknown[slots])
    buffer.put(Reservoir()(choice), samples, task)


def joined(first: Batch, second: Batch) -> Batch:
    """Return the samples of both batches."""
    return Batch(
        torch.cat([first.x, second.x]), torch.cat([first.y, second.y]), torch.cat([first.id, second.id])
    )
