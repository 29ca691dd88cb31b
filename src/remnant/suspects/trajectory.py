"""Running statistics of each sample of a task over the epochs of training, from logits computed anyway.

A step stores the logits of its batch, and the end of an epoch adds up the statistics of all samples at once,
so that a step has a single additional operation. The logits are those of the augmented view in the training
forward pass; with CutMix, those of the mixed view. n samples of the task, C classes.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.engine.state import restore
from remnant.stream import Task

AGREEMENTS = ("loss", "margin", "confidence")  # columns; how well the logits of a sample agree with its label
LEARNING, FORGETTING = 0, 1  # kinds of epochs


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the epochs of a task say about its samples, on the CPU. K = 2 kinds of epochs, 3 agreements."""

    id: Tensor  # (n,) positions in the training set
    y: Tensor  # (n,) observed labels
    sums: Tensor  # (n, K, 3) over epochs of each kind
    last: Tensor  # (n, K, 3) in the last epoch of each kind
    epochs: Tensor  # (K,) number of epochs of each kind

    def __len__(self) -> int:
        return len(self.id)


def agreements(logits: Tensor, y: Tensor) -> Tensor:
    """Return loss, margin and confidence of each sample, (n, 3); logits of excluded classes are -inf.

    loss is the cross-entropy, confidence the probability of the label, and margin the logit of the label
    minus the largest other logit.

    >>> agreements(torch.tensor([[2.0, 0.0, -torch.inf]]), torch.tensor([1]))
    tensor([[ 2.1269, -2.0000,  0.1192]])
    """
    loss = F.cross_entropy(logits, y, reduction="none")
    own = logits.gather(1, y[:, None])
    other = logits.scatter(1, y[:, None], -torch.inf).amax(1, keepdim=True)
    return torch.cat([loss[:, None], own - other, loss.neg().exp()[:, None]], 1)


class Trajectory:
    """The statistics of the current task, which are kept if an epoch is rolled back."""

    def __init__(self, classes: int, device: torch.device) -> None:
        self.logits = torch.empty(0, classes, device=device)  # of this epoch
        self.sums = torch.empty(0, 2, len(AGREEMENTS), device=device)
        self.last = torch.empty(0, 2, len(AGREEMENTS), device=device)
        self.epochs = torch.zeros(2, dtype=torch.long)

    def start(self, task: Task) -> None:
        """Discard the statistics of the previous task."""
        for name, value in vars(self).items():
            count = 2 if name == "epochs" else len(task)
            setattr(self, name, value.new_zeros(count, *value.shape[1:]))

    def store(self, samples: Tensor, logits: Tensor) -> None:
        """Store the logits of a training step; `samples` are positions in the task."""
        self.logits[samples.to(self.logits.device)] = logits.to(self.logits.dtype)

    def end_epoch(self, task: Task, kind: int) -> None:
        """Add an epoch of this kind to the statistics; samples are compared with the classes of the task."""
        y = task.y.to(self.logits.device)
        is_excluded = torch.zeros(self.logits.shape[1], dtype=torch.bool)
        if len(task.classes) > 1:  # a single class is compared with all others
            is_excluded = ~is_excluded.index_fill(0, torch.tensor(task.classes), True)
        found = agreements(self.logits.masked_fill(is_excluded.to(y.device), -torch.inf), y)
        self.sums[:, kind] += found
        self.last[:, kind] = found
        self.epochs[kind] += 1

    def mean_margin(self) -> Tensor:
        """Return the mean margin of each sample over all epochs so far, (n,), on the CPU."""
        total = self.sums[:, :, AGREEMENTS.index("margin")].sum(1)
        return (total / self.epochs.sum()).cpu()

    def statistics(self, task: Task) -> Statistics:
        """Return the statistics of the task so far."""
        return Statistics(
            task.id,
            task.y,
            self.sums.to("cpu", copy=True),
            self.last.to("cpu", copy=True),
            self.epochs.clone(),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        restore(self, state, varying=("logits", "sums", "last"))
