"""Labels that people gave: CIFAR-10N and CIFAR-100N (Wei and others, 2022)."""

from dataclasses import dataclass

import numpy as np

from remnant.data.source import Dataset, Labels, Spec
from remnant.errors import RemnantError, nearest
from remnant.noise.files import of_rows, require_truth
from remnant.noise.survey import KINDS, SURVEYS, answers, find, member


@dataclass(frozen=True)
class Human:
    """Labels that people gave to CIFAR-10 and CIFAR-100, from a file in the data folder.

    CIFAR-10: aggre (9 % wrong), random1, random2, random3 (17 to 18 %), worse (40 %). CIFAR-100: noisy
    (40 %); with superclasses as classes: coarse (26 %).
    """

    kind: str = "worse"  # aggre, random1, random2, random3 or worse; noisy; coarse

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(
                f"unknown kind of human labels {self.kind!r}{nearest(self.kind, KINDS)} "
                f"Known: {', '.join(KINDS)}"
            )

    def check(self, spec: Spec) -> None:
        """Refuse data that people were not asked about, or not in this way."""
        if spec.name not in SURVEYS or self.kind not in SURVEYS[spec.name].kinds:
            known = "; ".join(f"{name}: {', '.join(s.kinds)}" for name, s in SURVEYS.items())
            raise RemnantError(
                f"there are no human labels {self.kind!r} of {spec.name}. Known are {known}."
            )

    def __call__(self, data: Dataset, rng: np.random.Generator) -> Labels:
        """Return the labels that people gave to the rows at hand."""
        self.check(data.spec)
        survey = SURVEYS[data.spec.name]
        path = find(survey, data)
        arrays = answers(path)
        require_truth(path, survey.truth, member(path, arrays, survey.truth), data)
        return of_rows(path, member(path, arrays, survey.kinds[self.kind]), data)
