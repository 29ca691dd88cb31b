"""Suspicion scores: how well the network agrees with the label of each sample of the stream.

A score is a value: an agreement (loss, margin or confidence) and an aggregation (in the last epoch, mean over
epochs, rise in forgetting epochs, at the end of the stream). All scores are oriented in the same way: lower
means more doubtful. n samples.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from remnant.suspects.trajectory import AGREEMENTS, FORGETTING, LEARNING, Statistics, agreements


@dataclass(frozen=True, eq=False)
class Evidence:
    """What scores are computed from: statistics of training, and the logits of a network afterwards."""

    statistics: Statistics
    task: Tensor  # (n,) in which each sample was learned
    end: Tensor  # (n, 3) agreements at the end of the stream, un-augmented, compared with all classes
    suggested: Tensor  # (n,) label predicted at the end of the stream

    @classmethod
    def of(cls, statistics: Statistics, task: int, logits: Tensor) -> "Evidence":
        """Return the evidence about the samples of a task, from the logits (n, C) of the final network."""
        number = torch.full((len(statistics),), task)
        return cls(statistics, number, agreements(logits.cpu(), statistics.y), logits.argmax(1).cpu())


Aggregation = Callable[[Evidence], Tensor]  # -> (n, 3), one column for each agreement; NaN if there is none


def last_epoch(evidence: Evidence) -> Tensor:
    """Return the agreements in the last learning epoch."""
    return evidence.statistics.last[:, LEARNING]


def mean_over_epochs(evidence: Evidence) -> Tensor:
    """Return the means over all epochs; that of the margin is the area under the margin (AUM)."""
    return evidence.statistics.sums.sum(1) / evidence.statistics.epochs.sum()


def forgetting_rise(evidence: Evidence) -> Tensor:
    """Return the means over forgetting epochs minus the means over learning epochs; NaN without either."""
    means = evidence.statistics.sums / evidence.statistics.epochs[:, None]
    return means[:, FORGETTING] - means[:, LEARNING]


def end_of_stream(evidence: Evidence) -> Tensor:
    """Return the agreements of the network at the end of the stream."""
    return evidence.end


@dataclass(frozen=True)
class Score:
    """An agreement, aggregated over training."""

    agreement: str  # loss, margin or confidence
    aggregation: Aggregation
    about: str = ""

    def __call__(self, evidence: Evidence) -> Tensor:
        """Return the score of each sample, (n,), in double precision; lower is more doubtful."""
        column = AGREEMENTS.index(self.agreement)
        values = self.aggregation(evidence)[:, column].double()
        return -values if self.agreement == "loss" else values


@dataclass(frozen=True)
class Sum:
    """The sum of scores, each standardised within the samples of one observed label."""

    parts: tuple[Score, ...]
    about: str = ""

    def __call__(self, evidence: Evidence) -> Tensor:
        """Return the score of each sample, (n,), in double precision; lower is more doubtful."""
        y = evidence.statistics.y
        return torch.stack([standardised(part(evidence), y) for part in self.parts]).sum(0)


def standardised(values: Tensor, y: Tensor) -> Tensor:
    """Return values with mean 0 and standard deviation 1 within each label; 0 if all are equal.

    >>> standardised(torch.tensor([1.0, 3.0, 8.0]), torch.tensor([0, 0, 1]))
    tensor([-1.,  1.,  0.])
    """
    result = torch.zeros_like(values)
    for label in y.unique():
        own = values[y == label]
        spread = own.std(correction=0)
        result[y == label] = (own - own.mean()) / spread if spread > 0 else torch.zeros_like(own)
    return result


MEAN_MARGIN = Score("margin", mean_over_epochs, "mean margin over all epochs (AUM)")
END_MARGIN = Score("margin", end_of_stream, "margin of the network at the end of the stream")

SCORES: dict[str, Score | Sum] = {
    "final-loss": Score("loss", last_epoch, "loss in the last epoch of the task"),
    "mean-loss": replace(MEAN_MARGIN, agreement="loss", about="mean loss over all epochs"),
    "mean-confidence": replace(MEAN_MARGIN, agreement="confidence", about="mean confidence over all epochs"),
    "mean-margin": MEAN_MARGIN,
    "forgetting-rise": Score("loss", forgetting_rise, "mean loss in forgetting minus in learning epochs"),
    "end-margin": END_MARGIN,
    "margins": Sum((MEAN_MARGIN, END_MARGIN), "sum of mean-margin and end-margin, each standardised"),
}
DEFAULT = "margins"
