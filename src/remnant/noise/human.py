"""Noise from human annotators: CIFAR-10N and CIFAR-100N (Wei et al., 2022)."""

from dataclasses import dataclass

import numpy as np

from remnant.data.dataset import Dataset, Labels, Spec
from remnant.errors import RemnantError, nearest
from remnant.noise.from_file import check_true_labels, select_labels
from remnant.noise.human_labels import HUMAN_LABELS, KINDS, find_file, get_array, read_annotations
from remnant.settings import setting


@dataclass(frozen=True)
class Human:
    """Human annotations of CIFAR-10 and CIFAR-100, read from a file in the data folder.

    cifar10: aggre (9 % noisy), random1, random2, random3 (17 to 18 %), worse (40 %). cifar100: noisy (40 %).
    cifar100-coarse: coarse (26 %).
    """

    kind: str = setting(
        "worse", "cifar10: aggre, random1-3 or worse; cifar100: noisy; cifar100-coarse: coarse"
    )

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(
                f"unknown kind of human labels {self.kind!r}{nearest(self.kind, KINDS)} "
                f"Known: {', '.join(KINDS)}"
            )

    def check(self, spec: Spec) -> None:
        """Raise RemnantError if there are no human labels of this kind for the dataset."""
        if spec.name not in HUMAN_LABELS or self.kind not in HUMAN_LABELS[spec.name].kinds:
            known = "; ".join(f"{name}: {', '.join(h.kinds)}" for name, h in HUMAN_LABELS.items())
            raise RemnantError(f"there are no human labels {self.kind!r} for {spec.name}. Known: {known}.")

    def __call__(self, dataset: Dataset, rng: np.random.Generator) -> Labels:
        """Return the human labels for the samples of the dataset."""
        self.check(dataset.spec)
        source = HUMAN_LABELS[dataset.spec.name]
        path = find_file(source, dataset)
        arrays = read_annotations(path)
        check_true_labels(path, source.truth, get_array(path, arrays, source.truth), dataset)
        return select_labels(path, get_array(path, arrays, source.kinds[self.kind]), dataset)
