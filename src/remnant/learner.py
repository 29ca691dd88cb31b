"""Algorithm 1, line by line, for every method that is a combination of the six choices.

The learner yields after each step, keeps a cursor, and can be saved and continued at any step, bit for
bit. B stream rows, C classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from remnant.consolidate import Bench, Fit, Nothing
from remnant.data.source import Spec
from remnant.memory import Drawn, Memory
from remnant.methods import Method
from remnant.nets import NewNet
from remnant.objective import Outcome
from remnant.predict import CHUNK, Embedding, cross_entropy, embed, predict
from remnant.protocol import EpochDone, Event, StepDone
from remnant.replacement import Candidates
from remnant.rng import Generators
from remnant.schedule import Phase
from remnant.sgd import load_momentum, momentum_of, new_sgd, set_rate, weights_of
from remnant.stream import Batch, Task, even_batches


@dataclass(frozen=True)
class Training:
    """How long and how fast a learner learns."""

    epochs: int  # per task
    batch: int  # rows of the stream, and of the memory, in a step
    lr: float
    lr_drops: tuple[float, ...] = ()  # shares of the epochs after which the rate falls to a tenth
    momentum: float = 0.0
    weight_decay: float = 0.0

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch: a function of it, so that no rollback disturbs it."""
        drops = sum(epoch >= round(share * self.epochs) for share in self.lr_drops)
        return self.lr / float(10**drops)


@dataclass(frozen=True, eq=False)
class Admitted:
    """Candidates and the slots they will get."""

    rows: Batch
    positions: Tensor  # in the batch they came from
    slots: Tensor  # -1 stays out
    loss: Tensor


class ReplayLearner:
    """A network, a memory, and a method that says what to do with them."""

    def __init__(
        self, method: Method, training: Training, spec: Spec, new_net: NewNet, memory: Memory,
        rng: Generators, noise_rate: float = 0.2,
    ) -> None:  # fmt: skip
        """Build the networks; `noise_rate` is the share of wrong labels, for methods that ask for it."""
        self.method, self.training, self.net, self.memory = method, training, new_net("net"), memory
        self.view, self.rng = spec.view, rng
        self.seen = torch.zeros(len(spec.classes), dtype=torch.bool)
        self.task, self.epoch, self.step = -1, 0, 0
        self.order = torch.empty(0, dtype=torch.long)  # of the task's rows; empty between epochs
        self.saved: dict[str, Any] = {}  # theta_CHK, while an epoch is going to be undone
        self.optimizer = self._new_optimizer()
        self.fit: Fit | None = None
        if not isinstance(method.consolidation, Nothing):
            bench = Bench((self.net,), memory, self.view, rng.consolidate, self.seen, noise_rate)
            self.fit = Fit(method.consolidation, bench, new_net)
        self.is_consolidated = False  # and nothing has been learned since

    def memories(self) -> dict[str, Memory]:
        """Return the memory, if there is one."""
        return {"memory": self.memory} if self.memory.capacity else {}

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (B, C) of raw inputs, un-augmented, in eval mode: BatchNorm learns nothing."""
        net = self.fit.net if self.fit and self.is_consolidated else self.net
        return predict(net, x, self.view.plain)

    def _logits(self, x: Tensor) -> Tensor:
        return predict(self.net, x, self.view.plain)

    def learn(self, task: Task) -> Iterator[Event]:
        """Go through the epochs of a task, from wherever the cursor stands."""
        if self.task != task.number:
            self._begin_task(task)
        while self.epoch < self.training.epochs:  # line 1
            phase = self.method.schedule(self.epoch, self.training.epochs)
            if phase:
                yield from self._epoch(task, phase)
            self._end_epoch(phase)
        if self.fit is not None and len(self.memory) > 1:  # BatchNorm needs two rows
            self.is_consolidated = True
            yield from self.fit.run(task.number)

    def _epoch(self, task: Task, phase: Phase) -> Iterator[Event]:
        if not len(self.order):
            self._begin_epoch(task, phase)
        batches = even_batches(self.order, self.training.batch)
        for rows in batches[self.step :]:  # line 3
            loss = self._step(task.take(rows), phase)
            self.step += 1
            yield StepDone(task.number, self.epoch, self.step, len(batches), phase, loss, len(rows))
        yield EpochDone(task.number, self.epoch, phase)

    def _begin_task(self, task: Task) -> None:
        self.task, self.epoch = task.number, 0
        self.optimizer = self._new_optimizer()

    def _begin_epoch(self, task: Task, phase: Phase) -> None:
        if Phase.TRAIN in phase:
            self.is_consolidated = False
        if Phase.ROLLBACK in phase:
            self.saved = clone(self._weights())  # line 2
        if Phase.WRITE in phase:
            self.memory.expire()
        if Phase.REPLAY in phase and self.method.objective.keeps_logits:
            self._fill_logits()
        set_rate(self.optimizer, self.training.rate(self.epoch))
        self.order = torch.randperm(len(task), generator=self.rng.order)

    def _end_epoch(self, phase: Phase) -> None:
        if Phase.ROLLBACK in phase:
            self._load_weights(self.saved)  # line 12
            self.saved = {}
        self.epoch, self.step = self.epoch + 1, 0
        self.order = self.order[:0]

    def _step(self, batch: Batch, phase: Phase) -> float | None:
        self.seen[batch.y] = True
        admitted = self._admit(batch) if Phase.WRITE in phase else None  # lines 4 and 9
        outcome = self._train(batch, Phase.REPLAY in phase) if Phase.TRAIN in phase else None
        if admitted is not None:
            logits = torch.full((len(admitted.slots), len(self.seen)), torch.nan)
            # What a network says that will be thrown away is not kept.
            if outcome is not None and Phase.ROLLBACK not in phase:
                logits = outcome.logits[admitted.positions]
            self.memory.put(admitted.slots, admitted.rows, self.task, admitted.loss, logits)  # line 10
        return None if outcome is None else outcome.loss.item()

    def _train(self, batch: Batch, replays: bool) -> Outcome:
        draw = self._draw if replays and len(self.memory) > 1 else None  # BatchNorm needs two rows
        x = self.view.augmented(batch.x, self.rng.augment)
        self.net.train()
        outcome = self.method.objective(self.net, x, batch.y, draw, self.seen, self.rng.augment)
        self.optimizer.zero_grad()
        outcome.loss.backward()
        self.optimizer.step()  # lines 6 and 8
        return outcome

    def _admit(self, batch: Batch) -> Admitted | None:
        """Decide who enters and where, by the network as it is before the step; None: nobody."""
        method, memory = self.method, self.memory
        memory.clock += 1

        def embedding() -> Embedding:
            stored, new = memory.rows(), batch[offer().rows]
            x, y = torch.cat([stored.x, new.x]), torch.cat([stored.y, new.y])
            return embed(self.net, x, y, self.view.plain)

        @cache
        def offer() -> Candidates:
            if not (method.insertion.needs_loss or method.replacement.needs_loss):
                unknown = torch.full((len(batch),), torch.nan, dtype=torch.float64)
                return Candidates(torch.arange(len(batch)), batch.y, batch.id, unknown, embedding)
            logits = self._logits(batch.x)
            rows = method.insertion.choose(method.objective.row_loss(logits, batch.y, self.seen))
            y = batch.y[rows]
            return Candidates(rows, y, batch.id[rows], cross_entropy(logits[rows], y), embedding)

        def losses(slots: Tensor) -> Tensor:
            return method.scoring.losses(memory, slots, self._measure)

        shape = (method.insertion.count(len(batch)), 3)
        uniforms = torch.rand(shape, generator=self.rng.memory, dtype=torch.float64)
        slots = method.replacement(memory, offer, losses, self.task, uniforms)
        if (slots < 0).all():
            return None
        rows = offer().rows
        return Admitted(batch[rows], rows, slots, offer().loss)

    def _draw(self, *, strong: bool = False) -> Drawn:
        drawn = self.memory.draw(self.training.batch, self.rng.memory)
        augment = self.view.strong if strong else self.view.augmented
        return Drawn(augment(drawn.x, self.rng.augment), drawn.y, drawn.logits)

    def _measure(self, slots: Tensor) -> Tensor:
        return cross_entropy(self._logits_of(slots), self.memory.y[slots])

    def _logits_of(self, slots: Tensor) -> Tensor:
        # A few rows at a time: a second copy of a memory of photos may not fit.
        return torch.cat([self._logits(self.memory.x[some]) for some in slots.split(CHUNK)])

    def _fill_logits(self) -> None:
        stored = self.memory.logits[: len(self.memory)]
        missing = torch.nonzero(stored.isnan().any(1)).flatten()
        if len(missing):
            stored[missing] = self._logits_of(missing).to(stored)

    def _new_optimizer(self) -> torch.optim.SGD:
        training = self.training
        return new_sgd(self.net.parameters(), training.lr, training.momentum, training.weight_decay)

    def _weights(self) -> dict[str, Any]:
        return {"net": dict(self.net.state_dict()), "momentum": momentum_of(self.optimizer)}

    def _load_weights(self, weights: dict[str, Any]) -> None:
        self.net.load_state_dict(weights["net"])
        load_momentum(self.optimizer, weights["momentum"])

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes; a network that has diverged is not worth saving."""
        return {
            "weights": self._weights() | {"net": weights_of(self.net)},
            "fit": {} if self.fit is None else self.fit.state_dict(),
            "saved": self.saved,
            "memory": self.memory.state_dict(),
            "rng": self.rng.state_dict(),
            "seen": self.seen,
            "order": self.order,
            "cursor": [self.task, self.epoch, self.step, self.is_consolidated],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._load_weights(state["weights"])
        self.saved = state["saved"]
        self.memory.load_state_dict(state["memory"])
        self.rng.load_state_dict(state["rng"])
        self.seen.copy_(state["seen"])  # the one that the consolidation knows
        self.order = state["order"]
        self.task, self.epoch, self.step, self.is_consolidated = state["cursor"]
        if self.fit is not None:
            self.fit.load_state_dict(state["fit"])
        set_rate(self.optimizer, self.training.rate(self.epoch))


def clone(state: dict[str, Any]) -> dict[str, Any]:
    """Copy nested dicts of tensors."""
    return {k: clone(v) if isinstance(v, dict) else v.clone() for k, v in state.items()}
