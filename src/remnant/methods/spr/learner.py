"""The training loop of SPR: self-supervised features, and a buffer of samples central in their class.

Samples of the stream fill a delayed buffer. When it is full, a new expert network is trained on it
without labels, and the base network is trained further on it and on the purified buffer. Samples that are
central in their class, by the features of the expert, are then moved to the purified buffer. At the end of
a task, a copy of the base network is trained as a classifier on the purified buffer. B samples of the
stream, C classes.
"""

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.buffer import Buffer, Candidates
from remnant.buffer.buffer import written
from remnant.engine.inference import device_of, predict
from remnant.engine.learning_rate import cosine
from remnant.engine.optimizer import AdamTrainer
from remnant.engine.state import restore
from remnant.methods.epoch_schedule import Phase
from remnant.methods.loop import Loop, even_batches
from remnant.methods.protocol import EpochDone, Event, NewNet, SamplesSplit, Setup, StepDone
from remnant.methods.spr.centrality import clean_probability
from remnant.methods.spr.method import BASE, CLASSIFIER, EXPERT, Spr
from remnant.methods.spr.partition import partitioned
from remnant.methods.spr.simclr import contrastive_loss, strong_view
from remnant.nets.head import linear_head
from remnant.rng import Generators
from remnant.stream import Batch, Task
from remnant.transforms.image import ImageTransform

NETS, LOOPS = ("base", "expert", "classifier"), ("stream", "fill", "tuning")
VALUES = ("doubt", "offered", "stored", "fills")  # of a learner, saved as they are


class SprLearner:
    """Two buffers and three networks: the expert of the last fill, the base network, and the classifier."""

    def __init__(self, settings: Spr, setup: Setup, new_net: NewNet, rng: Generators) -> None:
        """Build networks and buffers; all sizes in `settings` must be given."""
        self.settings, self.training, self.new_net, self.rng = settings, setup.training, new_net, rng
        self.transform = cast(ImageTransform, setup.spec.transform)  # guaranteed by Spr.check
        shape, dtype, device = setup.spec.shape, setup.spec.dtype, setup.device
        self.delayed = Buffer(settings.delay, shape, dtype, device=device)
        self.purified = Buffer(settings.purified, shape, dtype, device=device)
        self.doubt = torch.full((settings.purified,), torch.nan, dtype=torch.float64)  # of purified samples
        self.offered = torch.zeros(len(setup.spec.classes), dtype=torch.long)  # candidates of each class
        self.base, self.expert = self._contrastive("base"), self._contrastive("expert")
        self.classifier = AdamTrainer(new_net("classifier"))
        self.stream, self.fill, self.tuning = Loop(), Loop(), Loop()
        self.stored = 0  # samples of the current batch that are in the delayed buffer
        self.fills = 0  # how often the delayed buffer was full

    def buffers(self) -> dict[str, Buffer]:
        """Return the purified and the delayed buffer."""
        return {"purified": self.purified, "delayed": self.delayed}

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (B, C) of the classifier that was trained at the end of the last task."""
        return predict(self.classifier.net, x, self.transform.plain)

    def network(self) -> nn.Module:
        """Return the network that predicts."""
        return self.classifier.net

    def statistics(self, task: Task) -> None:
        """Return None, because no network is trained on the stream itself."""

    def learn(self, task: Task) -> Iterator[Event]:
        """Learn a task, or resume it: fill and purify in every epoch, then train a classifier.

        Each sample is filtered once per epoch: an epoch fills the delayed buffer in equal parts, so that
        no sample is left over for the next epoch, where it would occur twice.
        """
        training = self.training
        for epoch in self.stream.epochs(task.number, training.epochs):
            for samples in self.stream.batches(len(task), training.batch, self.rng.order):
                yield from self._store(task.take(samples), task.number)
                self.stored = 0
                yield self.stream.step_done(task.number, Phase.WRITE, None, len(samples))
            yield EpochDone(task.number, epoch, Phase.WRITE)
        if self.tuning.start(task.number):
            self._new_classifier(task.number)
        yield from self._finetune(task.number)

    def _store(self, batch: Batch, task: int) -> Iterator[Event]:
        """Put the samples of a batch into the delayed buffer; purify it whenever a part is complete."""
        buffer, order = self.delayed, self.stream.order
        before = sum(map(len, even_batches(order, self.training.batch)[: self.stream.step]))
        ends = list(accumulate(map(len, even_batches(order, buffer.capacity))))
        while True:
            begin = before + self.stored - len(buffer)
            end = next((end for end in ends if end > begin), begin)
            if len(buffer) and begin + len(buffer) == end:
                yield from self._purify(task)
                continue
            if self.stored == len(batch):
                return
            part = torch.arange(self.stored, len(batch))[: end - before - self.stored]
            buffer.put(len(buffer) + torch.arange(len(part)), batch[part], task)
            self.stored += len(part)

    def _purify(self, task: int) -> Iterator[Event]:
        """Train a new expert and the base network, keep central samples, and empty the delayed buffer."""
        if self.fill.start(self.fills):
            self.expert = self._contrastive(f"expert of fill {self.fills}")
        steps = self.settings.steps_per_fill(self.training.epochs)
        for stage in self.fill.epochs(self.fills, len(steps)):
            for step in self.fill.each(range(steps[stage])):
                lr = cosine(step, steps[stage], self.settings.lr)
                yield self._contrast(task, EXPERT if stage == 0 else BASE, lr)
        self._filter(task)
        yield SamplesSplit(task, self.stream.epoch)
        self.delayed.size = 0
        self.fills += 1

    def _contrast(self, task: int, kind: str, lr: float) -> StepDone:
        """Take a contrastive step on two views of each image; no labels are used."""
        trainer = self.expert if kind == EXPERT else self.base
        x = self._fresh(self.settings.batch) if kind == EXPERT else self._with_replay()
        views = [strong_view(x, self.transform.flip, self.rng.augment) for _ in range(2)]
        trainer.net.train()
        z = trainer.net(self.transform.normalised(torch.cat(views)))
        loss = trainer.step(contrastive_loss(z, self.settings.temperature), lr)
        return self.fill.step_done(task, Phase.CONSOLIDATE, loss, len(x), epoch=self.stream.epoch, kind=kind)

    def _fresh(self, count: int) -> Tensor:
        return self.delayed.draw(count, self.rng.buffer).x

    def _with_replay(self) -> Tensor:
        """Return delayed samples; half of them are purified ones if the purified buffer is full."""
        batch = self.settings.batch
        if len(self.purified) < self.purified.capacity:
            return self._fresh(batch)
        fresh = self._fresh(batch // 2)
        return torch.cat([fresh, self.purified.draw(batch - batch // 2, self.rng.buffer).x])

    def _filter(self, task: int) -> None:
        """Offer samples to the purified buffer, each with the probability that its label is clean."""
        samples, rng = self.delayed.samples(), self.rng.buffer
        z = predict(self.expert.net, samples.x, self.transform.plain).cpu()
        y = samples.y.cpu()
        clean = clean_probability(z, y, rng)
        uniforms = torch.rand(len(samples), 3, generator=rng, dtype=torch.float64)
        kept = torch.nonzero(clean > uniforms[:, 0]).flatten()
        offer = Candidates(kept, y[kept], samples.id[kept], 1 - clean[kept])
        slots = partitioned(self.purified, self.doubt, offer, self.offered, uniforms[kept, 1:])
        self.purified.put(slots, samples[kept], task)
        at, i = written(slots)
        self.doubt[at] = offer.loss[i]

    def _finetune(self, task: int) -> Iterator[Event]:
        """Train the classifier on the purified buffer, if it has the two samples BatchNorm needs."""
        settings, buffer = self.settings, self.purified
        if len(buffer) < 2:
            return
        planned = math.ceil(buffer.capacity / settings.finetune_batch)
        for epoch in self.tuning.epochs(task, settings.finetune_epochs):
            for samples in self.tuning.batches(len(buffer), settings.finetune_batch, self.rng.consolidate):
                drops = (epoch * self.tuning.steps + self.tuning.step) // settings.finetune_drop
                loss = self._classify(
                    buffer.x[samples], buffer.y[samples], settings.finetune_lr * 10.0**-drops
                )
                planned_per_step = planned / self.tuning.steps
                yield self.tuning.step_done(
                    task, Phase.CONSOLIDATE, loss, len(samples), planned=planned_per_step, kind=CLASSIFIER
                )
            yield EpochDone(task, epoch, Phase.CONSOLIDATE, kind=CLASSIFIER)

    def _classify(self, x: Tensor, y: Tensor, lr: float) -> Tensor:
        net = self.classifier.net.train()
        return self.classifier.step(F.cross_entropy(net(self.transform.plain(x)), y), lr, self.settings.clip)

    def _new_classifier(self, task: int) -> None:
        """Start from a copy of the base network's features and a new head."""
        net = self.new_net(f"classifier after task {task}")
        weights = self.base.net.state_dict()
        features = {name: weights[name] for name in weights if not name.startswith("head.")}
        net.load_state_dict(features, strict=False)
        self.classifier = AdamTrainer(net)

    def _contrastive(self, name: str) -> AdamTrainer:
        """Return a new network with a two-layer projection as its head."""
        net = self.new_net(name)
        inputs = linear_head(net, "SPR replaces the head").in_features
        seed = int(torch.randint(1 << 62, (), generator=self.rng.consolidate))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net.head = nn.Sequential(
                nn.Linear(inputs, inputs), nn.ReLU(), nn.Linear(inputs, self.settings.features)
            ).to(device_of(net))
        return AdamTrainer(net)

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state; raise Diverged if a weight is not finite."""
        return {
            **{name: getattr(self, name).state_dict() for name in (*NETS, *LOOPS, "rng")},
            "buffers": {name: buffer.state_dict() for name, buffer in self.buffers().items()},
            **{name: getattr(self, name) for name in VALUES},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        for name in (*NETS, *LOOPS, "rng"):
            getattr(self, name).load_state_dict(state[name])
        for name, buffer in self.buffers().items():
            buffer.load_state_dict(state["buffers"][name])
        restore(self, {name: state[name] for name in VALUES}, names=VALUES)
