"""Interfaces of label noise, and the check of noise rates."""

from typing import Protocol, runtime_checkable

import numpy as np

from remnant.data.dataset import Dataset, Labels, Spec


class Noise(Protocol):
    """A callable that returns observed labels: a component, or any function with this signature.

    A noise that changes inputs, too, returns a dataset with the changed training inputs, the observed labels
    in `y`, and the true labels in `truth`.
    """

    def __call__(self, dataset: Dataset, rng: np.random.Generator, /) -> Labels | Dataset:
        """Return the observed label of each training sample, (N,), or a changed dataset."""
        ...


@runtime_checkable
class ChecksDataset(Protocol):
    """Optional interface of a noise that has requirements, such as superclasses or a file."""

    def check(self, spec: Spec) -> None:
        """Raise RemnantError if a requirement is not met; called before any sample is loaded."""
        ...


def check_rate(rate: float) -> None:
    """Raise ValueError if a noise rate is not in [0, 1]."""
    if not 0 <= rate <= 1:
        hint = f"; for {rate:g} % write {rate / 100:g}" if 1 < rate <= 100 else ""
        raise ValueError(f"expected a noise rate in [0, 1], got {rate:g}{hint}")
