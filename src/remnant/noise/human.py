"""Labels that people gave: CIFAR-10N and CIFAR-100N (Wei and others, 2022).

They lie in the data folder, as the file that its authors publish or as an .npz of the same arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remnant.data import entry
from remnant.data.files import root
from remnant.data.source import Dataset, Labels, Spec
from remnant.data.torch_file import read_torch
from remnant.errors import RemnantError, nearest
from remnant.noise.files import of_rows, read_archive, require_truth


@dataclass(frozen=True)
class Survey:
    """What people were asked about one data set."""

    files: tuple[str, ...]  # names that a file of it may have
    truth: str  # the array of true labels
    kinds: Mapping[str, str]  # kind -> the array of labels that people gave


TEN = ("CIFAR-10_human.pt", "cifar10n_labels.npz")
HUNDRED = ("CIFAR-100_human.pt", "cifar100n_labels.npz")
SURVEYS = {
    "cifar10": Survey(
        files=TEN,
        truth="clean_label",
        kinds={
            "aggre": "aggre_label",  # the majority of three people
            "random1": "random_label1",  # the first of the three, and so on
            "random2": "random_label2",
            "random3": "random_label3",
            "worse": "worse_label",  # a wrong one, if any of the three is wrong
        },
    ),
    "cifar100": Survey(HUNDRED, "clean_label", {"noisy": "noisy_label"}),
    "cifar100-coarse": Survey(HUNDRED, "clean_coarse_label", {"coarse": "noisy_coarse_label"}),
}
KINDS = [kind for survey in SURVEYS.values() for kind in survey.kinds]
PUBLISHED = "https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data"


def find(survey: Survey, data: Dataset) -> Path:
    """Return the file of a survey: in the data folder, or beside the data set's own files."""
    folder, files = root(data.folder), entry(data.spec.name).files
    places = [folder, *(folder / place for place in (files.places if files else ()))]
    for place in places:
        for name in survey.files:
            if (place / name).is_file():
                return place / name
    raise RemnantError(
        f"expected {' or '.join(survey.files)} in {folder}, found neither. Download "
        f"{PUBLISHED}/{survey.files[0]} and put it there, or name its folder with --data-dir."
    )


def member(path: Path, arrays: Mapping[str, Labels], name: str) -> Labels:
    """Return an array by the name its authors gave it, with or without `human_` before it."""
    for known in (name, f"human_{name}"):
        if known in arrays:
            return arrays[known]
    raise RemnantError(
        f"{path}: expected an array {name} of whole numbers, found {', '.join(arrays) or 'none'}; "
        "use the file as published"
    )


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
        arrays = read_archive(path) if path.suffix == ".npz" else read_torch(path)
        require_truth(path, survey.truth, member(path, arrays, survey.truth), data)
        return of_rows(path, member(path, arrays, survey.kinds[self.kind]), data)
