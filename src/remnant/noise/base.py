"""What every noise is: a value that gives the observed label of each training row."""

from typing import Protocol, runtime_checkable

import numpy as np

from remnant.data.source import Dataset, Labels, Spec


class Noise(Protocol):
    """Observed labels of a data set's training rows."""

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the observed label of each row, (N,)."""
        ...


@runtime_checkable
class Demanding(Protocol):
    """Noise that needs what may not be there: knowledge of the classes, or a file."""

    def check(self, spec: Spec) -> None:
        """Refuse a data set, before its rows are read, that this noise cannot be for."""
        ...


def check_rate(rate: float) -> None:
    """Refuse a rate that is not a share."""
    if not 0 <= rate <= 1:
        hint = f"; for {rate:g} % write {rate / 100:g}" if 1 < rate <= 100 else ""
        raise ValueError(f"a noise rate is a share in [0, 1], got {rate:g}{hint}")
