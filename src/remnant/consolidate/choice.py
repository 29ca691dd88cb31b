"""What a consolidation is: a value that learns from the memory alone, and what it works on.

It says how the rows of the memory are divided when an epoch begins, which batches the epoch has, and
what the loss of a batch is. n rows in memory, B of them in a batch, C classes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.component import expect, tuned
from remnant.data.source import AnyView
from remnant.memory import Memory
from remnant.predict import cross_entropy, predict
from remnant.protocol import Division
from remnant.stream import even_batches


@dataclass(frozen=True, eq=False)
class Bench:
    """What a consolidation works on."""

    nets: tuple[nn.Module, ...]  # the first one is tested; the stream's, unless from scratch
    memory: Memory
    view: AnyView
    rng: torch.Generator
    seen: Tensor  # (C,) which classes have been met
    noise_rate: float  # share of wrong labels, as far as it is known

    def augmented(self, rows: Tensor) -> Tensor:
        """Return a new view of these rows."""
        return self.view.augmented(self.memory.x[rows], self.rng)

    def strong(self, rows: Tensor) -> Tensor:
        """Return a new view of these rows, strongly augmented."""
        return self.view.strong(self.memory.x[rows], self.rng)

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

    epochs: ClassVar[int] = 0

    def steps(self, rows: int) -> int:
        """Return how many steps an epoch is planned to have."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Consolidation(ABC):
    """A way to learn from the memory alone: what all of them can be told, and what each must answer."""

    lr: float = tuned(0.05)
    epochs: int = tuned(255)  # 1 + 2 + 4 + ... + 128: whole cycles of the rate
    batch: int = 64  # rows of the memory in a step
    from_scratch: bool = False  # new networks, only tested; else the stream's network, which goes on
    momentum: float = 0.0
    nesterov: bool = False
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
                "nesterov false where momentum is 0": self.momentum > 0 or not self.nesterov,
                "weight_decay >= 0": self.weight_decay >= 0,
                "clip >= 0": self.clip >= 0,
            },
            self,
        )

    def steps(self, rows: int) -> int:
        """Return how many steps an epoch over so many rows is planned to have."""
        return math.ceil(rows / self.batch)

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


def side_by_side(groups: Sequence[Tensor], size: int) -> list[Tensor]:
    """Return the rows of as few steps as keep each group within `size` rows a step, evenly spread.

    The first group, which has the labels, is in every step: too few rows come in rounds.

    >>> groups = torch.tensor([1, 2]), torch.arange(10, 18)
    >>> [rows.tolist() for rows in side_by_side(groups, 3)]
    [[1, 10, 11, 12], [2, 13, 14, 15], [1, 16, 17]]
    """
    first, *others = groups
    steps = max(math.ceil(len(rows) / size) for rows in groups)
    labelled = first[torch.arange(max(steps, len(first))) % len(first)]
    shares = [rows.tensor_split(steps) for rows in (labelled, *others)]
    return [torch.cat(rows) for rows in zip(*shares, strict=True)]


def plain_loss(bench: Bench, part: Part) -> Tensor:
    """Return cross-entropy on one view of the rows, added up over the networks that learn."""
    x, y = bench.augmented(part.rows), bench.memory.y[part.rows]
    return torch.stack([F.cross_entropy(bench.nets[k](x), y) for k in part.nets]).sum()
