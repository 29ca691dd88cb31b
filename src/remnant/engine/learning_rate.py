"""Learning-rate schedules: pure functions of the epoch or step, which a rollback does not affect."""

import math
from collections.abc import Sequence


def step_decay(epoch: int, epochs: int, lr: float, drops: Sequence[float]) -> float:
    """Return lr, divided by 10 after each of the given fractions of the epochs.

    >>> [step_decay(epoch, 10, 1.0, [0.7, 0.9]) for epoch in (0, 6, 7, 8, 9)]
    [1.0, 1.0, 0.1, 0.1, 0.01]
    """
    passed = sum(epoch >= round(fraction * epochs) for fraction in drops)
    return lr / float(10**passed)


def warm_restarts(epoch: int, lr: float) -> float:
    """Return the learning rate of SGDR: cosine cycles from lr to lr / 100 of 1, 2, 4, 8, ... epochs.

    >>> [round(warm_restarts(epoch, 1.0), 3) for epoch in range(7)]
    [1.0, 1.0, 0.505, 1.0, 0.855, 0.505, 0.155]
    """
    length = 1 << (epoch + 1).bit_length() - 1
    done = (epoch + 1 - length) / length
    return lr * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)


def ends_cycle(epoch: int, epochs: int) -> bool:
    """Return whether an epoch is the last one before a warm restart, or the last epoch.

    >>> [epoch for epoch in range(20) if ends_cycle(epoch, 20)]
    [0, 2, 6, 14, 19]
    """
    return epoch == epochs - 1 or (epoch + 2) & (epoch + 1) == 0


def cosine(step: int, steps: int, lr: float, constant: int = 10) -> float:
    """Return lr for the first `constant` steps, then a cosine that ends near 0.

    >>> [round(cosine(step, 30, 1.0), 3) for step in (0, 10, 15, 20, 25, 29)]
    [1.0, 1.0, 0.854, 0.5, 0.146, 0.006]
    """
    done = max(0, step - constant) / max(1, steps - constant)
    return lr * (1 + math.cos(math.pi * done)) / 2
