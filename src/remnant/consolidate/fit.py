"""The frame of every consolidation: epochs over the memory alone, on rates with warm restarts.

It yields after each step, can be cut there, and goes on bit for bit.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from remnant.consolidate.choice import Bench, Consolidation, Part
from remnant.nets import NewNet
from remnant.protocol import CONSOLIDATE, Division, EpochDone, Event, StepDone
from remnant.schedule import Phase
from remnant.sgd import load_momentum, momentum_of, new_sgd, set_rate, weights_of


def sgdr(epoch: int, lr: float) -> float:
    """Return the rate with warm restarts: cosines from lr to lr / 100 over 1, 2, 4, 8, ... epochs.

    >>> [round(sgdr(epoch, 1.0), 3) for epoch in range(7)]
    [1.0, 1.0, 0.505, 1.0, 0.855, 0.505, 0.155]
    """
    length = 1 << (epoch + 1).bit_length() - 1
    done = (epoch + 1 - length) / length
    return lr * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)


class Fit:
    """A consolidation in progress, or the one that the last task ended with."""

    def __init__(self, how: Consolidation, stream: Bench, new_net: NewNet) -> None:
        """Make the networks that are missing; `stream` is a bench with the stream's network alone."""
        self.how, self.new_net = how, new_net
        self.own = {name: new_net(name) for name in self._own_names()}
        others = tuple(self.own.values())
        self.bench = replace(stream, nets=others if how.from_scratch else (*stream.nets, *others))
        self.task, self.epoch, self.step = -1, 0, 0
        self.order = torch.empty(0, dtype=torch.long)  # of the memory's rows; empty between epochs
        self.division: Division | None = None
        self.optimizer = self._new_optimizer()

    def _own_names(self) -> list[str]:
        """Name the networks that the stream never trains."""
        names = ["memory's net", "memory's second net"][: self.how.networks]
        return names if self.how.from_scratch else names[1:]

    @property
    def net(self) -> nn.Module:
        """Return the network to be tested."""
        return self.bench.nets[0]

    def run(self, task: int) -> Iterator[Event]:
        """Go through the epochs, from wherever the cursor stands; one row is too few to learn from."""
        if len(self.bench.memory) < 2:
            return
        if self.task != task:
            self._begin(task)
        planned = self.how.steps(self.bench.memory.capacity)
        while self.epoch < self.how.epochs:
            if not len(self.order):
                self._begin_epoch()
            parts = self.how.parts(self.order, self.division)
            for part in parts[self.step :]:
                loss = self._step(part)
                self.step += 1
                yield StepDone(
                    task, self.epoch, self.step, len(parts), Phase.CONSOLIDATE, loss, len(part.rows),
                    planned / len(parts), CONSOLIDATE,
                )  # fmt: skip
            yield EpochDone(task, self.epoch, Phase.CONSOLIDATE, self.division, CONSOLIDATE)
            self.epoch, self.step = self.epoch + 1, 0
            self.order = self.order[:0]

    def _begin(self, task: int) -> None:
        self.task, self.epoch, self.step = task, 0, 0
        if self.how.from_scratch:
            for name, net in self.own.items():
                net.load_state_dict(self.new_net(f"{name} after task {task}").state_dict())
        self.optimizer = self._new_optimizer()

    def _begin_epoch(self) -> None:
        self.division = self.how.divide(self.bench, self.epoch)
        self.order = torch.randperm(len(self.bench.memory), generator=self.bench.rng)
        set_rate(self.optimizer, sgdr(self.epoch, self.how.lr))

    def _step(self, part: Part) -> float:
        for k in part.nets:
            self.bench.nets[k].train()
        loss = self.how.loss(self.bench, part, self.division, self.epoch)
        self.optimizer.zero_grad()
        loss.backward()
        if self.how.clip:
            for k in part.nets:
                nn.utils.clip_grad_norm_(self.bench.nets[k].parameters(), self.how.clip)
        self.optimizer.step()  # a network without gradients stays as it is
        return loss.item()

    def _new_optimizer(self) -> torch.optim.SGD:
        # One optimizer for all networks: there is no second rate that could be forgotten.
        parameters = [p for net in self.bench.nets for p in net.parameters()]
        how = self.how
        return new_sgd(parameters, how.lr, how.momentum, how.weight_decay, how.nesterov)

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes, but for the stream's network and the memory."""
        division = self.division
        return {
            "nets": {name: weights_of(net) for name, net in self.own.items()},
            "momentum": momentum_of(self.optimizer),
            "order": self.order,
            "clean": None if division is None else division.clean,
            "plain": None if division is None else list(division.plain),
            "relabel": None if division is None else division.relabel,
            "cursor": [self.task, self.epoch, self.step],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        for name, net in self.own.items():
            net.load_state_dict(state["nets"][name])
        load_momentum(self.optimizer, state["momentum"])
        self.order = state["order"]
        clean = state["clean"]
        if clean is not None:
            self.division = Division(clean, tuple(state["plain"]), state["relabel"])
        self.task, self.epoch, self.step = state["cursor"]
        set_rate(self.optimizer, sgdr(self.epoch, self.how.lr))
