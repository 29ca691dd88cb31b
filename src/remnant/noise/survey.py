"""The files of human labels: what is in them, where they are, and how they are downloaded.

They lie in the data folder, as the file that its authors publish or as an .npz of the same arrays.
"""

import contextlib
import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from remnant.data import entry
from remnant.data.files import mend, retrieve, root
from remnant.data.source import Dataset, Labels
from remnant.data.torch_file import read_torch
from remnant.errors import RemnantError
from remnant.noise.files import read_archive


@dataclass(frozen=True)
class Survey:
    """What people were asked about one data set."""

    name: str  # as in `remnant data get NAME`
    url: str
    files: tuple[str, ...]  # names that a file of it may have, the published one first
    truth: str  # the array of true labels
    kinds: Mapping[str, str]  # kind -> the array of labels that people gave
    sha256: Mapping[str, str] = field(default_factory=dict)  # array -> of its labels, 8 bytes each


PUBLISHED = "https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data"
_TEN = Survey(
    name="cifar10n",
    url=f"{PUBLISHED}/CIFAR-10_human.pt",
    files=("CIFAR-10_human.pt", "cifar10n_labels.npz"),
    truth="clean_label",
    kinds={
        "aggre": "aggre_label",  # the majority of three people
        "random1": "random_label1",  # the first of the three, and so on
        "random2": "random_label2",
        "random3": "random_label3",
        "worse": "worse_label",  # a wrong one, if any of the three is wrong
    },
    sha256={
        "clean_label": "f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
        "aggre_label": "b3c3d486d22c3055756e7b1b1a0e98b099c1d68b771633023b0f76fa2e09ede6",
        "random_label1": "b5dc9007ae247a48ce267bec37a1310b0cd65ed73801ca7e595fb954902575a7",
        "random_label2": "1182c45d3a24636640fe1e3743b9566b6fabe86b2ed14f6b8216799e209a0d4e",
        "random_label3": "b51e116c617ded2c98be095ba8b3abae8adfa6caa54f7f6eedf50c7aed013d44",
        "worse_label": "a64d887522cf6d8f4966912a1536ea2d890600929a8465a7f307cdca2501847b",
    },
)
_HUNDRED = Survey(
    name="cifar100n",
    url=f"{PUBLISHED}/CIFAR-100_human.pt",
    files=("CIFAR-100_human.pt", "cifar100n_labels.npz"),
    truth="clean_label",
    kinds={"noisy": "noisy_label"},
)
_COARSE = replace(_HUNDRED, truth="clean_coarse_label", kinds={"coarse": "noisy_coarse_label"})
SURVEYS = {"cifar10": _TEN, "cifar100": _HUNDRED, "cifar100-coarse": _COARSE}
BY_NAME = {survey.name: survey for survey in (_TEN, _HUNDRED)}
KINDS = [kind for survey in SURVEYS.values() for kind in survey.kinds]


def find(survey: Survey, data: Dataset) -> Path:
    """Return the file of a survey: in the data folder, or beside the data set's own files."""
    folder, files = root(data.folder), entry(data.spec.name).files
    places = [folder, *(folder / place for place in (files.places if files else ()))]
    for place in places:
        for name in survey.files:
            if (place / name).is_file():
                return place / name
    raise RemnantError(
        f"expected {' or '.join(survey.files)} in {folder}, found neither. To download it: "
        f"{mend(survey.name, data.folder)}; or put {survey.url} there."
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


def answers(path: Path) -> Mapping[str, Labels]:
    """Return the arrays of a file."""
    return read_archive(path) if path.suffix == ".npz" else read_torch(path)


def get(survey: Survey, folder: Path | None) -> str:
    """Download the file, if it is missing or damaged; it appears whole and checked, or not at all."""
    place = root(folder)
    target = place / survey.files[0]
    known = "" if survey.sha256 else "; its hash is not known here: a run compares its true labels"
    with contextlib.suppress(RemnantError):
        _check(survey, target)
        return f"{survey.name}: {target} is there; nothing to download{known}"
    by_hand = f"to do it by hand, put {target.name} into {place}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=place) as temporary:
            arrived = retrieve(survey.url, None, Path(temporary), by_hand)
            _check(survey, arrived)
            arrived.chmod(0o644)  # downloads are made readable for their owner only
            arrived.replace(target)
    except OSError as error:
        raise RemnantError(
            f"{place}: expected a folder that can be written, found: {error}; "
            "name another one with --data-dir"
        ) from error
    return f"{survey.name}: downloaded {target}{known}"


def _check(survey: Survey, path: Path) -> None:
    """Expect the labels that were published; how they are packed does not matter."""
    arrays = answers(path)
    for name in (survey.truth, *survey.kinds.values()):
        labels = member(path, arrays, name)
        found = hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()
        expected = survey.sha256.get(name, found)
        if found != expected:
            raise RemnantError(
                f"{path.name}: expected {name} with sha256 {expected}, found {found}. The publisher may "
                "have changed it: put the file you trust into the data folder."
            )
