"""Metrics of continual learning and of buffers, as pure functions.

a[t][j] is the accuracy on task j after learning task t, in percent; row t has t + 1 entries.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from remnant.data.dataset import UNKNOWN

Matrix = Sequence[Sequence[float]]
DETECTION = ("precision", "recall", "f1", "noisy_precision", "noisy_recall", "noisy_f1")


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

    >>> final_forgetting([[90], [60, 80], [40, 70, 85]]), final_forgetting([[90], [60, 80]])
    (30.0, 30.0)
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


def forward_transfer(following: Sequence[float], untrained: Sequence[float]) -> float | None:
    """Return the FWT, the mean over j >= 1 of a[j-1][j] - b_j; None for a single task.

    `following` holds the accuracies a[j-1][j] on the next task before it is learned, `untrained` those of
    the untrained network on all tasks, b_j.

    >>> forward_transfer([12.0, 5.0], [9.0, 10.0, 10.0])
    -1.5
    """
    gains = [a - b for a, b in zip(following, untrained[1:], strict=True)]
    return mean(gains) if gains else None


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


def percentage(is_true: Tensor) -> float | None:
    """Return the percentage of True values; None for an empty tensor.

    >>> percentage(torch.tensor([True, True, True, False]))
    75.0
    """
    return 100 * int(is_true.sum()) / len(is_true) if len(is_true) else None


def purity(is_clean: Tensor) -> float | None:
    """Return the percentage of stored labels that are clean; None for an empty buffer."""
    return percentage(is_clean)


def purity_of_distinct(id: Tensor, is_clean: Tensor) -> float | None:
    """Return the purity of a buffer in which each sample is counted once, however often it is stored.

    >>> purity_of_distinct(torch.tensor([4, 5, 4, 4]), torch.tensor([True, False, True, True]))
    50.0
    """
    distinct, position = id.unique(return_inverse=True)
    return purity(torch.zeros(len(distinct), dtype=torch.bool).index_fill(0, position[is_clean], True))


def purity_by(group: Tensor, is_clean: Tensor) -> dict[int, float]:
    """Return the purity of each group, for example of each task or class.

    >>> purity_by(torch.tensor([0, 0, 1]), torch.tensor([True, False, True]))
    {0: 50.0, 1: 100.0}
    """
    groups = group.unique().tolist()
    return {g: float(100 * is_clean[group == g].double().mean()) for g in groups}


def class_counts(y: Tensor) -> dict[int, int]:
    """Return the number of samples of each class that occurs.

    >>> class_counts(torch.tensor([0, 2, 2]))
    {0: 1, 2: 2}
    """
    classes, counts = y.unique(return_counts=True)
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def scaled_by_occurrence(
    value: dict[int, float], counts: dict[int, int], classes_seen: int
) -> dict[int, float]:
    """Return a value per class, multiplied by n_c * classes seen / |M|, which is 1 in a balanced buffer.

    >>> scaled_by_occurrence({0: 50.0, 1: 100.0}, {0: 6, 1: 2}, classes_seen=2)
    {0: 75.0, 1: 50.0}
    """
    size = sum(counts.values())
    return {label: v * counts[label] * classes_seen / size for label, v in value.items()}


def diversity(features: Tensor, y: Tensor) -> dict[int, float]:
    """Return the variation within each class: the standard deviation over its samples, mean over features.

    `features` (M, D) are those of a network trained jointly on clean labels (Fig. 4); 0 for equal samples.

    >>> diversity(torch.tensor([[0.0, 5.0], [2.0, 5.0], [7.0, 7.0]]), torch.tensor([0, 0, 1]))
    {0: 0.5, 1: 0.0}
    """
    deviation = {c: features[y == c].double().std(0, correction=0) for c in y.unique().tolist()}
    return {label: float(values.mean()) for label, values in deviation.items()}


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


def f1(is_found: Tensor, is_wanted: Tensor) -> float | None:
    """Return the harmonic mean of precision and recall in percent; None if nothing is found or wanted.

    >>> f1(torch.tensor([True, True, False]), torch.tensor([True, False, False]))
    66.66666666666667
    """
    total = int(is_found.sum()) + int(is_wanted.sum())
    return 200 * int((is_found & is_wanted).sum()) / total if total else None


def detection(is_trusted: Tensor, is_clean: Tensor) -> dict[str, float | None]:
    """Return how well clean labels were detected, in percent; None where a metric is undefined.

    precision: percentage of the trusted labels that are clean; recall: percentage of the clean labels
    that are trusted; f1: their harmonic mean. noisy_precision, noisy_recall and noisy_f1: the same for noisy
    labels that are not trusted.

    >>> found = detection(torch.tensor([True, True, False]), torch.tensor([True, False, False]))
    >>> [found["precision"], found["recall"], found["noisy_precision"], found["noisy_recall"]]
    [50.0, 100.0, 100.0, 50.0]
    """
    return {
        "precision": percentage(is_clean[is_trusted]),
        "recall": percentage(is_trusted[is_clean]),
        "f1": f1(is_trusted, is_clean),
        "noisy_precision": percentage(~is_clean[~is_trusted]),
        "noisy_recall": percentage(~is_trusted[~is_clean]),
        "noisy_f1": f1(~is_trusted, ~is_clean),
    }


def mean_losses(loss: Tensor, is_clean: Tensor) -> dict[str, float | None]:
    """Return the mean loss of clean and of noisy samples (Figure 1); None if there are none.

    >>> mean_losses(torch.tensor([1.0, 3.0, 7.0]), torch.tensor([True, True, False]))
    {'loss_clean': 2.0, 'loss_noisy': 7.0}
    """
    groups = {"loss_clean": loss[is_clean], "loss_noisy": loss[~is_clean]}
    return {name: float(group.double().mean()) if len(group) else None for name, group in groups.items()}


def recovered(predicted: Tensor, observed: Tensor, truth: Tensor) -> float | None:
    """Return the percentage of noisy samples predicted as their true class; None if there are none.

    Noisy samples whose true class is unknown are not counted.

    >>> observed, truth = torch.tensor([0, 1, 1, 2]), torch.tensor([0, 0, 2, UNKNOWN])
    >>> recovered(torch.tensor([0, 0, 1, 1]), observed, truth)
    50.0
    """
    is_counted = (truth != observed) & (truth != UNKNOWN)
    return percentage((predicted == truth)[is_counted])


def memorised(predicted: Tensor, observed: Tensor, truth: Tensor) -> float | None:
    """Return the percentage of noisy samples predicted as their observed label; None if there are none.

    >>> memorised(torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1]), torch.tensor([0, 0, 0]))
    50.0
    """
    return percentage((predicted == observed)[truth != observed])


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


def padded(rows: list[list[float]], width: int) -> list[list[float | None]]:
    """Pad rows with None for tasks that were not evaluated yet.

    >>> padded([[90.0], [60.0, 80.0]], 2)
    [[90.0, None], [60.0, 80.0]]
    """
    return [[*row, *[None] * (width - len(row))] for row in rows]


def average_precision(doubt: Tensor, is_noisy: Tensor) -> float | None:
    """Return the mean precision at the rank of each noisy sample, in order of doubt; None without any.

    >>> average_precision(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([False, True, True]))
    0.5833333333333333
    """
    hits = is_noisy[doubt.argsort(descending=True, stable=True)].double()
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
    return float(precision[hits > 0].mean()) if hits.any() else None


def precision_at_errors(doubt: Tensor, is_noisy: Tensor) -> float | None:
    """Return the fraction of noisy labels among the k most doubtful ones, if k labels are noisy.

    >>> precision_at_errors(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([False, True, True]))
    0.5
    """
    errors = int(is_noisy.sum())
    return (
        float(is_noisy[doubt.argsort(descending=True, stable=True)[:errors]].double().mean())
        if errors
        else None
    )
