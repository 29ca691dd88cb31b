"""The frame of every consolidation: epochs over the memory alone, on rates with warm restarts.

A consolidation is a value. It says how the rows of the memory are divided when an epoch begins, which
batches the epoch has, and what the loss of a batch is. `Fit` does the rest, can be cut at any step, and
goes on bit for bit. n rows in memory, K networks, C classes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.augment import View
from remnant.component import tuned
from remnant.memory import Memory
from remnant.predict import cross_entropy, predict
from remnant.protocol import Division, EpochDone, Event, StepDone
from remnant.schedule import Phase
from remnant.sgd import load_momentum, momentum_of, new_sgd, set_rate
from remnant.stream import even_batches

NewNet = Callable[[str], nn.Module]  # a name -> a network whose first weights depend on it alone


@dataclass(frozen=True, eq=False)
class Bench:
    """What a consolidation works on."""

    nets: tuple[nn.Module, ...]  # the first one is tested
    memory: Memory
    view: View
    rng: torch.Generator
    seen: Tensor  # (C,) which classes have been met
    noise_rate: float  # share of wrong labels, as far as it is known

    def augmented(self, rows: Tensor) -> Tensor:
        """Return a new view of these rows."""
        return self.view.augmented(self.memory.x[rows], self.rng)

    def onehot(self, rows: Tensor) -> Tensor:
        """Return the stored labels as distributions, (B, C)."""
        return F.one_hot(self.memory.y[rows], len(self.seen)).float()

    def losses(self, net: nn.Module) -> Tensor:
        """Return the loss of every stored row, un-augmented, (n,)."""
        rows = self.memory.rows()
        return cross_entropy(predict(net, rows.x, self.view.plain), rows.y)

    def guess(self, nets: Sequence[nn.Module], views: Sequence[Tensor]) -> Tensor:
        """Return for each row the mean prediction over networks and its own views, (B, C)."""
        x = torch.cat(list(views))
        each = torch.stack([predict(net, x, lambda part: part).softmax(1) for net in nets])
        return each.view(len(nets) * len(views), -1, len(self.seen)).mean(0)


class Part(NamedTuple):
    """The rows of one step, and the networks that learn from them."""

    nets: tuple[int, ...]
    rows: Tensor


@dataclass(frozen=True)
class Nothing:
    """Nothing is done at the end of a task."""


@dataclass(frozen=True, kw_only=True)
class Consolidation(ABC):
    """A way to learn from the memory alone: what all of them can be told, and what each must answer."""

    lr: float = tuned(0.05)
    epochs: int = tuned(255)  # 1 + 2 + 4 + ... + 128: whole cycles of the rate
    batch: int = 64  # rows of the memory in a step
    from_scratch: bool = False  # new networks, only tested; else the stream's network, which goes on
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0  # largest norm of a network's gradient; 0: any

    networks: ClassVar[int] = 1

    def __post_init__(self) -> None:
        expect(
            {
                "lr > 0": self.lr > 0,
                "epochs >= 1": self.epochs >= 1,
                "batch >= 3": self.batch >= 3,  # so that no batch has one row: BatchNorm needs two
                "momentum in [0, 1)": 0 <= self.momentum < 1,
                "weight_decay >= 0": self.weight_decay >= 0,
                "clip >= 0": self.clip >= 0,
            },
            self,
        )

    def divide(self, bench: Bench, epoch: int) -> Division | None:
        """Say at the start of an epoch which labels are trusted; None: no opinion."""
        return None

    def parts(self, order: Tensor, division: Division | None) -> list[Part]:
        """Return the batches of an epoch; `order` holds all rows of the memory, shuffled."""
        everyone = tuple(range(self.networks))
        return [Part(everyone, rows) for rows in even_batches(order, self.batch)]

    @abstractmethod
    def loss(self, bench: Bench, part: Part, division: Division | None, epoch: int) -> Tensor:
        """Return what a step minimises, a scalar."""


def expect(rules: dict[str, bool], settings: object) -> None:
    """Refuse settings that break a rule, which begins with the setting's name."""
    wrong = [
        f"expected {rule}, got {getattr(settings, rule.split()[0])}" for rule in rules if not rules[rule]
    ]
    if wrong:
        raise ValueError("; ".join(wrong))


def plain_loss(bench: Bench, part: Part) -> Tensor:
    """Return cross-entropy on one view of the rows, added up over the networks that learn."""
    x, y = bench.augmented(part.rows), bench.memory.y[part.rows]
    return torch.stack([F.cross_entropy(bench.nets[k](x), y) for k in part.nets]).sum()


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

    def __init__(
        self, how: Consolidation, net: nn.Module, new_net: NewNet, memory: Memory, view: View,
        rng: torch.Generator, seen: Tensor, noise_rate: float,
    ) -> None:  # fmt: skip
        self.how, self.new_net = how, new_net
        self.own = {name: new_net(name) for name in self._own_names()}
        nets = tuple(self.own.values()) if how.from_scratch else (net, *self.own.values())
        self.bench = Bench(nets, memory, view, rng, seen, noise_rate)
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
        planned = math.ceil(self.bench.memory.capacity / self.how.batch)
        while self.epoch < self.how.epochs:
            if not len(self.order):
                self._begin_epoch()
            parts = self.how.parts(self.order, self.division)
            for part in parts[self.step :]:
                loss = self._step(part)
                self.step += 1
                yield StepDone(
                    task, self.epoch, self.step, len(parts), Phase.CONSOLIDATE, loss, len(part.rows),
                    share=planned / len(parts),
                )  # fmt: skip
            yield EpochDone(task, self.epoch, Phase.CONSOLIDATE, self.division)
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
        return new_sgd(parameters, self.how.lr, self.how.momentum, self.how.weight_decay)

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes, but for the stream's network and the memory."""
        division = self.division
        return {
            "nets": {name: dict(net.state_dict()) for name, net in self.own.items()},
            "momentum": momentum_of(self.optimizer),
            "order": self.order,
            "clean": None if division is None else division.clean,
            "plain": None if division is None else list(division.plain),
            "cursor": [self.task, self.epoch, self.step],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        for name, net in self.own.items():
            net.load_state_dict(state["nets"][name])
        load_momentum(self.optimizer, state["momentum"])
        self.order = state["order"]
        clean = state["clean"]
        self.division = None if clean is None else Division(clean, tuple(state["plain"]))
        self.task, self.epoch, self.step = state["cursor"]
        set_rate(self.optimizer, sgdr(self.epoch, self.how.lr))
