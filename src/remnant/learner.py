"""Algorithm 1, line by line, for every method that is a combination of the five choices.

The learner yields after each step, keeps a cursor, and can be saved and continued at any step, bit for
bit. B stream rows, C classes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.augment import View
from remnant.errors import Diverged
from remnant.memory import Drawn, Memory
from remnant.methods import Method
from remnant.protocol import EpochDone, Event, StepDone
from remnant.replacement import Candidates
from remnant.rng import Generators
from remnant.schedule import Phase
from remnant.stream import Batch, Task

CHUNK = 64  # rows of a forward without gradients; more of them fall out of the cache


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
        self, method: Method, training: Training, net: nn.Module, memory: Memory, view: View,
        rng: Generators, classes: int,
    ) -> None:  # fmt: skip
        self.method, self.training, self.net, self.memory = method, training, net, memory
        self.view, self.rng = view, rng
        self.seen = torch.zeros(classes, dtype=torch.bool)
        self.task, self.epoch, self.step = -1, 0, 0
        self.order = torch.empty(0, dtype=torch.long)  # of the task's rows; empty between epochs
        self.saved: dict[str, Any] = {}  # theta_CHK, while an epoch is going to be undone
        self.optimizer = self._new_optimizer()

    def memories(self) -> dict[str, Memory]:
        """Return the memory, if there is one."""
        return {"memory": self.memory} if self.memory.capacity else {}

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (B, C) of raw inputs, un-augmented, in eval mode: BatchNorm learns nothing."""
        self.net.eval()
        with torch.inference_mode():
            logits = torch.cat([self.net(self.view.plain(part)) for part in x.split(CHUNK)])
        if not logits.isfinite().all():
            raise Diverged("the network's output is not finite")
        return logits

    def learn(self, task: Task) -> Iterator[Event]:
        """Go through the epochs of a task, from wherever the cursor stands."""
        if self.task != task.number:
            self._begin_task(task)
        while self.epoch < self.training.epochs:  # line 1
            phase = self.method.schedule(self.epoch, self.training.epochs)
            if not len(self.order):
                self._begin_epoch(task, phase)
            batches = even_batches(self.order, self.training.batch)
            for rows in batches[self.step :]:  # line 3
                loss = self._step(task.take(rows), phase)
                self.step += 1
                yield StepDone(task.number, self.epoch, self.step, len(batches), phase, loss, len(rows))
            yield EpochDone(task.number, self.epoch, phase)
            self._end_epoch(phase)

    def _begin_task(self, task: Task) -> None:
        self.task, self.epoch = task.number, 0
        self.optimizer = self._new_optimizer()

    def _begin_epoch(self, task: Task, phase: Phase) -> None:
        if Phase.ROLLBACK in phase:
            self.saved = clone(self._weights())  # line 2
        if Phase.WRITE in phase:
            self.memory.expire()
        if Phase.REPLAY in phase and self.method.objective.keeps_logits:
            self._fill_logits()
        self._set_rate()
        self.order = torch.randperm(len(task), generator=self.rng.order)

    def _end_epoch(self, phase: Phase) -> None:
        if Phase.ROLLBACK in phase:
            self._load_weights(self.saved)  # line 12
            self.saved = {}
        self.epoch, self.step = self.epoch + 1, 0
        self.order = self.order[:0]

    def _step(self, batch: Batch, phase: Phase) -> float:
        self.seen[batch.y] = True
        admitted = self._admit(batch) if Phase.WRITE in phase else None  # lines 4 and 9
        replays = Phase.REPLAY in phase and len(self.memory) > 1  # BatchNorm needs two rows
        x = self.view.augmented(batch.x, self.rng.augment)
        self.net.train()
        outcome = self.method.objective(self.net, x, batch.y, self._draw if replays else None, self.seen)
        self.optimizer.zero_grad()
        outcome.loss.backward()
        self.optimizer.step()  # lines 6 and 8
        if admitted is not None:
            logits = outcome.logits[admitted.positions]
            if Phase.ROLLBACK in phase:  # what a network says that will be thrown away is not kept
                logits = torch.full_like(logits, torch.nan)
            self.memory.put(admitted.slots, admitted.rows, self.task, admitted.loss, logits)  # 10
        return outcome.loss.item()

    def _admit(self, batch: Batch) -> Admitted | None:
        """Decide who enters and where, by the network as it is before the step; None: nobody."""
        method, memory = self.method, self.memory
        memory.clock += 1

        @cache
        def offer() -> Candidates:
            if not (method.insertion.needs_loss or method.replacement.needs_loss):
                unknown = torch.full((len(batch),), torch.nan, dtype=torch.float64)
                return Candidates(torch.arange(len(batch)), batch.id, unknown)
            logits = self.predict(batch.x)
            rows = method.insertion.choose(method.objective.row_loss(logits, batch.y, self.seen))
            return Candidates(rows, batch.id[rows], cross_entropy(logits[rows], batch.y[rows]))

        def losses(slots: Tensor) -> Tensor:
            return method.scoring.losses(memory, slots, self._measure)

        shape = (method.insertion.count(len(batch)), 3)
        uniforms = torch.rand(shape, generator=self.rng.memory, dtype=torch.float64)
        slots = method.replacement(memory, offer, losses, self.task, uniforms)
        if (slots < 0).all():
            return None
        rows = offer().rows
        return Admitted(batch[rows], rows, slots, offer().loss)

    def _draw(self) -> Drawn:
        drawn = self.memory.draw(self.training.batch, self.rng.memory)
        return Drawn(self.view.augmented(drawn.x, self.rng.augment), drawn.y, drawn.logits)

    def _measure(self, slots: Tensor) -> Tensor:
        return cross_entropy(self.predict(self.memory.x[slots]), self.memory.y[slots])

    def _fill_logits(self) -> None:
        stored = self.memory.logits[: len(self.memory)]
        missing = torch.nonzero(stored.isnan().any(1)).flatten()
        if len(missing):
            stored[missing] = self.predict(self.memory.x[missing]).to(stored)

    def _new_optimizer(self) -> torch.optim.SGD:
        training = self.training
        return torch.optim.SGD(
            self.net.parameters(),
            lr=training.lr,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
            fused=True,
        )

    def _set_rate(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.training.rate(self.epoch)

    def _weights(self) -> dict[str, Any]:
        state = self.optimizer.state_dict()["state"]
        momentum = {str(i): entry["momentum_buffer"] for i, entry in state.items()}
        return {"net": dict(self.net.state_dict()), "momentum": momentum}

    def _load_weights(self, weights: dict[str, Any]) -> None:
        self.net.load_state_dict(weights["net"])
        parameters = list(self.net.parameters())
        state = {
            # In the layout of its parameter, which a saved buffer has lost.
            int(i): {"momentum_buffer": torch.empty_like(parameters[int(i)]).copy_(buffer)}
            for i, buffer in weights["momentum"].items()
        }
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": state})

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes; a network that has diverged is not worth saving."""
        weights = self._weights()
        if not all(value.isfinite().all() for value in weights["net"].values()):
            raise Diverged("a weight is not finite")
        return {
            "weights": weights,
            "saved": self.saved,
            "memory": self.memory.state_dict(),
            "rng": self.rng.state_dict(),
            "seen": self.seen,
            "order": self.order,
            "cursor": [self.task, self.epoch, self.step],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._load_weights(state["weights"])
        self.saved = state["saved"]
        self.memory.load_state_dict(state["memory"])
        self.rng.load_state_dict(state["rng"])
        self.seen, self.order = state["seen"], state["order"]
        self.task, self.epoch, self.step = state["cursor"]
        self._set_rate()


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the unmasked loss of each row: the one scale of all scores, (B,)."""
    return F.cross_entropy(logits, y, reduction="none").double()


def even_batches(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """Split rows into the fewest batches of at most `size`, as equal in length as can be.

    A last batch of two or three rows would take a full step, and a full part in the statistics of
    BatchNorm, on almost no evidence.

    >>> [len(rows) for rows in even_batches(torch.arange(67), 32)]
    [23, 22, 22]
    """
    return order.tensor_split(math.ceil(len(order) / size))


def clone(state: dict[str, Any]) -> dict[str, Any]:
    """Copy nested dicts of tensors."""
    return {k: clone(v) if isinstance(v, dict) else v.clone() for k, v in state.items()}
