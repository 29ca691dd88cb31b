"""Base class of the consolidations: training on the buffer alone at the end of a task.

A consolidation defines how the buffer is divided at the start of an epoch, the batches of the epoch, and
the loss of a batch. n samples in the buffer, B samples in a batch, C classes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.buffer.buffer import Buffer
from remnant.data.dataset import Transform
from remnant.engine.inference import cross_entropy, predict
from remnant.methods.consolidation.division import Division
from remnant.methods.loop import even_batches
from remnant.settings import expect, setting


class StepBatch(NamedTuple):
    """The networks that are trained in one step, and the samples they are trained on."""

    nets: tuple[int, ...]  # indices
    samples: Tensor  # (B,) positions in the buffer


@dataclass(frozen=True, eq=False)
class ConsolidationContext:
    """The inputs of a consolidation. An `index` (B,) holds positions in the buffer."""

    nets: tuple[nn.Module, ...]  # the first one is evaluated
    buffer: Buffer
    transform: Transform
    rng: torch.Generator
    seen: Tensor  # (C,) whether each class has appeared in the stream
    noise_rate: float | None  # noise rate of the labels, if it is known

    def augmented(self, index: Tensor) -> Tensor:
        """Return a new weakly augmented view of each sample."""
        return self.transform.augmented(self.buffer.x[index], self.rng)

    def strong(self, index: Tensor) -> Tensor:
        """Return a new strongly augmented view of each sample."""
        return self.transform.strong(self.buffer.x[index], self.rng)

    def onehot(self, index: Tensor) -> Tensor:
        """Return the observed labels as one-hot vectors, (B, C)."""
        return F.one_hot(self.buffer.y[index], len(self.seen)).float()

    def logits(self, net: nn.Module) -> Tensor:
        """Return the logits of every sample in the buffer without augmentation, (n, C), on the CPU."""
        return predict(net, self.buffer.samples().x, self.transform.plain).cpu()

    def losses(self, logits: Tensor) -> Tensor:
        """Return the loss of every sample in the buffer, (n,), from its logits."""
        return cross_entropy(logits, self.buffer.samples().y)

    def guess(self, nets: Sequence[nn.Module], views: Sequence[Tensor]) -> Tensor:
        """Return the mean predicted probabilities of each sample over networks and views, (B, C)."""
        x = torch.cat(list(views))
        each = torch.stack([predict(net, x, lambda part: part).softmax(1) for net in nets])
        return each.view(len(nets) * len(views), -1, len(self.seen)).mean(0)

    def cross_entropy_loss(self, step: StepBatch) -> Tensor:
        """Return the cross-entropy on one augmented view of the samples, summed over the networks."""
        x, y = self.augmented(step.samples), self.buffer.y[step.samples]
        return torch.stack([F.cross_entropy(self.nets[k](x), y) for k in step.nets]).sum()


@dataclass(frozen=True)
class NoConsolidation:
    """No training at the end of a task."""

    epochs: ClassVar[int] = 0

    def steps(self, samples: int) -> int:
        """Return the planned number of steps per epoch."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Consolidation(ABC):
    """Training on the buffer alone: common settings, and the methods that subclasses define."""

    lr: float = setting(0.05, "learning rate at the start of each cosine cycle", tuned=True)
    epochs: int = setting(255, "number of epochs; 255 completes the eighth cosine cycle", tuned=True)
    batch: int = setting(64, "samples from the buffer per step")
    from_scratch: bool = setting(False, "train and evaluate new networks instead of the stream's network")
    momentum: float = setting(0.0, "momentum of SGD")
    nesterov: bool = setting(False, "use Nesterov momentum")
    weight_decay: float = setting(0.0, "weight decay of SGD")
    clip: float = setting(0.0, "maximum gradient norm of each network; 0: no clipping")

    networks: ClassVar[int] = 1

    def __post_init__(self) -> None:
        rules = {
            "lr > 0": self.lr > 0,
            "epochs >= 1": self.epochs >= 1,
            "batch >= 3": self.batch >= 3,  # no batch has one sample: BatchNorm needs two
            "momentum in [0, 1)": 0 <= self.momentum < 1,
            "nesterov false if momentum is 0": self.momentum > 0 or not self.nesterov,
            "weight_decay >= 0": self.weight_decay >= 0,
            "clip >= 0": self.clip >= 0,
        }
        expect(rules, self)

    def check_noise_rate(self, noise_rate: float | None, data: str) -> None:
        """Raise RemnantError if the noise rate of a dataset is needed, and unknown."""
        return

    def steps(self, samples: int) -> int:
        """Return the planned number of steps of an epoch over this many samples."""
        return math.ceil(samples / self.batch)

    def divide(self, context: ConsolidationContext, epoch: int) -> Division | None:
        """Return which labels are trusted in this epoch; None: no division."""
        return None

    def batches(self, order: Tensor, division: Division | None) -> list[StepBatch]:
        """Return the batches of an epoch; `order` holds all positions of the buffer, shuffled."""
        nets = tuple(range(self.networks))
        return [StepBatch(nets, samples) for samples in even_batches(order, self.batch)]

    @abstractmethod
    def loss(
        self, context: ConsolidationContext, step: StepBatch, division: Division | None, epoch: int
    ) -> Tensor:
        """Return the loss that a step minimises, a scalar."""
