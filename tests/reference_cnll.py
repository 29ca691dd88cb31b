"""Reference implementation of CNLL: slow and simple, one sample at a time, in float64.

`n` samples, `C` classes; a head is a function from one input to its `C` logits. Views, permutations and
MixUp weights are arguments.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

FloatArray = np.ndarray
Head = Callable[[FloatArray], FloatArray]


def softmax(logits: Sequence[float]) -> list[float]:
    """Probabilities of one sample, from its logits."""
    powers = [math.exp(float(logit) - max(map(float, logits))) for logit in logits]
    return [power / sum(powers) for power in powers]


def kullback_leibler(p: Sequence[float], q: Sequence[float]) -> float:
    """`sum p log(p / q)`, with `0 log 0 = 0`."""
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def jensen_shannon(p: Sequence[float], q: Sequence[float]) -> float:
    """Mean divergence of both distributions from their mean."""
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return kullback_leibler(p, middle) / 2 + kullback_leibler(q, middle) / 2


def disagreements(
    logits: FloatArray, labels: Sequence[int], classes: Sequence[int], hardened: bool
) -> list[float]:
    """The divergence of each prediction, over the classes of the task, from its label."""
    found = []
    for sample, label in zip(logits, labels, strict=True):
        p = softmax([sample[c] for c in classes])
        if hardened:
            p = [float(i == int(np.argmax(p))) for i in range(len(p))]
        found.append(jensen_shannon(p, [float(c == label) for c in classes]))
    return found


def split(distance: Sequence[float]) -> tuple[list[int], list[int]]:
    """Clean are all values below the mean, or all values if all are 0; the others are noisy."""
    mean = sum(distance) / len(distance)
    count = sum(value < mean for value in distance)
    if all(value == 0 for value in distance):
        count = len(distance)
    by_size = sorted(range(len(distance)), key=lambda i: distance[i])
    noisy = [i for i in range(len(distance)) if i not in by_size[:count]]
    return by_size[:count], sorted(noisy, key=lambda i: -distance[i])


def ramp(epoch: float, top: float, quiet: float, length: float) -> float:
    """lambda_u: 0 for `quiet` epochs, then linear to `top`."""
    return top * float(np.clip((epoch - quiet) / length, 0.0, 1.0))


def guessed(first: Head, weak: Sequence[FloatArray], temperature: float) -> list[float]:
    """The mean prediction of h1 over the weakly augmented views of one sample, sharpened."""
    predictions = [softmax(first(view)) for view in weak]
    mean = [sum(values) / len(predictions) for values in zip(*predictions, strict=True)]
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
    """`(CE(h1), 0.1 * weight * MSE(h2) + KL(uniform || mean h2))`; views are `(2, n, ...)`."""
    inputs, targets = [], []
    for view in labelled:
        inputs += list(view)
        targets += [list(label) for label in onehot]
    count = len(inputs)
    for view in strong:
        for i, sample in enumerate(view):
            inputs.append(sample)
            targets.append(guessed(first, [weak[0][i], weak[1][i]], temperature))
    own = max(lam, 1 - lam)
    supervised, consistent, predictions = 0.0, 0.0, []
    for i, partner in enumerate(permutation):
        x = own * inputs[i] + (1 - own) * inputs[partner]
        pairs = zip(targets[i], targets[partner], strict=True)
        target = [own * a + (1 - own) * b for a, b in pairs]
        predictions.append(softmax(second(x)))
        if i < count:
            log = [math.log(value) for value in softmax(first(x))]
            supervised -= sum(t * v for t, v in zip(target, log, strict=True)) / count
        else:
            error = sum((p - t) ** 2 for p, t in zip(predictions[-1], target, strict=True))
            consistent += error / len(target) / (len(inputs) - count)
    mean = [sum(values) / len(inputs) for values in zip(*predictions, strict=True)]
    prior = 1 / sum(seen)
    penalty = sum(prior * math.log(prior / m) for m, s in zip(mean, seen, strict=True) if s)
    return supervised, 0.1 * weight * consistent + penalty
