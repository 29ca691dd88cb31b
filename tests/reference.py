"""Literal twins of the fast code: slow on purpose, from the definitions, nothing imported from it.

`B` rows of a batch, `M` rows in memory, `C` classes, `D` features. Everything is float64. The twin
measures every row of the memory in every writing step and tosses the coins last; the fast code
tosses them first and measures what they ask for. Both must fill the same slots.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

FloatArray = np.ndarray


def allowed_classes(y: Sequence[int], seen: set[int], classes: int) -> list[int]:
    """Classes in this batch, and classes never seen; `seen` already holds this batch's."""
    return [c for c in range(classes) if c in set(y) or c not in seen]


def row_loss(logits: Sequence[float], label: int, allowed: Sequence[int]) -> float:
    """`-log softmax` at the label, the softmax taken over the allowed classes only."""
    top = max(logits[c] for c in allowed)
    return top + math.log(sum(math.exp(logits[c] - top) for c in allowed)) - logits[label]


def cross_entropy(logits: FloatArray, y: Sequence[int]) -> list[float]:
    """Loss of each row, `(B, C)` and `(B,)` to `B` numbers."""
    everything = range(logits.shape[1])
    return [row_loss(row, label, everything) for row, label in zip(logits.tolist(), y, strict=True)]


def ace_loss(logits: FloatArray, y: Sequence[int], seen: set[int]) -> list[float]:
    """The same over the allowed classes: the asymmetric cross-entropy of a stream batch."""
    allowed = allowed_classes(y, seen, logits.shape[1])
    return [row_loss(row, label, allowed) for row, label in zip(logits.tolist(), y, strict=True)]


def mean_loss_gradient(
    x: FloatArray, logits: FloatArray, y: Sequence[int], allowed: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Of the mean loss, for weight and bias: `softmax - onehot`; masked classes get nothing."""
    slope = np.zeros_like(logits)
    for i, label in enumerate(y):
        top = max(logits[i, c] for c in allowed)
        total = sum(math.exp(logits[i, c] - top) for c in allowed)
        for c in allowed:
            slope[i, c] = math.exp(logits[i, c] - top) / total
        slope[i, label] -= 1.0
    return slope.T @ x / len(y), slope.sum(axis=0) / len(y)


def insertion(losses: Sequence[float], alpha: float) -> list[int]:
    """The `round((1 - alpha) * B)` smallest losses, as positions in batch order."""
    keep = round((1 - alpha) * len(losses))
    smallest_first = sorted(range(len(losses)), key=lambda i: losses[i])
    return sorted(smallest_first[:keep])


def normalise(weights: Sequence[float]) -> list[float]:
    """Weights to probabilities; all equal, all zero too, is uniform."""
    if all(w == weights[0] for w in weights):
        return [1.0 / len(weights)] * len(weights)
    total = sum(weights)
    return [w / total for w in weights]


def past_weights(losses: Sequence[float]) -> list[float]:
    """The reversed score: low loss leaves, the hardest of the past never does."""
    return [max(losses) - loss for loss in losses]


def uniform_probabilities(size: int) -> list[float]:
    """Reservoir: every slot alike."""
    return [1.0 / size] * size


def lass_probabilities(losses: Sequence[float]) -> list[float]:
    """LASS: the loss itself over all slots."""
    return normalise(losses)


def abs_probabilities(losses: Sequence[float], is_current: Sequence[bool]) -> list[float]:
    """ABS: share of the slot's group, times the slot's probability inside the group."""
    probabilities = [0.0] * len(losses)
    for current in (True, False):
        group = [i for i, c in enumerate(is_current) if c == current]
        if not group:
            continue
        own = [losses[i] for i in group]
        inside = normalise(own if current else past_weights(own))
        for i, p in zip(group, inside, strict=True):
            probabilities[i] = len(group) / len(losses) * p
    return probabilities


def inverse_distribution(probabilities: Sequence[float], u: float) -> int:
    """First position whose cumulative probability exceeds `u`."""
    cumulative = 0.0
    for i, p in enumerate(probabilities):
        cumulative += p
        if u < cumulative:
            return i
    # The probabilities summed to a hair under one: the last that can be chosen at all.
    return max(i for i, p in enumerate(probabilities) if p > 0)


def victim(
    kind: str,
    losses: Sequence[float],
    is_current: Sequence[bool],
    u_group: float,
    u_victim: float,
) -> int:
    """The slot that leaves a full memory, from two uniforms."""
    if kind == "reservoir":
        return math.floor(u_victim * len(losses))
    if kind == "lass":
        return inverse_distribution(lass_probabilities(losses), u_victim)
    current = u_group < sum(is_current) / len(losses)
    group = [i for i, c in enumerate(is_current) if c == current]
    own = [losses[i] for i in group]
    inside = normalise(own if current else past_weights(own))
    return group[inverse_distribution(inside, u_victim)]


@dataclass
class Row:
    """One slot: where it comes from, what it holds, and its loss now."""

    id: int
    task: int
    loss: float
    x: FloatArray | None = None
    y: int = 0


@dataclass
class LiteralMemory:
    """Slots in order, and the number of candidates ever offered."""

    capacity: int
    rows: list[Row] = field(default_factory=list)
    offered: int = 0


def offer(
    memory: LiteralMemory,
    candidates: Sequence[Row],
    kind: str,
    uniforms: Sequence[Sequence[float]],
) -> None:
    """One candidate after another; each owns three uniforms: accept, group, victim."""
    for candidate, (u_accept, u_group, u_victim) in zip(candidates, uniforms, strict=True):
        memory.offered += 1
        if any(row.id == candidate.id for row in memory.rows):
            continue
        if len(memory.rows) < memory.capacity:
            memory.rows.append(candidate)
        elif u_accept * memory.offered < memory.capacity:
            losses = [row.loss for row in memory.rows]
            is_current = [row.task == candidate.task for row in memory.rows]
            memory.rows[victim(kind, losses, is_current, u_group, u_victim)] = candidate


@dataclass(frozen=True)
class Options:
    """What the literal learner is told; `period` None is replay and writing in every epoch."""

    capacity: int
    batch: int
    lr: float
    epochs: int
    ace: bool = True
    period: int | None = 2
    alpha: float = 0.75
    kind: str = "abs"


class LiteralLearner:
    """Algorithm 1 for softmax regression, `logits = x @ weight.T + bias`, with plain SGD."""

    def __init__(
        self,
        options: Options,
        weights: tuple[FloatArray, FloatArray],
        order: torch.Generator,
        draws: torch.Generator,
    ) -> None:
        self.options = options
        self.weight, self.bias = (w.copy() for w in weights)
        self.order, self.draws = order, draws
        self.memory = LiteralMemory(options.capacity)
        self.seen: set[int] = set()
        self.measured = 0  # rows forwarded only to know their loss

    def learn(self, task: int, ids: FloatArray, x: FloatArray, y: FloatArray) -> Iterator[bool]:
        """Yield at the end of every epoch, before a forgetting epoch is undone."""
        for epoch in range(self.options.epochs):
            forget = self.forgets(epoch)
            always = self.options.period is None
            saved = self.weight.copy(), self.bias.copy()
            rows = torch.randperm(len(ids), generator=self.order)
            for part in rows.tensor_split(math.ceil(len(ids) / self.options.batch)):
                batch = [Row(int(ids[i]), task, math.nan, x[i], int(y[i])) for i in part.tolist()]
                self.step(batch, replay=always or not forget, write=always or forget)
            yield forget
            if forget:
                self.weight, self.bias = saved

    def forgets(self, epoch: int) -> bool:
        """Every `period`-th epoch from the first, but never the last."""
        period, last = self.options.period, self.options.epochs - 1
        return period is not None and epoch % period == 0 and epoch < last

    def step(self, batch: list[Row], replay: bool, write: bool) -> None:
        """Mark the classes, measure, train with the memory as it was, and only then write."""
        self.seen |= {row.y for row in batch}
        candidates: list[Row] = []
        uniforms: list[list[float]] = []
        if write:
            candidates = self.candidates(batch)
            uniforms = self.uniforms(len(candidates))
            self.measure(self.memory.rows)
        drawn: list[Row] = []
        if replay and self.memory.rows:
            shuffled = torch.randperm(len(self.memory.rows), generator=self.draws)
            drawn = [self.memory.rows[i] for i in shuffled[: self.options.batch].tolist()]
        self.descend(batch, drawn)
        offer(self.memory, candidates, self.options.kind, uniforms)

    def candidates(self, batch: list[Row]) -> list[Row]:
        """Ranked by the loss that is trained on; the score they carry is the unmasked one."""
        self.measure(batch)
        ranking = [row.loss for row in batch]
        if self.options.ace:
            ranking = ace_loss(self.logits(batch), [row.y for row in batch], self.seen)
        return [batch[i] for i in insertion(ranking, self.options.alpha)]

    def uniforms(self, count: int) -> list[list[float]]:
        """Accept, group and victim of each candidate."""
        return torch.rand((count, 3), generator=self.draws, dtype=torch.float64).tolist()

    def measure(self, rows: list[Row]) -> None:
        """Unmasked loss of each row under the weights of now."""
        self.measured += len(rows)
        if rows:
            losses = cross_entropy(self.logits(rows), [row.y for row in rows])
            for row, loss in zip(rows, losses, strict=True):
                row.loss = loss

    def logits(self, rows: list[Row]) -> FloatArray:
        """`(B, C)`."""
        return np.stack([row.x for row in rows]) @ self.weight.T + self.bias

    def descend(self, batch: list[Row], drawn: list[Row]) -> None:
        """One step of SGD on the mean over the stream plus the mean over the replayed rows."""
        everything = range(len(self.bias))
        labels = [row.y for row in batch]
        open_classes = allowed_classes(labels, self.seen, len(self.bias))
        parts = [(batch, open_classes if self.options.ace else everything)]
        if drawn:
            parts.append((drawn, everything))
        gradients = [
            mean_loss_gradient(
                np.stack([row.x for row in rows]), self.logits(rows), [row.y for row in rows], open_
            )
            for rows, open_ in parts
        ]
        for slope_weight, slope_bias in gradients:
            self.weight = self.weight - self.options.lr * slope_weight
            self.bias = self.bias - self.options.lr * slope_bias
