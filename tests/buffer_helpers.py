"""Buffers, candidates and choices for tests of the buffer and its policies."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from remnant.buffer.base import Candidates, Choice
from remnant.buffer.buffer import Buffer
from remnant.engine.inference import Embedding
from remnant.stream import Batch


def not_needed(*_: object) -> NoReturn:
    raise AssertionError("this was computed without need")


def samples(ids: Sequence[int], y: Sequence[int] | None = None) -> Batch:
    """Samples whose input is their id; by default all have label 0."""
    id = torch.tensor(ids)
    labels = torch.zeros(len(id), dtype=torch.long) if y is None else torch.tensor(y)
    return Batch((id % 256)[:, None].to(torch.uint8), labels, id)


def buffer_of(tasks: Sequence[int]) -> Buffer:
    """A full buffer with samples 0, 1, 2, ... that were stored in these tasks."""
    buffer, count = Buffer(len(tasks), (1,)), len(tasks)
    buffer.put(torch.arange(count), samples(range(count)), task=0)
    buffer.task[:] = torch.tensor(tasks)
    return buffer


def offer_of(
    ids: Sequence[int],
    losses: Sequence[float] | None = None,
    y: Sequence[int] | None = None,
    embed: Callable[[], Embedding] = not_needed,
) -> Callable[[], Candidates]:
    loss = torch.ones(len(ids)).double() if losses is None else torch.tensor(losses, dtype=torch.float64)
    offered = samples(ids, y)
    return lambda: Candidates(torch.arange(len(ids)), offered.y, offered.id, loss, embed)


def same_uniforms(accept: float, group: float = 0.5, victim: float = 0.5, count: int = 1) -> Tensor:
    return torch.tensor([[accept, group, victim]] * count, dtype=torch.float64)


def choice_of(
    buffer: Buffer,
    uniforms: Tensor,
    offer: Callable[[], Candidates] = not_needed,
    *,
    losses: Callable[[Tensor], Tensor] = not_needed,
    task: int = 0,
    state: dict[str, Any] | None = None,
) -> Choice:
    return Choice(buffer, task, uniforms, {} if state is None else state, offer, losses)
