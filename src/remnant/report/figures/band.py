"""Values over seeds: mean and standard error at each position."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from remnant.experiment.metrics import mean, standard_error

Values = Mapping[float, float | None]  # position -> value; None if it was not measured


@dataclass(frozen=True)
class Band:
    """Mean and standard error at each position; NaN where there is none."""

    x: tuple[float, ...]
    mean: tuple[float, ...]
    error: tuple[float, ...]  # NaN for a single seed

    @property
    def is_measured(self) -> bool:
        """Return whether there is any value."""
        return any(not math.isnan(value) for value in self.mean)

    @property
    def lower(self) -> list[float]:
        """Return the mean minus the standard error; the mean for a single seed."""
        return [m - (0.0 if math.isnan(e) else e) for m, e in zip(self.mean, self.error, strict=True)]

    @property
    def upper(self) -> list[float]:
        """Return the mean plus the standard error; the mean for a single seed."""
        return [m + (0.0 if math.isnan(e) else e) for m, e in zip(self.mean, self.error, strict=True)]


def band(seeds: Sequence[Values]) -> Band:
    """Return mean and standard error over seeds at each position that occurs.

    >>> band([{1: 10.0, 2: 20.0}, {1: 14.0, 2: None}])
    Band(x=(1, 2), mean=(12.0, 20.0), error=(2.0, nan))
    """
    positions = sorted({x for values in seeds for x in values})
    known = [[v for values in seeds if (v := values.get(x)) is not None] for x in positions]
    return Band(
        tuple(positions),
        tuple(mean(values) if values else math.nan for values in known),
        tuple(standard_error(values) for values in known),
    )
