"""The training loop of every consolidation: epochs over the buffer alone, with warm restarts.

It yields an event after each step, and can be interrupted there and resumed bit for bit.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from remnant.engine.learning_rate import warm_restarts
from remnant.engine.optimizer import load_momentum, momentum_of, new_sgd, set_learning_rate, weights_of
from remnant.methods.consolidation.base import Consolidation, ConsolidationContext, StepBatch
from remnant.methods.consolidation.division import Division
from remnant.methods.epoch_schedule import Phase
from remnant.methods.loop import Loop
from remnant.methods.protocol import EpochDone, Event, NewNet


class ConsolidationLoop:
    """Runs a consolidation at the end of each task."""

    def __init__(self, consolidation: Consolidation, context: ConsolidationContext, new_net: NewNet) -> None:
        """Build additional networks; `context` has only the network that is trained on the stream."""
        self.consolidation, self.new_net = consolidation, new_net
        # The names determine the initial weights: renaming one changes all results.
        names = ["memory's net", "memory's second net"][: consolidation.networks]
        from_scratch = consolidation.from_scratch
        self.own = {name: new_net(name) for name in (names if from_scratch else names[1:])}
        nets = tuple(self.own.values())
        self.context = replace(context, nets=nets if from_scratch else (*context.nets, *nets))
        self.loop = Loop()
        self.division: Division | None = None
        self.optimizer = self._new_optimizer()

    @property
    def net(self) -> nn.Module:
        """Return the network that is evaluated."""
        return self.context.nets[0]

    def run(self, task: int) -> Iterator[Event]:
        """Train for the remaining epochs."""
        consolidation, context = self.consolidation, self.context
        if self.loop.start(task):
            self._start(task)
        planned = consolidation.steps(context.buffer.capacity)
        for epoch in self.loop.epochs(task, consolidation.epochs):
            set_learning_rate(self.optimizer, warm_restarts(epoch, consolidation.lr))
            if self.loop.starts_epoch:
                self.division = consolidation.divide(context, epoch)
            order = self.loop.shuffled(len(context.buffer), context.rng)
            batches = consolidation.batches(order, self.division)
            for step in self.loop.each(batches):
                loss = self._step(step, epoch)
                yield self.loop.step_done(
                    task, Phase.CONSOLIDATE, loss, len(step.samples), planned=planned / len(batches)
                )
            yield EpochDone(task, epoch, Phase.CONSOLIDATE, self.division)

    def run_last_epoch(self, task: int) -> Iterator[Event]:
        """Run the last epoch, which is after any warm-up, for timing."""
        last = self.consolidation.epochs - 1
        self.consolidation.divide(self.context, last)  # the first call includes imports
        self.loop.start(task)
        self.loop.epoch = last
        return self.run(task)

    def _start(self, task: int) -> None:
        if self.consolidation.from_scratch:
            for name, net in self.own.items():
                net.load_state_dict(self.new_net(f"{name} after task {task}").state_dict())
        self.optimizer = self._new_optimizer()

    def _step(self, step: StepBatch, epoch: int) -> Tensor:
        nets = [self.context.nets[k] for k in step.nets]
        for net in nets:
            net.train()
        loss = self.consolidation.loss(self.context, step, self.division, epoch)
        self.optimizer.zero_grad()
        loss.backward()
        if self.consolidation.clip:
            for net in nets:
                nn.utils.clip_grad_norm_(net.parameters(), self.consolidation.clip)
        self.optimizer.step()  # a network without gradients does not change
        return loss

    def _new_optimizer(self) -> torch.optim.SGD:
        # One optimizer for all networks, so that one learning rate applies to all of them.
        parameters = [p for net in self.context.nets for p in net.parameters()]
        settings = self.consolidation
        return new_sgd(parameters, settings.lr, settings.momentum, settings.weight_decay, settings.nesterov)

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state, except the network of the stream and the buffer."""
        division = self.division
        return {
            "nets": {name: weights_of(net) for name, net in self.own.items()},
            "momentum": momentum_of(self.optimizer),
            "loop": self.loop.state_dict(),
            "clean": None if division is None else division.clean,
            "fallback": None if division is None else list(division.fallback),
            "relabel": None if division is None else division.relabel,
            "predicted": None if division is None else division.predicted,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        for name, net in self.own.items():
            net.load_state_dict(state["nets"][name])
        load_momentum(self.optimizer, state["momentum"])
        self.loop.load_state_dict(state["loop"])
        if state["clean"] is not None:
            fallback, relabel, predicted = (state[name] for name in ("fallback", "relabel", "predicted"))
            self.division = Division(state["clean"], tuple(fallback), relabel, predicted)
