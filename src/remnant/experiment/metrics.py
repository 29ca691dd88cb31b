"""Metrics of continual learning and of buffers, as pure functions.

a[t][j] is the accuracy on task j after learning task t, in percent; row t has t + 1 entries.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Matrix = Sequence[Sequence[float]]


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean."""
    return math.fsum(values) / len(values)


def final_average_accuracy(a: Matrix) -> float:
    """Return the FAA, the mean accuracy over all tasks after the last one; higher is better.

    >>> final_average_accuracy([[90], [60, 80], [40, 70, 85]])
    65.0
    """
    return mean(a[-1])


def final_forgetting(a: Matrix) -> float:
    """Return the FF (supplementary material, Final Forgetting); lower is better, and it can be negative.

    It is the mean over tasks j < T - 1 of the best accuracy in the rows before the last one, minus the
    accuracy in the last row; 0 for joint training, which has a single row.

    >>> final_forgetting([[90], [60, 80], [40, 70, 85]])
    30.0
    """
    if len(a) < 2:
        return 0.0
    last = len(a) - 1
    return mean([max(row[j] for row in a[j:last]) - a[last][j] for j in range(last)])


def average_incremental_accuracy(a: Matrix) -> float:
    """Return the AIA, the mean over t of the mean accuracy on tasks 0 to t; higher is better.

    >>> average_incremental_accuracy([[90], [60, 80], [40, 70, 85]])
    75.0
    """
    return mean([mean(row) for row in a])


def backward_transfer(a: Matrix) -> float:
    """Return the BWT, the mean over j < T - 1 of a[T-1][j] - a[j][j]; negative means forgetting.

    >>> backward_transfer([[90], [60, 80], [40, 70, 85]])
    -30.0
    """
    if len(a) < 2:
        return 0.0
    return mean([a[-1][j] - a[j][j] for j in range(len(a) - 1)])


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean over runs, with n - 1 in the variance.

    >>> standard_error([1.0, 2.0, 3.0])
    0.5773502691896257
    """
    if len(values) < 2:
        return math.nan
    centre = mean(values)
    variance = math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def purity(is_clean: Tensor) -> float | None:
    """Return the percentage of stored labels that are clean; None for an empty buffer.

    >>> purity(torch.tensor([True, True, True, False]))
    75.0
    """
    return 100 * int(is_clean.sum()) / len(is_clean) if len(is_clean) else None


def purity_by(group: Tensor, is_clean: Tensor) -> dict[int, float]:
    """Return the purity of each group, for example of each task or class.

    >>> purity_by(torch.tensor([0, 0, 1]), torch.tensor([True, False, True]))
    {0: 50.0, 1: 100.0}
    """
    groups = group.unique().tolist()
    return {g: float(100 * is_clean[group == g].double().mean()) for g in groups}


def balance(y: Tensor, classes_seen: int) -> float | None:
    """Return the entropy of the class counts / log(classes seen): 1 if balanced, 0 for a single class.

    >>> balance(torch.tensor([0, 0, 1, 1]), 2)
    1.0
    """
    if not len(y) or classes_seen < 2:
        return None
    fraction = torch.bincount(y).double() / len(y)
    return float(torch.special.entr(fraction).sum() / math.log(classes_seen))


def duplicates(id: Tensor) -> int:
    """Return the number of slots minus the number of distinct samples in them.

    >>> duplicates(torch.tensor([4, 5, 4, 4]))
    2
    """
    return len(id) - len(id.unique())


def detection(is_trusted: Tensor, is_clean: Tensor) -> dict[str, float | None]:
    """Return how well clean labels were detected, in percent; None where a metric is undefined.

    precision: percentage of the trusted labels that are clean; recall: percentage of the clean labels
    that are trusted. noisy_precision and noisy_recall: the same for noisy labels that are not trusted.

    >>> detection(torch.tensor([True, True, False]), torch.tensor([True, False, False]))
    {'precision': 50.0, 'recall': 100.0, 'noisy_precision': 100.0, 'noisy_recall': 50.0}
    """
    return {
        "precision": purity(is_clean[is_trusted]),
        "recall": purity(is_trusted[is_clean]),
        "noisy_precision": purity(~is_clean[~is_trusted]),
        "noisy_recall": purity(~is_trusted[~is_clean]),
    }


def auroc(clean: Tensor, noisy: Tensor) -> float | None:
    """Return the probability that a noisy sample has a higher loss than a clean one; ties count 1/2.

    1: the losses separate them perfectly; 0.5: not at all; None: there are no samples of one kind.

    >>> auroc(torch.tensor([0.1, 0.2, 0.9]), torch.tensor([0.5, 1.5]))
    0.8333333333333334
    """
    if not len(clean) or not len(noisy):
        return None
    ordered = clean.sort().values.contiguous()
    below = torch.searchsorted(ordered, noisy.contiguous())
    not_above = torch.searchsorted(ordered, noisy.contiguous(), right=True)
    return float((below + not_above).sum()) / 2 / (len(clean) * len(noisy))
