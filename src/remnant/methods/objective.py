"""Objectives: the loss of a step, from the stream batch plus the replay term (Eqs. 2-3).

`draw` is None when replay is off, so that objectives do not depend on the phase. B samples, C classes.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.buffer.buffer import ReplayBatch
from remnant.settings import setting
from remnant.transforms.mixing import cutmix


class Draw(Protocol):
    """Draws augmented samples from the buffer."""

    def __call__(self, *, strong: bool = False) -> ReplayBatch:
        """Draw a new batch, with strong augmentation if `strong`."""
        ...


@dataclass(frozen=True, eq=False)
class Outcome:
    """One evaluation of an objective."""

    loss: Tensor  # scalar
    logits: Tensor  # (B, C) of the stream samples, detached


class Objective(Protocol):
    """The loss of one step."""

    @property
    def keeps_logits(self) -> bool:
        """Whether the buffer must store the logits of its samples."""
        ...

    @property
    def normed_head(self) -> bool:
        """Whether the network's head ends with BatchNorm."""
        ...

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: Draw | None, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        """Evaluate on stream samples x with observed labels y; `seen` (C,) marks the classes seen so far."""
        ...

    def sample_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        """Return the loss of each stream sample, (B,)."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """ER: mean cross-entropy of the stream batch plus that of the replayed batch (Eqs. 2-3)."""

    keeps_logits = normed_head = False

    def sample_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        """Return the plain cross-entropy."""
        return F.cross_entropy(logits, y, reduction="none")

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: Draw | None, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        """Evaluate the objective."""
        logits = net(x)
        loss = self.sample_loss(logits, y, seen).mean()
        if draw is not None:
            old = draw()
            loss = loss + F.cross_entropy(net(old.x), old.y)
        return Outcome(loss, logits.detach())


@dataclass(frozen=True)
class AsymmetricCrossEntropy(CrossEntropy):
    """ER-ACE: the stream does not lower the logits of classes seen before that are absent from the batch.

    The softmax is over the classes of the batch and classes never seen. Replayed samples are not masked.
    """

    def sample_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        """Return the cross-entropy with all other classes masked.

        >>> seen = torch.tensor([True, True, True, False])
        >>> ace = AsymmetricCrossEntropy()
        >>> ace.sample_loss(torch.tensor([[2.0, 1.0, 0.0, -1.0]]), torch.tensor([2]), seen)
        tensor([0.3133])
        """
        is_absent = seen.clone()
        is_absent[y] = False
        lowest = torch.finfo(logits.dtype).min
        return F.cross_entropy(logits.masked_fill(is_absent, lowest), y, reduction="none")


@dataclass(frozen=True)
class DarkReplay(CrossEntropy):
    """DER++: CE(stream) + alpha * MSE(logits, stored logits) + beta * CE(another draw)."""

    alpha: float = setting(0.1, "weight of the stored logits")
    beta: float = setting(0.5, "weight of the stored labels")

    keeps_logits = True

    def __post_init__(self) -> None:
        if not (0 <= self.alpha < math.inf and 0 <= self.beta < math.inf):
            raise ValueError(f"expected alpha and beta >= 0, got {self.alpha} and {self.beta}")

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: Draw | None, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        """Evaluate the objective; a term of weight 0 needs no forward pass."""
        logits = net(x)
        loss = self.sample_loss(logits, y, seen).mean()
        if draw is not None and self.alpha:
            old = draw()
            now = net(old.x)
            loss = loss + self.alpha * F.mse_loss(now, old.logits.to(now.dtype))
        if draw is not None and self.beta:
            old = draw()
            loss = loss + self.beta * F.cross_entropy(net(old.x), old.y)
        return Outcome(loss, logits.detach())


@dataclass(frozen=True)
class OneBatch(CrossEntropy):
    """PuriDivER: cross-entropy of one batch of stream and strongly augmented buffer samples, with CutMix."""

    cutmix: float = setting(0.5, "probability that CutMix is applied to a batch")

    normed_head = True

    def __post_init__(self) -> None:
        if not 0 <= self.cutmix <= 1:
            raise ValueError(f"expected cutmix as a probability in [0, 1], got {self.cutmix}")

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: Draw | None, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        """Evaluate the objective."""
        count = len(y)
        if draw is not None:
            old = draw(strong=True)
            x, y = torch.cat([x, old.x]), torch.cat([y, old.y])
        mixed = cutmix(x, self.cutmix, rng)
        logits = net(mixed.x)
        loss = mixed.blend(F.cross_entropy(logits, y), F.cross_entropy(logits, y[mixed.other]))
        return Outcome(loss, logits[:count].detach())


OBJECTIVES: dict[str, Objective] = {
    "cross-entropy": CrossEntropy(),
    "asymmetric": AsymmetricCrossEntropy(),
    "dark-replay": DarkReplay(),
    "one-batch": OneBatch(),
}
