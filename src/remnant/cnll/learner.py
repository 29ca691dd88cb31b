"""CNLL as a learner: the stream fills a delay; what leaves it is divided, remembered and learned from.

It yields after each stream batch that was stored and after each gradient step, and goes on from there
bit for bit. n rows, C classes.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.cnll.buffers import joined, offer
from remnant.cnll.purify import disagreement, split
from remnant.cnll.semi import Looks, TwoHeads, fine_tuning_loss, warm_up_loss
from remnant.cnll.settings import BUFFERS, FINE_TUNING, WARM_UP, Cnll
from remnant.data.source import Spec
from remnant.memory import Memory
from remnant.nets import NewNet
from remnant.predict import predict
from remnant.protocol import EpochDone, Event, Sorted, StepDone
from remnant.rng import Generators
from remnant.schedule import Phase
from remnant.sgd import load_momentum, momentum_of, new_sgd, set_rate, weights_of
from remnant.stream import Batch, Task, even_batches


@dataclass(frozen=True, eq=False)
class Lesson:
    """Something to be learned, in epochs."""

    name: str
    epochs: int
    lr: float
    rows: int  # to go through in an epoch
    others: int  # unlabelled rows, gone through beside them
    loss: Callable[[Tensor, Tensor, float], Tensor]  # (rows, others, epochs so far) -> a scalar


class CnllLearner:
    """A network with two heads, and five buffers.

    Labels of rows judged noisy are stored, for the metrics; nothing here reads them.
    """

    def __init__(
        self, settings: Cnll, epochs: int, batch: int, spec: Spec, new_net: NewNet, rng: Generators
    ) -> None:
        """Build networks and buffers, whose sizes are filled in; `epochs` passes over each task."""
        self.settings, self.epochs, self.batch, self.spec = settings, epochs, batch, spec
        self.net = TwoHeads(new_net("net"), new_net("second head"))
        self.rng, self.looks = rng, Looks(spec.view, rng.consolidate)
        self.seen = torch.zeros(len(spec.classes), dtype=torch.bool)
        self.buffers = {name: self._new_buffer(name) for name in BUFFERS}
        self.task, self.epoch, self.step, self.taken = -1, 0, 0, 0
        self.order = torch.empty(0, dtype=torch.long)  # of the task's rows; empty between passes
        self.lesson, self.lesson_epoch, self.lesson_step = "", 0, 0  # "": nothing is being learned
        self.rows, self.others = self.order, self.order  # a lesson's order; empty between its epochs
        self.optimizer = self._new_optimizer()

    def memories(self) -> dict[str, Memory]:
        """Return the five buffers; the first one is what is remembered with labels."""
        return dict(self.buffers)

    def predict(self, x: Tensor) -> Tensor:
        """Return the logits (B, C) of h1 for raw inputs, un-augmented, in eval mode."""
        return predict(self.net, x, self.spec.view.plain)

    def learn(self, task: Task) -> Iterator[Event]:
        """Go through the passes of a task, from wherever the cursor stands."""
        if self.task != task.number:
            self.task, self.epoch = task.number, 0
        while self.epoch < self.epochs:
            if not len(self.order):
                self.order = torch.randperm(len(task), generator=self.rng.order)
            yield from self._pass(task)
            yield EpochDone(task.number, self.epoch, Phase.WRITE)
            self.epoch, self.step, self.taken = self.epoch + 1, 0, 0
            self.order = self.order[:0]

    def _pass(self, task: Task) -> Iterator[Event]:
        """Store the rows of a task; whenever the delay is full, and at the end, judge and learn them."""
        batches = even_batches(self.order, self.batch)
        ends = list(accumulate(map(len, batches)))
        while self.taken < len(self.order):
            if self._is_full("delay") or self._is_full("clean"):
                yield from self._digest(task, is_over=False)
            room = self.settings.delay - len(self.buffers["delay"])
            rows = self.order[self.taken : min(self.taken + room, ends[self.step])]
            self._store(task.take(rows))
            if self.taken == ends[self.step]:
                self.step += 1
                images = len(batches[self.step - 1])
                yield StepDone(
                    task.number, self.epoch, self.step, len(batches), Phase.WRITE, None, images
                )
        yield from self._digest(task, is_over=True)

    def _store(self, batch: Batch) -> None:
        self.seen[batch.y] = True
        self.taken += len(batch)
        self._offer("delay", batch)

    def _digest(self, task: Task, is_over: bool) -> Iterator[Event]:
        """Warm up on the delay and divide it; fine-tune when enough is clean, or nothing more comes.

        No row waits for the next pass, which would judge it again, nor for the next task, by whose
        classes it would be judged.
        """
        if len(self.buffers["delay"]):
            if len(self.buffers["delay"]) > 1:  # BatchNorm needs two
                yield from self._learn(self._warm_up())
            self._divide(torch.tensor(task.classes))
            yield Sorted(self.task, self.epoch)
            self._empty("delay")
        if self._is_full("clean") or (is_over and len(self.buffers["clean"])):
            yield from self._learn(self._fine_tuning())
            self._empty("clean", "noisy")
        elif is_over:
            self._empty("noisy")

    def _divide(self, classes: Tensor) -> None:
        """Judge every row that waits, by h1 as it is now; keep what is judged most surely.

        A store holds no row that was last judged to belong into the other.
        """
        settings, waiting = self.settings, self.buffers["delay"].rows()
        apart = disagreement(self.predict(waiting.x), waiting.y, classes, settings.hardened)
        clean, noisy = split(apart)
        self.buffers["clean_store"].drop(waiting.id[noisy])
        self.buffers["noisy_store"].drop(waiting.id[clean])
        self._offer("clean", waiting[clean])
        self._offer("noisy", waiting[noisy])
        self._offer("clean_store", waiting[clean[: settings.clean_kept]])
        self._offer("noisy_store", waiting[noisy[: settings.noisy_kept]])

    def _warm_up(self) -> Lesson:
        settings, waiting = self.settings, self.buffers["delay"].rows()

        def loss(rows: Tensor, others: Tensor, epochs: float) -> Tensor:
            x, onehot = self.looks.weak(waiting.x[rows]), self._onehot(waiting.y[rows])
            return warm_up_loss(self.net, x, onehot, settings.confidence_penalty)

        return Lesson(
            WARM_UP, settings.warmup_epochs, settings.warmup_lr, len(waiting), others=0, loss=loss
        )

    def _fine_tuning(self) -> Lesson:
        settings = self.settings
        labelled, unlabelled = self.pools()

        def loss(rows: Tensor, others: Tensor, epochs: float) -> Tensor:
            mine, theirs = labelled[rows], unlabelled[others]
            views = self.looks.views(mine.x, self._onehot(mine.y), theirs.x, settings.mixup)
            parts = fine_tuning_loss(self.net, views, settings, epochs, self.seen)
            return parts.supervised + parts.unsupervised

        return Lesson(
            FINE_TUNING, settings.finetune_epochs, settings.finetune_lr,
            len(labelled), len(unlabelled), loss,
        )  # fmt: skip

    def pools(self) -> tuple[Batch, Batch]:
        """Return the rows to learn from with their labels, and those without: each row once."""
        clean, noisy, clean_store, noisy_store = (
            self.buffers[name].rows() for name in ("clean", "noisy", "clean_store", "noisy_store")
        )
        labelled = joined(clean_store[~torch.isin(clean_store.id, clean.id)], clean)
        return labelled, joined(noisy_store[~torch.isin(noisy_store.id, noisy.id)], noisy)

    def _learn(self, lesson: Lesson) -> Iterator[Event]:
        """Go through the epochs of a lesson, from wherever its cursor stands."""
        if self.lesson != lesson.name:
            self.lesson, self.lesson_epoch, self.lesson_step = lesson.name, 0, 0
            self.optimizer = self._new_optimizer()
        rng, batch = self.rng.consolidate, self.settings.batch
        while self.lesson_epoch < lesson.epochs:
            steps = math.ceil(lesson.rows / batch)
            if not len(self.rows):
                self.rows = torch.randperm(lesson.rows, generator=rng)
                # As many as labelled rows, but no more in a step than there are.
                self.others = rounds(lesson.others, min(lesson.rows, steps * lesson.others), rng)
            parts = zip(even_batches(self.rows, batch), self.others.tensor_split(steps), strict=True)
            for rows, others in list(parts)[self.lesson_step :]:
                epochs = self.lesson_epoch + self.lesson_step / steps
                set_rate(self.optimizer, lesson.lr)
                loss = self._descend(lesson.loss(rows, others, epochs))
                self.lesson_step += 1
                yield StepDone(
                    self.task, self.lesson_epoch, self.lesson_step, steps, Phase.CONSOLIDATE, loss,
                    len(rows) + len(others), work=lesson.name,
                )  # fmt: skip
            self.lesson_epoch, self.lesson_step = self.lesson_epoch + 1, 0
            self.rows, self.others = self.rows[:0], self.others[:0]
        self.lesson = ""

    def _descend(self, loss: Tensor) -> float:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()  # a head without gradients stays as it is
        return loss.item()

    def _onehot(self, y: Tensor) -> Tensor:
        return F.one_hot(y, len(self.seen)).float()

    def _is_full(self, name: str) -> bool:
        return len(self.buffers[name]) == self.buffers[name].capacity

    def _offer(self, name: str, rows: Batch) -> None:
        if self.settings.unlimited and name.endswith("_store"):
            self.buffers[name].make_room(len(rows))
        offer(self.buffers[name], rows, self.task, self.rng.memory)

    def _new_buffer(self, name: str) -> Memory:
        return Memory(getattr(self.settings, name), self.spec.shape, self.spec.dtype)

    def _empty(self, *names: str) -> None:
        self.buffers |= {name: self._new_buffer(name) for name in names}

    def _new_optimizer(self) -> torch.optim.SGD:
        settings = self.settings
        return new_sgd(
            self.net.parameters(), settings.finetune_lr, settings.momentum, settings.weight_decay
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes; a network that has diverged is not worth saving."""
        return {
            "net": weights_of(self.net),
            "momentum": momentum_of(self.optimizer),
            "buffers": {name: memory.state_dict() for name, memory in self.buffers.items()},
            "rng": self.rng.state_dict(),
            "seen": self.seen,
            "orders": {"pass": self.order, "rows": self.rows, "others": self.others},
            "cursor": [self.task, self.epoch, self.step, self.taken],
            "lesson": [self.lesson, self.lesson_epoch, self.lesson_step],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.net.load_state_dict(state["net"])
        self.optimizer = self._new_optimizer()
        load_momentum(self.optimizer, state["momentum"])
        for name, memory in self.buffers.items():
            memory.load_state_dict(state["buffers"][name])
        self.rng.load_state_dict(state["rng"])
        self.seen = state["seen"]
        self.order, self.rows, self.others = (state["orders"][k] for k in ("pass", "rows", "others"))
        self.task, self.epoch, self.step, self.taken = state["cursor"]
        self.lesson, self.lesson_epoch, self.lesson_step = state["lesson"]


def rounds(count: int, total: int, rng: torch.Generator) -> Tensor:
    """Return `total` numbers below `count`, shuffled round by round; none is ahead by more than one."""
    each = [torch.randperm(count, generator=rng) for _ in range(math.ceil(total / max(1, count)))]
    return torch.cat(each)[:total] if each else torch.empty(0, dtype=torch.long)
