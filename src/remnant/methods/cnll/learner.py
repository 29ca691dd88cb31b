"""The training loop of CNLL: delayed samples are split into clean and noisy, stored, and trained on.

It yields an event after each stored batch of the stream and after each gradient step, and can be resumed
from there bit for bit. n samples, C classes.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.buffer import Buffer
from remnant.engine.inference import predict
from remnant.engine.optimizer import load_momentum, momentum_of, new_sgd, set_learning_rate, weights_of
from remnant.engine.state import restore
from remnant.methods.cnll.buffers import insert, joined
from remnant.methods.cnll.method import BUFFERS, FINE_TUNING, WARM_UP, Cnll
from remnant.methods.cnll.purify import disagreement, split
from remnant.methods.cnll.semi import Augmenter, TwoHeads, fine_tuning_loss, warm_up_loss
from remnant.methods.epoch_schedule import Phase
from remnant.methods.loop import Loop, even_batches
from remnant.methods.protocol import EpochDone, Event, NewNet, SamplesSplit, Setup
from remnant.rng import Generators
from remnant.stream import Batch, Task

VALUES = ("stored", "unlabelled", "seen")  # of a learner, saved as they are


@dataclass(frozen=True, eq=False)
class Stage:
    """A kind of training: warm-up or fine-tuning."""

    name: str
    epochs: int
    lr: float
    samples: int  # labelled samples per epoch
    unlabelled: int  # unlabelled samples to choose from
    loss: Callable[[Tensor, Tensor, float], Tensor]  # (samples, unlabelled, epochs so far) -> a scalar


class CnllLearner:
    """A network with two heads, and five buffers.

    Labels in the noisy buffers are stored for the metrics only; they are not used in training.
    """

    def __init__(self, settings: Cnll, setup: Setup, new_net: NewNet, rng: Generators) -> None:
        """Build network and buffers; all sizes in `settings` must be given."""
        self.settings, self.training, self.spec, self.rng = settings, setup.training, setup.spec, rng
        self.net = TwoHeads(new_net("net"), new_net("second head"))
        self.augmenter = Augmenter(setup.spec.transform, rng.consolidate)
        self.seen = torch.zeros(len(setup.spec.classes), dtype=torch.bool, device=setup.device)
        self.stores = {name: self._new_buffer(name) for name in BUFFERS}
        self.policies: dict[str, dict[str, Any]] = {name: {} for name in BUFFERS}  # reservoir sampling
        self.stream, self.stage = Loop(), Loop()
        self.stored = 0  # samples of the current batch that are in the delay buffer
        self.unlabelled = torch.empty(0, dtype=torch.long)  # order of the unlabelled samples in an epoch
        self.optimizer = self._new_optimizer()

    def buffers(self) -> dict[str, Buffer]:
        """Return the five buffers; the first one is replayed with labels."""
        return dict(self.stores)

    def predict(self, x: Tensor) -> Tensor:
        """Return the logits (B, C) of the first head for raw inputs, un-augmented, in eval mode."""
        return predict(self.net, x, self.spec.transform.plain)

    def network(self) -> nn.Module:
        """Return the network that predicts."""
        return self.net

    def statistics(self, task: Task) -> None:
        """Return None, because no network is trained on the stream itself."""

    def learn(self, task: Task) -> Iterator[Event]:
        """Learn a task, or resume it."""
        training = self.training
        for epoch in self.stream.epochs(task.number, training.epochs):
            for samples in self.stream.batches(len(task), training.batch, self.rng.order):
                yield from self._store(task, samples)
                self.stored = 0
                yield self.stream.step_done(task.number, Phase.WRITE, None, len(samples))
            yield from self._process_delayed(task, ends_epoch=True)
            yield EpochDone(task.number, epoch, Phase.WRITE)

    def _store(self, task: Task, samples: Tensor) -> Iterator[Event]:
        """Store the samples of a batch; whenever the delay buffer is full, split it and train."""
        while self.stored < len(samples):
            if self._is_full("delay") or self._is_full("clean"):
                yield from self._process_delayed(task, ends_epoch=False)
            room = self.settings.delay - len(self.stores["delay"])
            batch = task.take(samples[self.stored : self.stored + room])
            self.seen[batch.y] = True
            self._insert("delay", batch, task.number)
            self.stored += len(batch)

    def _process_delayed(self, task: Task, ends_epoch: bool) -> Iterator[Event]:
        """Warm up on the delay buffer and split it; fine-tune if the clean buffer is full.

        Both are always done at the end of an epoch: samples that are left over would be split again in the
        next epoch, or compared with the classes of the next task.
        """
        if len(self.stores["delay"]):
            if len(self.stores["delay"]) > 1:  # BatchNorm needs two
                yield from self._train(self._warm_up(), task.number)
            self._split(task)
            yield SamplesSplit(task.number, self.stream.epoch)
            self._empty("delay")
        if self._is_full("clean") or (ends_epoch and len(self.stores["clean"])):
            yield from self._train(self._fine_tuning(), task.number)
            self._empty("clean", "noisy")
        elif ends_epoch:
            self._empty("noisy")

    def _split(self, task: Task) -> None:
        """Split the delay buffer by the predictions of the first head; store the most confident samples.

        A sample that was stored as clean is removed if it is noisy now, and vice versa.
        """
        settings, waiting = self.settings, self.stores["delay"].samples()
        classes = torch.tensor(task.classes)
        logits, y = self.predict(waiting.x).cpu(), waiting.y.cpu()
        distance = disagreement(logits, y, classes, settings.hardened)
        clean, noisy = split(distance)
        self.stores["clean_store"].remove(waiting.id[noisy])
        self.stores["noisy_store"].remove(waiting.id[clean])
        self._insert("clean", waiting[clean], task.number)
        self._insert("noisy", waiting[noisy], task.number)
        self._insert("clean_store", waiting[clean[: settings.clean_kept]], task.number)
        self._insert("noisy_store", waiting[noisy[: settings.noisy_kept]], task.number)

    def _warm_up(self) -> Stage:
        settings, waiting = self.settings, self.stores["delay"].samples()

        def loss(samples: Tensor, unlabelled: Tensor, epochs: float) -> Tensor:
            x, onehot = self.augmenter.weak(waiting.x[samples]), self._onehot(waiting.y[samples])
            return warm_up_loss(self.net, x, onehot, settings.confidence_penalty)

        return Stage(WARM_UP, settings.warmup_epochs, settings.warmup_lr, len(waiting), 0, loss)

    def _fine_tuning(self) -> Stage:
        settings = self.settings
        labelled, others = self.pools()

        def loss(samples: Tensor, unlabelled: Tensor, epochs: float) -> Tensor:
            clean, noisy = labelled[samples], others[unlabelled]
            views = self.augmenter.views(clean.x, self._onehot(clean.y), noisy.x, settings.mixup)
            parts = fine_tuning_loss(self.net, views, settings, epochs, self.seen)
            return parts.supervised + parts.unsupervised

        return Stage(
            FINE_TUNING, settings.finetune_epochs, settings.finetune_lr, len(labelled), len(others), loss
        )

    def pools(self) -> tuple[Batch, Batch]:
        """Return the samples for training with and without labels, each sample once."""
        clean, noisy, clean_store, noisy_store = (
            self.stores[name].samples() for name in ("clean", "noisy", "clean_store", "noisy_store")
        )
        labelled = joined(clean_store[~torch.isin(clean_store.id, clean.id)], clean)
        return labelled, joined(noisy_store[~torch.isin(noisy_store.id, noisy.id)], noisy)

    def _train(self, stage: Stage, task: int) -> Iterator[Event]:
        """Train for the remaining epochs of a stage."""
        loop, rng, size = self.stage, self.rng.consolidate, self.settings.batch
        if loop.start(stage.name):
            self.optimizer = self._new_optimizer()
        steps = math.ceil(stage.samples / size)
        for epoch in loop.epochs(stage.name, stage.epochs):
            set_learning_rate(self.optimizer, stage.lr)
            is_new = loop.starts_epoch
            order = loop.shuffled(stage.samples, rng)
            if is_new:  # as many as labelled samples, but at most all of them per step
                total = min(stage.samples, steps * stage.unlabelled)
                self.unlabelled = rounds(stage.unlabelled, total, rng)
            parts = zip(even_batches(order, size), self.unlabelled.tensor_split(steps), strict=True)
            for samples, unlabelled in loop.each(list(parts)):
                loss = self._step(stage.loss(samples, unlabelled, epoch + loop.step / steps))
                count = len(samples) + len(unlabelled)
                yield loop.step_done(task, Phase.CONSOLIDATE, loss, count, kind=stage.name)
        loop.start("")  # the next stage of the same name starts from the beginning

    def _step(self, loss: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()  # a head without gradients does not change
        return loss

    def _onehot(self, y: Tensor) -> Tensor:
        return F.one_hot(y, len(self.seen)).float()

    def _is_full(self, name: str) -> bool:
        return len(self.stores[name]) == self.stores[name].capacity

    def _insert(self, name: str, samples: Batch, task: int) -> None:
        if self.settings.unlimited and name.endswith("_store"):
            self.stores[name].reserve(len(samples))
        insert(self.stores[name], self.policies[name], samples, task, self.rng.buffer)

    def _new_buffer(self, name: str) -> Buffer:
        return Buffer(getattr(self.settings, name), self.spec.shape, self.spec.dtype, device=self.seen.device)

    def _empty(self, *names: str) -> None:
        self.stores |= {name: self._new_buffer(name) for name in names}
        self.policies |= {name: {} for name in names}

    def _new_optimizer(self) -> torch.optim.SGD:
        settings = self.settings
        return new_sgd(self.net.parameters(), settings.finetune_lr, settings.momentum, settings.weight_decay)

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state; raise Diverged if a weight is not finite."""
        return {
            "net": weights_of(self.net),
            "momentum": momentum_of(self.optimizer),
            "buffers": {name: buffer.state_dict() for name, buffer in self.stores.items()},
            "policies": {name: dict(state) for name, state in self.policies.items()},
            **{name: getattr(self, name).state_dict() for name in ("stream", "stage", "rng")},
            **{name: getattr(self, name) for name in VALUES},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.net.load_state_dict(state["net"])
        self.optimizer = self._new_optimizer()
        load_momentum(self.optimizer, state["momentum"])
        for name, buffer in self.stores.items():
            buffer.load_state_dict(state["buffers"][name])
        self.policies = {name: dict(state["policies"][name]) for name in self.policies}
        for name in ("stream", "stage", "rng"):
            getattr(self, name).load_state_dict(state[name])
        restore(self, {name: state[name] for name in VALUES}, varying=("unlabelled",), names=VALUES)


def rounds(count: int, total: int, rng: torch.Generator) -> Tensor:
    """Return `total` indices below `count` from repeated permutations; counts differ by at most one."""
    permutations = [torch.randperm(count, generator=rng) for _ in range(math.ceil(total / max(1, count)))]
    return torch.cat(permutations)[:total] if permutations else torch.empty(0, dtype=torch.long)
