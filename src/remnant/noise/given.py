"""Noise of datasets that are published with noisy labels, which are used as observed labels."""

from dataclasses import dataclass

import numpy as np

from remnant.data.dataset import Dataset, Labels, Spec
from remnant.errors import RemnantError


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
