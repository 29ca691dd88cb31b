"""Labels that a data set came with, wrong ones among them: noise that nobody has to make."""

from dataclasses import dataclass

import numpy as np

from remnant.data.source import Dataset, Labels, Spec
from remnant.errors import RemnantError


@dataclass(frozen=True)
class Given:
    """The labels that the data set came with, for data that is noisy by nature (Food-101N)."""

    def check(self, spec: Spec) -> None:
        """Refuse data whose own labels are the true ones."""
        if not spec.labels_are_given:
            raise RemnantError(
                f"the labels that {spec.name} came with are taken to be right. Use none for these, or "
                "noise that makes wrong ones, such as symmetric:RATE."
            )

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the given labels."""
        self.check(data.spec)
        return data.named.copy()
