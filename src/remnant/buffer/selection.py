"""Sample selection: which samples of a batch are inserted into the buffer, and in which slots (Sec. 3.2).

Selection decides before the step (Alg. 1 line 4) and is applied after it (lines 9 and 10). Losses are
computed only when needed: a batch without an accepted candidate needs no forward pass. B samples of the
stream, k candidates, M slots.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from remnant.buffer.base import Candidates, Choice, Replacement, needs_loss
from remnant.buffer.buffer import Buffer, written
from remnant.buffer.insertion import Insertion
from remnant.buffer.scoring import Scores, Scoring
from remnant.data.dataset import Transform
from remnant.engine.inference import Embedding, cross_entropy, embed, predict, predict_stored
from remnant.stream import Batch


@dataclass(frozen=True, eq=False)
class Scorer:
    """The network that measures losses, on un-augmented samples in eval mode."""

    net: nn.Module
    transform: Transform
    rank: Callable[[Tensor, Tensor], Tensor]  # (logits, y) -> loss of each sample, as in training


@dataclass(frozen=True, eq=False)
class Decision:
    """The candidates of a batch and their slots."""

    positions: Tensor  # (k,) in the batch
    slots: Tensor  # (k,) -1: discarded
    loss: Tensor  # (k,) NaN if it was not measured


_NONE = torch.empty(0, dtype=torch.long)
NO_DECISION = Decision(_NONE, _NONE, _NONE.double())


class Selection:
    """Sample selection for one buffer, with the state of its policies."""

    def __init__(
        self, insertion: Insertion, replacement: Replacement, scoring: Scoring, buffer: Buffer
    ) -> None:
        self.insertion, self.replacement, self.buffer = insertion, replacement, buffer
        self.scores, self.limit = Scores(buffer.capacity), scoring.limit(buffer.capacity)
        self.policy: dict[str, Any] = {}  # state of the replacement policy

    def decide(self, batch: Batch, task: int, scorer: Scorer, rng: torch.Generator) -> Decision:
        """Decide which samples to insert, by the losses of the current network."""
        self.scores.clock += 1
        shape = (self.insertion.count(len(batch)), 3)
        uniforms = torch.rand(shape, generator=rng, dtype=torch.float64)
        view = _Measured(self, batch, scorer)
        slots = self.replacement(
            Choice(self.buffer, task, uniforms, self.policy, lambda: view.candidates, view.losses)
        )
        if (slots < 0).all():
            return NO_DECISION
        return Decision(view.candidates.positions, slots, view.candidates.loss)

    def replace(self, decision: Decision, inserted: Batch, task: int, logits: Tensor | None) -> None:
        """Write the inserted samples to the buffer, with `logits` (B, C) of the batch if it stores them."""
        chosen = None if logits is None else logits[decision.positions]
        self.buffer.put(decision.slots, inserted, task, chosen)
        slots, i = written(decision.slots)
        self.scores.store(slots, decision.loss[i])

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state, except the buffer."""
        return {"scores": self.scores.state_dict(), "policy": dict(self.policy)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.scores.load_state_dict(state["scores"])
        self.policy = dict(state["policy"])


class _Measured:
    """Losses and features of one batch and of the buffer, computed on first use."""

    def __init__(self, selection: Selection, batch: Batch, scorer: Scorer) -> None:
        self.selection, self.batch, self.scorer = selection, batch, scorer

    @cached_property
    def candidates(self) -> Candidates:
        """The candidates of the batch, ranked by the training loss and stored with the unmasked loss."""
        selection, batch, scorer = self.selection, self.batch, self.scorer
        if not (selection.insertion.needs_loss or needs_loss(selection.replacement)):
            unknown = torch.full((len(batch),), torch.nan, dtype=torch.float64)
            chosen = selection.insertion.choose(unknown)
            return Candidates(chosen, batch.y[chosen].cpu(), batch.id[chosen], unknown[chosen], self.embed)
        logits = predict(scorer.net, batch.x, scorer.transform.plain)
        chosen = selection.insertion.choose(scorer.rank(logits, batch.y).cpu())
        y = batch.y[chosen]
        return Candidates(chosen, y.cpu(), batch.id[chosen], cross_entropy(logits[chosen], y), self.embed)

    def losses(self, slots: Tensor) -> Tensor:
        """Return the losses of stored samples, measured again if they are outdated."""
        return self.selection.scores.of(slots, self.selection.limit, self._measure)

    def _measure(self, slots: Tensor) -> Tensor:
        buffer = self.selection.buffer
        logits = predict_stored(self.scorer.net, buffer.x, slots, self.scorer.transform.plain)
        return cross_entropy(logits, buffer.y[slots])

    def embed(self) -> Embedding:
        """Return the features of all stored samples, then of the candidates."""
        stored, new = self.selection.buffer.samples(), self.batch[self.candidates.positions]
        x, y = torch.cat([stored.x, new.x]), torch.cat([stored.y, new.y])
        return embed(self.scorer.net, x, y, self.scorer.transform.plain)
