"""What a step minimises: the loss of the stream batch plus the replay term (Eqs. 2-3).

A learner that does not replay passes `draw=None`; no objective knows of phases. B rows, C classes.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.augment import cutmix
from remnant.memory import Drawn


class Draw(Protocol):
    """A fresh, augmented draw from the memory."""

    def __call__(self, *, strong: bool = False) -> Drawn:
        """Return replayed rows; strongly augmented ones on request."""
        ...


@dataclass(frozen=True, eq=False)
class Outcome:
    """One evaluation of an objective."""

    loss: Tensor  # scalar, to step on
    logits: Tensor  # (B, C) of the stream rows, detached


class Objective(Protocol):
    """A loss for one step."""

    @property
    def keeps_logits(self) -> bool:
        """Whether the memory must keep the logits of its rows."""
        ...

    @property
    def normed_head(self) -> bool:
        """Whether the network's head ends with BatchNorm."""
        ...

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: Draw | None, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        """Evaluate on stream rows x with observed labels y; `seen` marks classes met so far, (C,)."""
        ...

    def row_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        """Return the loss of each stream row, (B,)."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """ER: the mean over the stream plus the mean over the replayed rows (Eqs. 2-3)."""

    keeps_logits = normed_head = False

    def row_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        """Return plain cross-entropy."""
        return F.cross_entropy(logits, y, reduction="none")

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: Draw | None, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        """Evaluate the objective."""
        logits = net(x)
        loss = self.row_loss(logits, y, seen).mean()
        if draw is not None:
            old = draw()
            loss = loss + F.cross_entropy(net(old.x), old.y)
        return Outcome(loss, logits.detach())


@dataclass(frozen=True)
class AsymmetricCrossEntropy(CrossEntropy):
    """ER-ACE: the stream may not push down classes that were seen before but are not in the batch.

    Allowed are the classes of the batch and those never seen. Replayed rows are never masked.
    """

    def row_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        """Return cross-entropy over the allowed classes.

        >>> seen = torch.tensor([True, True, True, False])
        >>> ace = AsymmetricCrossEntropy()
        >>> ace.row_loss(torch.tensor([[2.0, 1.0, 0.0, -1.0]]), torch.tensor([2]), seen)
        tensor([0.3133])
        """
        is_absent = seen.clone()
        is_absent[y] = False
        lowest = torch.finfo(logits.dtype).min
        return F.cross_entropy(logits.masked_fill(is_absent, lowest), y, reduction="none")


@dataclass(frozen=True)
class DarkReplay(CrossEntropy):
    """DER++: CE(stream) + alpha * MSE(logits now, logits stored) + beta * CE(another draw)."""

    alpha: float = 0.1  # weight of the stored logits
    beta: float = 0.5  # weight of the stored labels

    keeps_logits = True

    def __post_init__(self) -> None:
        if not (0 <= self.alpha < math.inf and 0 <= self.beta < math.inf):
            raise ValueError(f"alpha and beta are weights >= 0, got {self.alpha} and {self.beta}")

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: Draw | None, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        """Evaluate the objective; a term of weight 0 costs no forward."""
        logits = net(x)
        loss = self.row_loss(logits, y, seen).mean()
        if draw is not None and self.alpha:
            old = draw()
            now = net(old.x)
            loss = loss + self.alpha * F.mse_loss(now, old.logits.to(now))
        if draw is not None and self.beta:
            old = draw()
            loss = loss + self.beta * F.cross_entropy(net(old.x), old.y)
        return Outcome(loss, logits.detach())


@dataclass(frozen=True)
class OneBatch(CrossEntropy):
    """PuriDivER: one mean over stream and strongly augmented memory together, with CutMix."""

    cutmix: float = 0.5  # probability that a batch is mixed

    normed_head = True

    def __post_init__(self) -> None:
        if not 0 <= self.cutmix <= 1:
            raise ValueError(f"cutmix is a probability, got {self.cutmix}")

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: Draw | None, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        """Evaluate the objective."""
        count = len(y)
        if draw is not None:
            old = draw(strong=True)
            x, y = torch.cat([x, old.x]), torch.cat([y, old.y])
        pasted = cutmix(x, self.cutmix, rng)
        logits = net(pasted.x)
        loss = pasted.blend(F.cross_entropy(logits, y), F.cross_entropy(logits, y[pasted.other]))
        return Outcome(loss, logits[:count].detach())


OBJECTIVES: dict[str, Objective] = {
    "cross-entropy": CrossEntropy(),
    "asymmetric": AsymmetricCrossEntropy(),
    "dark-replay": DarkReplay(),
    "one-batch": OneBatch(),
}
