"""The interface of replacement policies, which return a slot for each candidate, or -1 to discard it.

M slots, k candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from remnant.buffer.buffer import Buffer
from remnant.engine.inference import Embedding


def no_embedding() -> Embedding:
    """Raise LookupError; for callers whose policy does not use features."""
    raise LookupError("features are not available for this buffer")


@dataclass(frozen=True, eq=False)
class Candidates:
    """Samples of a batch that may be inserted; all tensors are on the CPU."""

    positions: Tensor  # (k,) in the batch
    y: Tensor  # (k,) observed labels
    id: Tensor  # (k,)
    loss: Tensor  # (k,) unmasked, or NaN if it was not needed
    embed: Callable[[], Embedding] = no_embedding  # features of all stored samples, then the candidates


@dataclass(frozen=True, eq=False)
class Choice:
    """The input of a replacement policy: the candidates of one batch and the current buffer."""

    buffer: Buffer
    task: int
    uniforms: Tensor  # (k, 3) uniform random numbers for each candidate: acceptance, group, victim
    state: dict[str, Any]  # the policy's own counters, saved with the run
    offer: Callable[[], Candidates]  # needs a forward pass over the batch: call it only if required
    losses: Callable[[Tensor], Tensor]  # slots -> losses; needs a forward pass over these samples


# A policy returns a slot for each candidate, -1 for those that are discarded, (k,), and modifies only
# its own state. If it has an attribute `needs_loss = False`, the losses of candidates are not computed.
Replacement = Callable[[Choice], Tensor]


def needs_loss(replacement: Replacement) -> bool:
    """Return whether a replacement policy uses the losses of candidates."""
    return bool(getattr(replacement, "needs_loss", True))
