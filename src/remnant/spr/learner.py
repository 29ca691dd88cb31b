"""Self-purified replay: learn features without labels, and keep rows that are central among their label.

A delayed memory fills with the stream. When it is full, a new expert learns from it alone, without
labels; the base, which lives on, learns from it and from the purified memory; and what the expert finds
central among the rows of its label goes on to the purified memory. At the end of a task a copy of the
base learns to classify from that. B rows of the stream, C classes.
"""

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.augment import View
from remnant.data.source import Spec
from remnant.memory import Memory
from remnant.nets import NewNet
from remnant.predict import predict
from remnant.protocol import EpochDone, Event, Sorted, StepDone
from remnant.replacement import Candidates
from remnant.rng import Generators
from remnant.schedule import Phase
from remnant.spr.centrality import clean_probability
from remnant.spr.partition import partitioned
from remnant.spr.settings import BASE, CLASSIFIER, EXPERT, Spr, annealed
from remnant.spr.simclr import contrastive_loss, strong_view
from remnant.spr.trainee import Trainee
from remnant.stream import Batch, Task, even_batches

CURSOR = ("task", "epoch", "step", "stored", "fill", "fill_step", "tune_epoch", "tune_step")


class SprLearner:
    """Two memories and three networks: the expert of the last fill, the base, and the classifier."""

    def __init__(
        self, settings: Spr, epochs: int, batch: int, spec: Spec, new_net: NewNet, rng: Generators
    ) -> None:
        """Build all of them; `epochs` and `batch` are of the stream, and sizes are filled in."""
        self.settings, self.epochs, self.batch, self.view = settings, epochs, batch, images(spec)
        self.new_net, self.rng = new_net, rng
        self.delayed = Memory(settings.delay, spec.shape, spec.dtype)
        self.purified = Memory(settings.purified, spec.shape, spec.dtype)
        self.offered = torch.zeros(len(spec.classes), dtype=torch.long)  # to the purified memory
        self.base, self.expert = self._contrastive("base"), self._contrastive("expert")
        self.classifier = Trainee(new_net("classifier"))
        self.task, self.epoch, self.step = -1, 0, 0
        self.stored = 0  # rows of this step's batch that are in the delayed memory
        self.fill, self.fill_step = 0, 0  # how often it was full; steps taken since it is
        self.tune_epoch, self.tune_step = 0, 0
        self.order = torch.empty(0, dtype=torch.long)  # of the task's rows, then of the purified ones

    def memories(self) -> dict[str, Memory]:
        """Return the memory that is kept and the one that waits."""
        return {"purified": self.purified, "delayed": self.delayed}

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (B, C) of the classifier made at the end of the last task."""
        return predict(self.classifier.net, x, self.view.plain)

    def learn(self, task: Task) -> Iterator[Event]:
        """Go through the epochs of a task, from wherever the cursor stands; then make a classifier.

        In every epoch each row is judged once: it fills the delayed memory in equal parts, so that no
        row waits for the next epoch, where it would meet itself.
        """
        if self.task != task.number:
            self.task, self.epoch, self.tune_epoch = task.number, 0, 0
        while self.epoch < self.epochs:
            yield from self._epoch(task)
            self.epoch, self.step, self.order = self.epoch + 1, 0, self.order[:0]
            if self.epoch == self.epochs:
                self._new_classifier()
        yield from self._finetune()

    def _epoch(self, task: Task) -> Iterator[Event]:
        if not len(self.order):
            self.order = torch.randperm(len(task), generator=self.rng.order)
        batches = even_batches(self.order, self.batch)
        for rows in batches[self.step :]:
            yield from self._store(task.take(rows), sum(map(len, batches[: self.step])))
            self.step, self.stored = self.step + 1, 0
            yield StepDone(
                self.task, self.epoch, self.step, len(batches), Phase.WRITE, None, len(rows)
            )  # fmt: skip
        yield EpochDone(self.task, self.epoch, Phase.WRITE)

    def _store(self, batch: Batch, before: int) -> Iterator[Event]:
        """Put the rows of a batch, `before` it others of this epoch, into the delayed memory.

        Whenever a part of the epoch is complete, it is judged and the memory is empty again.
        """
        memory = self.delayed
        ends = list(accumulate(map(len, even_batches(self.order, memory.capacity))))
        while True:
            begin = before + self.stored - len(memory)
            end = next((end for end in ends if end > begin), begin)
            if len(memory) and begin + len(memory) == end:
                yield from self._purify()
                continue
            if self.stored == len(batch):
                return
            rows = torch.arange(self.stored, len(batch))[: end - before - self.stored]
            memory.put(len(memory) + torch.arange(len(rows)), batch[rows], self.task)
            self.stored += len(rows)

    def _purify(self) -> Iterator[Event]:
        """Train a new expert and the base, let what is central in, and empty the delayed memory."""
        expert_steps, base_steps = self.settings.per_fill(self.epochs)
        if not self.fill_step:
            self.expert = self._contrastive(f"expert of fill {self.fill}")
        while self.fill_step < expert_steps:
            x = self.delayed.draw(self.settings.batch, self.rng.memory).x
            yield self._contrast(EXPERT, self.expert, x, self.fill_step, expert_steps)
        while self.fill_step < expert_steps + base_steps:
            step = self.fill_step - expert_steps
            yield self._contrast(BASE, self.base, self._with_replay(), step, base_steps)
        self._filter()
        yield Sorted(self.task, self.epoch)
        self.delayed.size = 0
        self.fill, self.fill_step = self.fill + 1, 0

    def _with_replay(self) -> Tensor:
        """Return delayed rows; half of them are purified ones once there are enough."""
        batch, is_full = self.settings.batch, len(self.purified) == self.purified.capacity
        fresh = self.delayed.draw(batch // 2 if is_full else batch, self.rng.memory).x
        if not is_full:
            return fresh
        return torch.cat([fresh, self.purified.draw(batch - batch // 2, self.rng.memory).x])

    def _contrast(self, work: str, trainee: Trainee, x: Tensor, step: int, steps: int) -> StepDone:
        """Take a step that makes two views of an image alike; no label is known here."""
        rate = annealed(step, steps, self.settings.lr)
        views = [strong_view(x, self.view.flip, self.rng.augment) for _ in range(2)]
        trainee.net.train()
        z = trainee.net(self.view.normalised(torch.cat(views)))
        loss = trainee.step(contrastive_loss(z, self.settings.temperature), rate)
        self.fill_step += 1
        return StepDone(
            self.task, self.epoch, step + 1, steps, Phase.CONSOLIDATE, loss, len(x), work=work
        )

    def _filter(self) -> None:
        """Offer rows to the purified memory, each as probably as its label is right."""
        rows, rng = self.delayed.rows(), self.rng.memory
        clean = clean_probability(predict(self.expert.net, rows.x, self.view.plain), rows.y, rng)
        uniforms = torch.rand(len(rows), 3, generator=rng, dtype=torch.float64)
        kept = torch.nonzero(clean > uniforms[:, 0]).flatten()
        offer = Candidates(kept, rows.y[kept], rows.id[kept], 1 - clean[kept])
        slots = partitioned(self.purified, offer, self.offered, uniforms[kept, 1:])
        self.purified.put(slots, rows[kept], self.task, offer.loss)

    def _finetune(self) -> Iterator[Event]:
        """Let the classifier learn the purified memory; one row is too few."""
        settings, memory = self.settings, self.purified
        if len(memory) < 2:
            return
        planned = math.ceil(memory.capacity / settings.finetune_batch)
        while self.tune_epoch < settings.finetune_epochs:
            if not len(self.order):
                self.order = torch.randperm(len(memory), generator=self.rng.consolidate)
            parts = even_batches(self.order, settings.finetune_batch)
            for rows in parts[self.tune_step :]:
                drops = (self.tune_epoch * len(parts) + self.tune_step) // settings.finetune_drop
                loss = self._classify(
                    memory.x[rows], memory.y[rows], settings.finetune_lr * 10.0**-drops
                )
                self.tune_step += 1
                yield StepDone(
                    self.task, self.tune_epoch, self.tune_step, len(parts), Phase.CONSOLIDATE, loss,
                    len(rows), planned / len(parts), CLASSIFIER,
                )  # fmt: skip
            yield EpochDone(self.task, self.tune_epoch, Phase.CONSOLIDATE, work=CLASSIFIER)
            self.tune_epoch, self.tune_step, self.order = self.tune_epoch + 1, 0, self.order[:0]

    def _classify(self, x: Tensor, y: Tensor, rate: float) -> float:
        net = self.classifier.net.train()
        loss = F.cross_entropy(net(self.view.plain(x)), y)
        return self.classifier.step(loss, rate, self.settings.clip)

    def _new_classifier(self) -> None:
        """Begin with the features of the base, which stays as it is, and a new head."""
        net = self.new_net(f"classifier after task {self.task}")
        weights = self.base.net.state_dict()
        features = {name: weights[name] for name in weights if not name.startswith("head.")}
        net.load_state_dict(features, strict=False)
        self.classifier = Trainee(net)

    def _contrastive(self, name: str) -> Trainee:
        """Return a new network with two layers in place of its head, whose outputs are compared."""
        net = self.new_net(name)
        inputs = cast(nn.Linear, net.head).in_features
        seed = int(torch.randint(1 << 62, (), generator=self.rng.consolidate))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net.head = nn.Sequential(
                nn.Linear(inputs, inputs), nn.ReLU(), nn.Linear(inputs, self.settings.features)
            )
        return Trainee(net)

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes; networks that have diverged are not worth saving."""
        return {
            "base": self.base.state_dict(),
            "expert": self.expert.state_dict(),
            "classifier": self.classifier.state_dict(),
            "memories": {name: memory.state_dict() for name, memory in self.memories().items()},
            "offered": self.offered,
            "rng": self.rng.state_dict(),
            "order": self.order,
            "cursor": {name: getattr(self, name) for name in CURSOR},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        for name in ("base", "expert", "classifier"):
            getattr(self, name).load_state_dict(state[name])
        for name, memory in self.memories().items():
            memory.load_state_dict(state["memories"][name])
        self.offered = state["offered"]
        self.rng.load_state_dict(state["rng"])
        self.order = state["order"]
        for name in CURSOR:
            setattr(self, name, state["cursor"][name])


def images(spec: Spec) -> View:
    """Return how images are seen; nothing else can be cropped and coloured."""
    if not isinstance(spec.view, View):
        raise TypeError(f"SPR expects images, and {spec.name} has none")
    return spec.view
