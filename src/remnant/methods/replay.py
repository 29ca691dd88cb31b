"""Replay methods: Algorithm 1 of the paper, with seven components that can be exchanged.

`Replay` defines a method; `ReplayLearner` trains it, and can be saved after any step and resumed bit for
bit. B samples of the stream, C classes.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from remnant.buffer import Buffer, Insertion, Replacement, ReplayBatch, Reservoir, Scoring
from remnant.buffer.insertion import Everything
from remnant.buffer.selection import NO_DECISION, Scorer, Selection
from remnant.engine.inference import predict, predict_stored
from remnant.engine.learning_rate import step_decay
from remnant.engine.optimizer import load_momentum, momentum_of, new_sgd, set_learning_rate, weights_of
from remnant.engine.state import clone
from remnant.methods.consolidation import Consolidation, ConsolidationContext, NoConsolidation
from remnant.methods.consolidation.training import ConsolidationLoop
from remnant.methods.epoch_schedule import Always, Phase, Schedule, phases
from remnant.methods.loop import Loop
from remnant.methods.objective import CrossEntropy, Objective, Outcome
from remnant.methods.protocol import (
    Build,
    EpochDone,
    Event,
    NewNet,
    Problem,
    Setup,
    Work,
    WorkPlan,
)
from remnant.methods.rebuild import NoRebuild, Rebuild
from remnant.methods.replay_checks import replay_problems
from remnant.methods.timing import Only, fill, first_steps
from remnant.rng import Generators
from remnant.stream import Batch, Task
from remnant.suspects.trajectory import FORGETTING, LEARNING, Statistics, Trajectory

CONSOLIDATE = "consolidate"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A method that trains on the stream and replays samples from a buffer, defined by its components."""

    objective: Objective = CrossEntropy()
    schedule: Schedule = Always()
    scoring: Scoring = Scoring()
    insertion: Insertion = Everything()
    replacement: Replacement = Reservoir()
    rebuild: Rebuild = NoRebuild()
    consolidation: Consolidation | NoConsolidation = NoConsolidation()
    about: str = field(default="", compare=False)

    unused: ClassVar[tuple[str, ...]] = ()

    def uses_buffer(self, epochs: int) -> bool:
        """Return whether any epoch replays or writes."""
        return any(phase & (Phase.REPLAY | Phase.WRITE) for phase in phases(self.schedule, epochs))

    def build(
        self, setup: Setup, new_net: NewNet, rng: Generators, noise_rate: float | None
    ) -> "ReplayLearner":
        """Build networks, buffer and optimizer."""
        return ReplayLearner(self, setup, new_net, rng, noise_rate)

    def plan(self, setup: Setup, samples: Sequence[int]) -> WorkPlan:
        """Return the planned steps by phase for tasks with these numbers of samples."""
        counts = Counter(phase for phase in phases(self.schedule, setup.training.epochs) if phase)
        steps = sum(math.ceil(n / setup.training.batch) for n in samples)
        works = {phase.label: Work(count * steps, counts.total()) for phase, count in counts.items()}
        consolidation = self.consolidation
        if consolidation.epochs:
            steps = len(samples) * consolidation.epochs * consolidation.steps(setup.buffer_size)
            works[CONSOLIDATE] = Work(steps, consolidation.epochs, "consolidation.lr")
        return WorkPlan(works, setup.buffer_size)

    def check(self, setup: Setup, name: str) -> Iterator[Problem]:
        """Yield the problems of the settings."""
        return replay_problems(self, setup, name)

    def time_steps(self, setup: Setup, build: Build, task: Task) -> dict[str, list[float]]:
        """Return the seconds of a few steps in each phase, and in consolidation, with a full buffer."""
        seconds, training = {}, setup.training
        for phase in {phase for phase in phases(self.schedule, training.epochs) if phase}:
            only = replace(self, schedule=Only(phase), consolidation=NoConsolidation())
            learner = cast(ReplayLearner, build(only, setup))
            fill(learner.buffer, task, len(setup.spec.classes))
            # The number of candidates halfway through the first task, for an average acceptance rate.
            learner.selection.policy["candidates"] = self.insertion.count(len(task)) * training.epochs // 2
            times, _ = first_steps(learner.learn(task))
            seconds[phase.label] = times[1:] or times
        loop = cast(ReplayLearner, build(self, setup)).consolidation
        if loop is not None:
            fill(loop.context.buffer, task, len(setup.spec.classes))
            loop.context.seen.fill_(True)
            times, steps = first_steps(loop.run_last_epoch(task.number))
            planned = loop.consolidation.steps(setup.buffer_size)
            seconds[CONSOLIDATE] = [(times[0] + t * (steps - 1)) / planned for t in times[1:] or times]
        return seconds


class ReplayLearner:
    """Trains a network and fills a buffer according to a replay method."""

    def __init__(
        self, method: Replay, setup: Setup, new_net: NewNet, rng: Generators, noise_rate: float | None
    ) -> None:
        self.method, self.training, self.rng = method, setup.training, rng
        self.transform = setup.spec.transform
        new_net = partial(new_net, normed_head=True) if method.objective.normed_head else new_net
        self.net, classes = new_net("net"), len(setup.spec.classes)
        self.buffer = Buffer(
            setup.buffer_size if method.uses_buffer(setup.training.epochs) else 0,
            setup.spec.shape,
            setup.spec.dtype,
            logits=classes if method.objective.keeps_logits else 0,
            device=setup.device,
        )
        self.selection = Selection(method.insertion, method.replacement, method.scoring, self.buffer)
        self.seen = torch.zeros(classes, dtype=torch.bool, device=setup.device)  # in the stream so far
        self.loop = Loop()
        self.trajectory = Trajectory(classes, setup.device)
        self.saved: dict[str, Any] = {}  # theta_CHK during a forgetting epoch
        self.optimizer = self._new_optimizer()
        self.scorer = Scorer(self.net, self.transform, self._rank)
        self.consolidation: ConsolidationLoop | None = None
        if method.consolidation.epochs:
            context = ConsolidationContext(
                (self.net,), self.buffer, self.transform, rng.consolidate, self.seen, noise_rate
            )
            consolidation = cast(Consolidation, method.consolidation)
            consolidation.check_noise_rate(noise_rate, setup.spec.name)
            self.consolidation = ConsolidationLoop(consolidation, context, new_net)
        self.rebuilt = -1  # the last task after which the buffer was rebuilt
        self.is_consolidated = False  # whether consolidation was the last training

    def learn(self, task: Task) -> Iterator[Event]:  # noqa: C901
        """Learn a task by Algorithm 1, or resume it; comments give the line numbers of the algorithm."""
        training, selection, rng = self.training, self.selection, self.rng
        if self.loop.start(task.number):
            self.optimizer = self._new_optimizer()
            self.trajectory.start(task)
        for epoch in self.loop.epochs(task.number, training.epochs):  # 1
            phase = self.method.schedule(epoch, training.epochs)
            if not phase:
                continue
            if Phase.ROLLBACK in phase and self.loop.starts_epoch:
                self.saved = clone(self._weights())  # 2
            self._start_epoch(epoch, phase, task.number)
            for samples in self.loop.batches(len(task), training.batch, rng.order):  # 3
                batch, outcome, decision = task.take(samples), None, NO_DECISION
                self.seen[batch.y] = True
                if Phase.WRITE in phase:  # scored by the network before the step
                    decision = selection.decide(batch, task.number, self.scorer, rng.buffer)  # 4
                if Phase.REPLAY in phase:  # 5
                    outcome = self._train(batch, samples, replays=True)  # 6
                elif Phase.TRAIN in phase:  # 7
                    outcome = self._train(batch, samples, replays=False)  # 8
                if Phase.WRITE in phase:  # not exclusive: er replays and writes in the same step
                    inserted = batch[decision.positions]  # 9
                    selection.replace(decision, inserted, task.number, _kept_logits(outcome, phase))  # 10
                loss = None if outcome is None else outcome.loss
                yield self.loop.step_done(task.number, phase, loss, len(batch))
            if Phase.TRAIN in phase:
                self.trajectory.end_epoch(task, FORGETTING if Phase.ROLLBACK in phase else LEARNING)
            yield EpochDone(task.number, epoch, phase)
            if Phase.ROLLBACK in phase:  # 11
                self._load_weights(self.saved)  # 12
                self.saved = {}
        if self.rebuilt < task.number:
            self.method.rebuild(self.buffer, task, self.trajectory.mean_margin(), rng.buffer)
            self.rebuilt = task.number
        if self.consolidation is not None and len(self.buffer) > 1:  # BatchNorm needs two samples
            self.is_consolidated = True
            yield from self.consolidation.run(task.number)

    def _start_epoch(self, epoch: int, phase: Phase, task: int) -> None:
        set_learning_rate(
            self.optimizer,
            step_decay(epoch, self.training.epochs, self.training.lr, self.training.lr_drops),
        )
        if not self.loop.starts_epoch:
            return
        if Phase.TRAIN in phase:
            self.is_consolidated = False
        if Phase.WRITE in phase:
            self.selection.scores.expire()
        if Phase.REPLAY in phase and self.method.objective.keeps_logits:
            self._refresh_logits(task)

    def _train(self, batch: Batch, samples: Tensor, replays: bool) -> Outcome:
        """Take a gradient step; replay needs two samples in the buffer, because of BatchNorm."""
        draw = self._draw if replays and len(self.buffer) > 1 else None
        x = self.transform.augmented(batch.x, self.rng.augment)
        if not self.net.training:  # a visit to all layers of a deep network takes a while
            self.net.train()
        outcome = self.method.objective(self.net, x, batch.y, draw, self.seen, self.rng.augment)
        self.optimizer.zero_grad()
        outcome.loss.backward()
        self.optimizer.step()
        self.trajectory.store(samples, outcome.logits)
        return outcome

    def _draw(self, *, strong: bool = False) -> ReplayBatch:
        drawn = self.buffer.draw(self.training.batch, self.rng.buffer)
        augment = self.transform.strong if strong else self.transform.augmented
        return ReplayBatch(augment(drawn.x, self.rng.augment), drawn.y, drawn.logits)

    def _rank(self, logits: Tensor, y: Tensor) -> Tensor:
        return self.method.objective.sample_loss(logits, y, self.seen)

    def _refresh_logits(self, task: int) -> None:
        """Compute logits that are missing and, with alternate replay, those of the current task.

        Samples of forgetting epochs are stored without logits, because the network that stored them is
        rolled back. Logits of an early epoch are those of a network that has not learned the task yet, so
        they are replaced at the start of every learning epoch and kept once the task is over.
        """
        stored = self.buffer.logits[: len(self.buffer)]
        is_due = stored.isnan().any(1).cpu()
        if any(Phase.ROLLBACK in phase for phase in phases(self.method.schedule, self.training.epochs)):
            is_due |= self.buffer.task[: len(self.buffer)] == task
        slots = torch.nonzero(is_due).flatten()
        if len(slots):
            logits = predict_stored(self.net, self.buffer.x, slots, self.transform.plain)
            stored[slots] = logits.to(stored.dtype)

    def statistics(self, task: Task) -> Statistics | None:
        """Return what training has computed about the samples of the current task."""
        return self.trajectory.statistics(task) if self.trajectory.epochs.any() else None

    def buffers(self) -> dict[str, Buffer]:
        """Return the buffer, if there is one."""
        return {"buffer": self.buffer} if self.buffer.capacity else {}

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (B, C) of raw inputs, un-augmented, in eval mode."""
        return predict(self.network(), x, self.transform.plain)

    def network(self) -> nn.Module:
        """Return the network that predicts: after consolidation, that of the consolidation."""
        return self.consolidation.net if self.consolidation and self.is_consolidated else self.net

    def _new_optimizer(self) -> torch.optim.SGD:
        training = self.training
        return new_sgd(self.net.parameters(), training.lr, training.momentum, training.weight_decay)

    def _weights(self) -> dict[str, Any]:
        return {"net": dict(self.net.state_dict()), "momentum": momentum_of(self.optimizer)}

    def _load_weights(self, weights: dict[str, Any]) -> None:
        self.net.load_state_dict(weights["net"])
        load_momentum(self.optimizer, weights["momentum"])

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state; raise Diverged if a weight is not finite."""
        return {
            "weights": self._weights() | {"net": weights_of(self.net)},
            "saved": self.saved,
            "buffer": self.buffer.state_dict(),
            "selection": self.selection.state_dict(),
            "consolidation": {} if self.consolidation is None else self.consolidation.state_dict(),
            "is_consolidated": self.is_consolidated,
            "rebuilt": self.rebuilt,
            "loop": self.loop.state_dict(),
            "trajectory": self.trajectory.state_dict(),
            "rng": self.rng.state_dict(),
            "seen": self.seen,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        if state["saved"]:  # loading them checks that they fit
            self._load_weights(state["saved"])
        self._load_weights(state["weights"])
        self.saved, self.is_consolidated = state["saved"], state["is_consolidated"]
        self.rebuilt = state["rebuilt"]
        self.buffer.load_state_dict(state["buffer"])
        self.selection.load_state_dict(state["selection"])
        self.loop.load_state_dict(state["loop"])
        self.trajectory.load_state_dict(state["trajectory"])
        self.rng.load_state_dict(state["rng"])
        self.seen.copy_(state["seen"])  # in place: the consolidation shares this tensor
        if self.consolidation is not None:
            self.consolidation.load_state_dict(state["consolidation"])


def _kept_logits(outcome: Outcome | None, phase: Phase) -> Tensor | None:
    """Return the logits to store with new samples; those of a network that is rolled back are not stored."""
    return None if outcome is None or Phase.ROLLBACK in phase else outcome.logits
