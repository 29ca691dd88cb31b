"""Literal twins of CNLL: slow on purpose, one row after another.

`n` rows, `C` classes; a head is a callable from one input row to its `C` logits. Everything is float64.
Nothing random is drawn here: views, permutations and mixing shares come in.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

FloatArray = np.ndarray
Head = Callable[[FloatArray], FloatArray]


def softmax(row: Sequence[float]) -> list[float]:
    """Logits of one row to probabilities."""
    powers = [math.exp(float(logit) - max(map(float, row))) for logit in row]
    return [power / sum(powers) for power in powers]


def kullback_leibler(p: Sequence[float], q: Sequence[float]) -> float:
    """`sum p log(p / q)`, where nothing is added for `p = 0`."""
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def jensen_shannon(p: Sequence[float], q: Sequence[float]) -> float:
    """Half of each side's divergence from the middle."""
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return kullback_leibler(p, middle) / 2 + kullback_leibler(q, middle) / 2


def disagreements(
    logits: FloatArray, labels: Sequence[int], classes: Sequence[int], hardened: bool
) -> list[float]:
    """The divergence of each row's prediction, among the classes of the task, from its label."""
    found = []
    for row, label in zip(logits, labels, strict=True):
        p = softmax([row[c] for c in classes])
        if hardened:
            p = [float(i == int(np.argmax(p))) for i in range(len(p))]
        found.append(jensen_shannon(p, [float(c == label) for c in classes]))
    return found


def split(apart: Sequence[float]) -> tuple[list[int], list[int]]:
    """As many of the smallest as there are below the mean; all, if all are 0. The rest is noisy."""
    mean = sum(apart) / len(apart)
    count = sum(value < mean for value in apart)
    if all(value == 0 for value in apart):
        count = len(apart)
    by_size = sorted(range(len(apart)), key=lambda i: apart[i])
    noisy = [i for i in range(len(apart)) if i not in by_size[:count]]
    return by_size[:count], sorted(noisy, key=lambda i: -apart[i])


def ramp(epoch: float, top: float, quiet: float, length: float) -> float:
    """lambda_u: nothing for a while, then linear to `top`."""
    return top * float(np.clip((epoch - quiet) / length, 0.0, 1.0))


def guessed(first: Head, weak: Sequence[FloatArray], temperature: float) -> list[float]:
    """The mean prediction of h1 over the weak views of one row, sharpened."""
    answers = [softmax(first(view)) for view in weak]
    mean = [sum(values) / len(answers) for values in zip(*answers, strict=True)]
    powers = [value ** (1 / temperature) for value in mean]
    return [power / sum(powers) for power in powers]


def fine_tuning_loss(
    first: Head,
    second: Head,
    labelled: FloatArray,
    onehot: FloatArray,
    weak: FloatArray,
    strong: FloatArray,
    temperature: float,
    weight: float,
    lam: float,
    permutation: Sequence[int],
    seen: Sequence[bool],
) -> tuple[float, float]:
    """`(CE(h1), 0.1 * weight * MSE(h2) + KL(uniform || mean h2))`; views come as `(2, n, ...)`."""
    rows, targets = [], []
    for view in labelled:
        rows += list(view)
        targets += [list(label) for label in onehot]
    count = len(rows)
    for view in strong:
        for i, row in enumerate(view):
            rows.append(row)
            targets.append(guessed(first, [weak[0][i], weak[1][i]], temperature))
    share = max(lam, 1 - lam)
    supervised, consistent, predictions = 0.0, 0.0, []
    for i, partner in enumerate(permutation):
        x = share * rows[i] + (1 - share) * rows[partner]
        pairs = zip(targets[i], targets[partner], strict=True)
        target = [share * a + (1 - share) * b for a, b in pairs]
        predictions.append(softmax(second(x)))
        if i < count:
            log = [math.log(value) for value in softmax(first(x))]
            supervised -= sum(t * v for t, v in zip(target, log, strict=True)) / count
        else:
            apart = sum((p - t) ** 2 for p, t in zip(predictions[-1], target, strict=True))
            consistent += apart / len(target) / (len(rows) - count)
    mean = [sum(values) / len(rows) for values in zip(*predictions, strict=True)]
    prior = 1 / sum(seen)
    penalty = sum(prior * math.log(prior / m) for m, s in zip(mean, seen, strict=True) if s)
    return supervised, 0.1 * weight * consistent + penalty
