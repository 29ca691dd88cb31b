"""Noise that depends on the true class only, and labels as they are.

Exactly round(rate * n) of the n samples of each affected class are mislabelled. N samples, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from remnant.data.dataset import Dataset, Labels, Spec
from remnant.errors import RemnantError
from remnant.noise.base import check_rate
from remnant.settings import setting


def flip(y: Labels, rate: float, others: Mapping[int, Sequence[int]], rng: np.random.Generator) -> Labels:
    """Change exactly round(rate * n) of the n labels of each class c to random elements of `others[c]`."""
    observed = y.copy()
    for label, targets in others.items():
        indices = rng.permutation(np.flatnonzero(y == label))
        chosen = indices[: round(rate * len(indices))]
        if len(targets):
            observed[chosen] = rng.choice(np.asarray(targets, dtype=np.int64), size=len(chosen))
    return observed


def symmetric(y: Labels, rate: float, classes: int, rng: np.random.Generator) -> Labels:
    """Change labels to one of the other classes, chosen uniformly at random."""
    others = {label: [c for c in range(classes) if c != label] for label in range(classes)}
    return flip(y, rate, others, rng)


def pair_flip(y: Labels, rate: float, targets: Mapping[int, int], rng: np.random.Generator) -> Labels:
    """Change labels of class c to `targets[c]`; classes without a target stay clean."""
    return flip(y, rate, {label: [target] for label, target in targets.items()}, rng)


def next_in_group(groups: Sequence[int]) -> dict[int, int]:
    """Map each class to the next class of its group, and the last class of a group to its first.

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
    """No noise is added: the labels of the dataset are used as they are."""

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return a copy of the labels of the dataset."""
        return dataset.y.copy()


@dataclass(frozen=True)
class Given:
    """The labels published with a dataset that has real label noise (Food-101N)."""

    def check(self, spec: Spec) -> None:
        """Raise RemnantError if the dataset is not published with noisy labels."""
        if not spec.has_noisy_labels:
            raise RemnantError(
                f"the noise `given` needs a dataset that is published with noisy labels, and {spec.name} is "
                "not one. Use none for its labels as they are, or a synthetic noise such as symmetric:RATE."
            )

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return a copy of the published labels."""
        self.check(dataset.spec)
        return dataset.y.copy()


@dataclass(frozen=True)
class Symmetric:
    """A fraction of each class is relabelled as another class, chosen uniformly at random."""

    rate: float = setting(0.4, "noise rate: fraction of mislabelled samples")

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        return symmetric(dataset.y, self.rate, len(dataset.spec.classes), rng)


@dataclass(frozen=True)
class Asymmetric:
    """A fraction of each class is relabelled as one similar class.

    CIFAR-10: truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog; others stay clean.
    CIFAR-100: the next class of the same superclass, cyclically.
    Digits: 2 -> 7, 3 -> 8, 5 <-> 6, 7 -> 1; others stay clean (Patrini et al., 2017).
    Fashion-MNIST: ankle-boot -> sneaker, sneaker -> sandal, pullover -> shirt, coat <-> dress; others stay
    clean (Zhang and Sabuncu, 2018).
    """

    rate: float = setting(0.4, "noise rate: fraction of mislabelled samples in each affected class")

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def check(self, spec: Spec) -> None:
        """Raise RemnantError if the dataset does not define similar classes."""
        if not spec.superclass and not spec.confused_with:
            raise RemnantError(
                f"asymmetric noise needs superclasses or pairs of similar classes, but {spec.name} has "
                "neither. Use block:RATE, symmetric:RATE or file:PATH."
            )

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        spec = dataset.spec
        self.check(spec)
        targets = next_in_group(spec.superclass) if spec.superclass else spec.confused_with
        return pair_flip(dataset.y, self.rate, targets, rng)


@dataclass(frozen=True)
class Block:
    """A fraction of each class is relabelled as the next class in its block of consecutive classes."""

    rate: float = setting(0.4, "noise rate: fraction of mislabelled samples")
    size: int = setting(5, "number of classes in a block")

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if self.size < 2:
            raise ValueError(f"expected a block size of at least 2 classes, got {self.size}")

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        blocks = [label // self.size for label in range(len(dataset.spec.classes))]
        return pair_flip(dataset.y, self.rate, next_in_group(blocks), rng)


@dataclass(frozen=True)
class SuperclassRandom:
    """A fraction of each class is relabelled as another class of its superclass, chosen uniformly."""

    rate: float = setting(0.4, "noise rate: fraction of mislabelled samples")

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def check(self, spec: Spec) -> None:
        """Raise RemnantError if the dataset has no superclasses."""
        if not spec.superclass:
            raise RemnantError(
                f"superclass-random noise needs superclasses, but {spec.name} has none. "
                "Use symmetric:RATE or block:RATE."
            )

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed labels."""
        self.check(dataset.spec)
        groups = dataset.spec.superclass
        others = {
            label: [c for c in range(len(groups)) if groups[c] == group and c != label]
            for label, group in enumerate(groups)
        }
        return flip(dataset.y, self.rate, others, rng)
