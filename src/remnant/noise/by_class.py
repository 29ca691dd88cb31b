"""Noise by the true class alone: a share of each class becomes other classes.

Of each class exactly round(rate * n) rows change, chosen with the generator. N rows, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from remnant.data.source import Dataset, Labels, Spec
from remnant.errors import RemnantError
from remnant.noise.base import check_rate


def flip(
    y: Labels, rate: float, others: Mapping[int, Sequence[int]], rng: np.random.Generator
) -> Labels:
    """Change exactly round(rate * n) of the n rows of each class c to one of `others[c]`."""
    observed = y.copy()
    for label, targets in others.items():
        rows = rng.permutation(np.flatnonzero(y == label))
        chosen = rows[: round(rate * len(rows))]
        if len(targets):
            observed[chosen] = rng.choice(np.asarray(targets, dtype=np.int64), size=len(chosen))
    return observed


def symmetric(y: Labels, rate: float, classes: int, rng: np.random.Generator) -> Labels:
    """Change labels to any other class with equal probability; never to the true one."""
    others = {label: [c for c in range(classes) if c != label] for label in range(classes)}
    return flip(y, rate, others, rng)


def pair_flip(y: Labels, rate: float, targets: Mapping[int, int], rng: np.random.Generator) -> Labels:
    """Change labels of class c to `targets[c]`; classes without a target stay."""
    return flip(y, rate, {label: [target] for label, target in targets.items()}, rng)


def next_in_group(groups: Sequence[int]) -> dict[int, int]:
    """Map each class to the next one of its group, the last to the first.

    >>> next_in_group([0, 1, 0, 1, 0])
    {0: 2, 2: 4, 4: 0, 1: 3, 3: 1}
    """
    targets: dict[int, int] = {}
    for group in dict.fromkeys(groups):
        members = [label for label, g in enumerate(groups) if g == group]
        targets |= dict(zip(members, members[1:] + members[:1], strict=True))
    return {label: target for label, target in targets.items() if label != target}


@dataclass(frozen=True)
class Clean:
    """Every label is right."""

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the true labels."""
        return data.y.copy()


@dataclass(frozen=True)
class Symmetric:
    """A share of each class gets another class, all others being equally likely."""

    rate: float = 0.4  # share of rows whose label is wrong

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        return symmetric(data.y, self.rate, len(data.spec.classes), rng)


@dataclass(frozen=True)
class Asymmetric:
    """A share of each class becomes the one class it resembles.

    CIFAR-10: truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog; other classes stay.
    CIFAR-100: the next class inside the superclass, circularly.
    """

    rate: float = 0.4  # share of rows of an affected class whose label is wrong

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def check(self, spec: Spec) -> None:
        """Refuse data that does not say which classes resemble each other."""
        if not spec.superclass and not spec.mistaken_for:
            raise RemnantError(
                f"asymmetric noise needs to know which classes of {spec.name} resemble each other: it "
                "has neither superclasses nor pairs. Use block:RATE, symmetric:RATE or file:PATH."
            )

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        spec = data.spec
        self.check(spec)
        targets = next_in_group(spec.superclass) if spec.superclass else spec.mistaken_for
        return pair_flip(data.y, self.rate, targets, rng)


@dataclass(frozen=True)
class Block:
    """A share of each class becomes the next class of its block of `size` consecutive numbers."""

    rate: float = 0.4
    size: int = 5

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if self.size < 2:
            raise ValueError(f"size is the number of classes of a block, at least 2, got {self.size}")

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        blocks = [label // self.size for label in range(len(data.spec.classes))]
        return pair_flip(data.y, self.rate, next_in_group(blocks), rng)


@dataclass(frozen=True)
class SuperclassRandom:
    """A share of each class gets another class of its superclass, all being equally likely."""

    rate: float = 0.4

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def check(self, spec: Spec) -> None:
        """Refuse data without superclasses."""
        if not spec.superclass:
            raise RemnantError(
                f"superclass-random noise needs superclasses, which {spec.name} has not. "
                "Use symmetric:RATE or block:RATE."
            )

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        self.check(data.spec)
        groups = data.spec.superclass
        others = {
            label: [c for c in range(len(groups)) if groups[c] == group and c != label]
            for label, group in enumerate(groups)
        }
        return flip(data.y, self.rate, others, rng)
