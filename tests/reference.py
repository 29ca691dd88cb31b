"""Reference implementation of replay with asymmetric balanced sampling: slow and simple.

It follows the definitions and imports nothing from the package. B samples in a batch, C classes, D
features; everything is float64. The reference measures every stored sample in every writing step, and
accepts candidates afterwards. The package accepts first and measures only what is needed. Both must fill
the same slots.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

FloatArray = np.ndarray


def allowed_classes(y: Sequence[int], seen: set[int], classes: int) -> list[int]:
    """Return the classes of this batch and those never seen; `seen` includes the classes of this batch."""
    return [c for c in range(classes) if c in set(y) or c not in seen]


def sample_loss(logits: Sequence[float], label: int, allowed: Sequence[int]) -> float:
    """Return -log softmax at the label; the softmax is over the allowed classes only."""
    top = max(logits[c] for c in allowed)
    return top + math.log(sum(math.exp(logits[c] - top) for c in allowed)) - logits[label]


def cross_entropy(logits: FloatArray, y: Sequence[int]) -> list[float]:
    """Return the loss of each sample, from logits (B, C) and labels (B,)."""
    classes = range(logits.shape[1])
    return [sample_loss(z, label, classes) for z, label in zip(logits.tolist(), y, strict=True)]


def ace_loss(logits: FloatArray, y: Sequence[int], seen: set[int]) -> list[float]:
    """Return the asymmetric cross-entropy of each sample of the stream: only over the allowed classes."""
    allowed = allowed_classes(y, seen, logits.shape[1])
    return [sample_loss(z, label, allowed) for z, label in zip(logits.tolist(), y, strict=True)]


def mean_loss_gradient(
    x: FloatArray, logits: FloatArray, y: Sequence[int], allowed: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Return the gradients of weight and bias: softmax - onehot; masked classes have none."""
    slope = np.zeros_like(logits)
    for i, label in enumerate(y):
        top = max(logits[i, c] for c in allowed)
        total = sum(math.exp(logits[i, c] - top) for c in allowed)
        for c in allowed:
            slope[i, c] = math.exp(logits[i, c] - top) / total
        slope[i, label] -= 1.0
    return slope.T @ x / len(y), slope.sum(axis=0) / len(y)


def insertion(losses: Sequence[float], alpha: float) -> list[int]:
    """Return the positions of the round((1 - alpha) * B) smallest losses, in the order of the batch."""
    keep = round((1 - alpha) * len(losses))
    smallest_first = sorted(range(len(losses)), key=lambda i: losses[i])
    return sorted(smallest_first[:keep])


def normalise(weights: Sequence[float]) -> list[float]:
    """Return weights as probabilities; equal weights, including zeros, are uniform."""
    if all(w == weights[0] for w in weights):
        return [1.0 / len(weights)] * len(weights)
    total = sum(weights)
    return [w / total for w in weights]


def past_weights(losses: Sequence[float]) -> list[float]:
    """Return the weights of past tasks: a low loss is evicted sooner, the highest one never."""
    return [max(losses) - loss for loss in losses]


def uniform_probabilities(size: int) -> list[float]:
    """Reservoir: all slots have the same probability."""
    return [1.0 / size] * size


def lass_probabilities(losses: Sequence[float]) -> list[float]:
    """LASS: in proportion to the loss."""
    return normalise(losses)


def abs_probabilities(losses: Sequence[float], is_current: Sequence[bool]) -> list[float]:
    """ABS: the fraction of the slot's group times the probability of the slot in its group."""
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
    """Return the first position whose cumulative probability exceeds `u`."""
    cumulative = 0.0
    for i, p in enumerate(probabilities):
        cumulative += p
        if u < cumulative:
            return i
    # The probabilities add up to slightly less than one: the last position that is possible at all.
    return max(i for i, p in enumerate(probabilities) if p > 0)


def victim(
    kind: str,
    losses: Sequence[float],
    is_current: Sequence[bool],
    u_group: float,
    u_victim: float,
) -> int:
    """Return the slot that is evicted from a full buffer, by two uniforms."""
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
class Sample:
    """A sample with its last measured loss."""

    id: int
    task: int
    loss: float
    x: FloatArray | None = None
    y: int = 0


@dataclass
class LiteralBuffer:
    """Samples by slot, the number of candidates so far, and acceptances not yet used in a task."""

    capacity: int
    samples: list[Sample] = field(default_factory=list)
    offered: int = 0
    waiting: int = 0
    task: int = -1


def offer(
    buffer: LiteralBuffer,
    candidates: Sequence[Sample],
    kind: str,
    uniforms: Sequence[Sequence[float]],
) -> None:
    """Offer one candidate after another; each has three uniforms: acceptance, group, victim."""
    for candidate, (u_accept, u_group, u_victim) in zip(candidates, uniforms, strict=True):
        buffer.offered += 1
        if candidate.task != buffer.task:
            buffer.task, buffer.waiting = candidate.task, 0
        is_stored = any(sample.id == candidate.id for sample in buffer.samples)
        if len(buffer.samples) < buffer.capacity:
            if not is_stored:
                buffer.samples.append(candidate)
            continue
        if u_accept * buffer.offered < buffer.capacity:
            buffer.waiting += 1
        if buffer.waiting > 0 and not is_stored:
            buffer.waiting -= 1
            losses = [sample.loss for sample in buffer.samples]
            is_current = [sample.task == candidate.task for sample in buffer.samples]
            buffer.samples[victim(kind, losses, is_current, u_group, u_victim)] = candidate


@dataclass(frozen=True)
class Options:
    """Settings of the literal learner; without `period` every epoch replays and writes."""

    capacity: int
    batch: int
    lr: float
    epochs: int
    ace: bool = True
    period: int | None = 2
    alpha: float = 0.75
    kind: str = "abs"


class LiteralLearner:
    """Algorithm 1 for softmax regression, logits = x @ weight.T + bias, with plain SGD."""

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
        self.buffer = LiteralBuffer(options.capacity)
        self.seen: set[int] = set()
        self.measured = 0  # samples forwarded only to measure their loss

    def learn(self, task: int, ids: FloatArray, x: FloatArray, y: FloatArray) -> Iterator[bool]:
        """Yield at the end of every epoch, before a forgetting epoch is rolled back."""
        for epoch in range(self.options.epochs):
            forget = self.forgets(epoch)
            always = self.options.period is None
            saved = self.weight.copy(), self.bias.copy()
            shuffled = torch.randperm(len(ids), generator=self.order)
            for part in shuffled.tensor_split(math.ceil(len(ids) / self.options.batch)):
                batch = [Sample(int(ids[i]), task, math.nan, x[i], int(y[i])) for i in part.tolist()]
                self.step(batch, replay=always or not forget, write=always or forget)
            yield forget
            if forget:
                self.weight, self.bias = saved

    def forgets(self, epoch: int) -> bool:
        """Every `period`-th epoch from the first, but never the last."""
        period, last = self.options.period, self.options.epochs - 1
        return period is not None and epoch % period == 0 and epoch < last

    def step(self, batch: list[Sample], replay: bool, write: bool) -> None:
        """Mark the classes as seen, measure, train with the buffer as it is, and then write."""
        self.seen |= {sample.y for sample in batch}
        candidates: list[Sample] = []
        uniforms: list[list[float]] = []
        if write:
            candidates = self.candidates(batch)
            uniforms = self.uniforms(len(candidates))
            self.measure(self.buffer.samples)
        drawn: list[Sample] = []
        if replay and self.buffer.samples:
            shuffled = torch.randperm(len(self.buffer.samples), generator=self.draws)
            drawn = [self.buffer.samples[i] for i in shuffled[: self.options.batch].tolist()]
        self.descend(batch, drawn)
        offer(self.buffer, candidates, self.options.kind, uniforms)

    def candidates(self, batch: list[Sample]) -> list[Sample]:
        """Return the candidates, ranked by the training loss; their stored loss is the unmasked one."""
        self.measure(batch)
        ranking = [sample.loss for sample in batch]
        if self.options.ace:
            ranking = ace_loss(self.logits(batch), [sample.y for sample in batch], self.seen)
        return [batch[i] for i in insertion(ranking, self.options.alpha)]

    def uniforms(self, count: int) -> list[list[float]]:
        """Return acceptance, group and victim uniforms of each candidate."""
        return torch.rand((count, 3), generator=self.draws, dtype=torch.float64).tolist()

    def measure(self, samples: list[Sample]) -> None:
        """Measure the unmasked loss of each sample with the current weights."""
        self.measured += len(samples)
        if samples:
            losses = cross_entropy(self.logits(samples), [sample.y for sample in samples])
            for sample, loss in zip(samples, losses, strict=True):
                sample.loss = loss

    def logits(self, samples: list[Sample]) -> FloatArray:
        """Return logits (B, C)."""
        return np.stack([sample.x for sample in samples]) @ self.weight.T + self.bias

    def descend(self, batch: list[Sample], drawn: list[Sample]) -> None:
        """Take an SGD step on the mean over the stream plus the mean over the replayed samples."""
        every = range(len(self.bias))
        allowed = allowed_classes([sample.y for sample in batch], self.seen, len(self.bias))
        parts = [(batch, allowed if self.options.ace else every)]
        if drawn:
            parts.append((drawn, every))
        gradients = [
            mean_loss_gradient(
                np.stack([sample.x for sample in samples]),
                self.logits(samples),
                [sample.y for sample in samples],
                classes,
            )
            for samples, classes in parts
        ]
        for of_weight, of_bias in gradients:
            self.weight = self.weight - self.options.lr * of_weight
            self.bias = self.bias - self.options.lr * of_bias
