"""Annotation files of CIFAR-10N and CIFAR-100N: finding, reading, downloading and checking them.

They are stored in the data folder, as the published file or as an .npz file with the same arrays.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from remnant.data import entry
from remnant.data.dataset import Dataset, Labels
from remnant.data.files import LOCK, clear, download_folder, repair_command, retrieve, root
from remnant.data.torch_file import read_torch
from remnant.errors import MissingFiles, RemnantError
from remnant.noise.from_file import read_archive


@dataclass(frozen=True)
class HumanLabels:
    """The file of human labels for one dataset."""

    name: str  # as in `remnant data get NAME`
    url: str
    files: tuple[str, ...]  # accepted file names, the published one first
    truth: str  # name of the array of true labels
    kinds: Mapping[str, str]  # kind -> name of the array of human labels
    sha256: Mapping[str, str] = field(default_factory=dict)  # array -> hash of its labels as int64


PUBLISHED = "https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data"
_CIFAR10N = HumanLabels(
    name="cifar10n",
    url=f"{PUBLISHED}/CIFAR-10_human.pt",
    files=("CIFAR-10_human.pt", "cifar10n_labels.npz"),
    truth="clean_label",
    kinds={
        "aggre": "aggre_label",  # majority vote of three annotators
        "random1": "random_label1",  # the first annotator, and so on
        "random2": "random_label2",
        "random3": "random_label3",
        "worse": "worse_label",  # a noisy label if any annotator gave one
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
_CIFAR100N = HumanLabels(
    name="cifar100n",
    url=f"{PUBLISHED}/CIFAR-100_human.pt",
    files=("CIFAR-100_human.pt", "cifar100n_labels.npz"),
    truth="clean_label",
    kinds={"noisy": "noisy_label"},
)
_COARSE = replace(_CIFAR100N, truth="clean_coarse_label", kinds={"coarse": "noisy_coarse_label"})
HUMAN_LABELS = {"cifar10": _CIFAR10N, "cifar100": _CIFAR100N, "cifar100-coarse": _COARSE}  # by dataset
DOWNLOADS = {source.name: source for source in (_CIFAR10N, _CIFAR100N)}
KINDS = [kind for source in HUMAN_LABELS.values() for kind in source.kinds]


def find_file(source: HumanLabels, dataset: Dataset) -> Path:
    """Return the path of the file, in the data folder or next to the files of the dataset."""
    folder, files = root(dataset.folder), entry(dataset.spec.name).files
    places = [folder, *(folder / place for place in (files.places if files else ()))]
    for place in places:
        for name in source.files:
            if (place / name).is_file():
                return place / name
    raise MissingFiles(
        f"expected {' or '.join(source.files)} in {folder}, found none. To download it, run: "
        f"{repair_command(source.name, dataset.folder)}; or download {source.url} and put it there."
    )


def get_array(path: Path, arrays: Mapping[str, Labels], name: str) -> Labels:
    """Return an array by its published name, with or without the prefix `human_`."""
    for known in (name, f"human_{name}"):
        if known in arrays:
            return arrays[known]
    raise RemnantError(
        f"{path}: expected an array {name} of integers, found {', '.join(arrays) or 'none'}; "
        "use the file as published"
    )


def read_annotations(path: Path) -> Mapping[str, Labels]:
    """Return the integer arrays of a file by name."""
    return read_archive(path) if path.suffix == ".npz" else read_torch(path)


def download(source: HumanLabels, folder: Path | None) -> str:
    """Download the file if it is missing or damaged; return a sentence that describes what was done."""
    import filelock

    place = root(folder)
    target = place / source.files[0]
    unverified = "" if source.sha256 else "; no hash is known: its true labels are checked when it is used"
    with contextlib.suppress(RemnantError):
        _check(source, target)
        clear(place)
        return f"{source.name}: {target} exists; nothing to download{unverified}"
    manual = f"for a manual download, put {target.name} into {place}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(place / LOCK, fallback_to_soft=False), download_folder(place) as temporary:
            downloaded = retrieve(source.url, None, temporary, manual)
            _check(source, downloaded)
            downloaded.chmod(0o644)  # pooch makes downloads readable for their owner only
            downloaded.replace(target)
    except OSError as error:
        raise RemnantError(
            f"{place}: expected a writable folder, got: {error}; choose another one with --data-dir"
        ) from error
    return f"{source.name}: downloaded {target}{unverified}"


def _check(source: HumanLabels, path: Path) -> None:
    """Raise RemnantError if the labels differ from the published ones, in either file format."""
    arrays = read_annotations(path)
    for name in (source.truth, *source.kinds.values()):
        labels = get_array(path, arrays, name)
        found = hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()
        expected = source.sha256.get(name, found)
        if found != expected:
            raise RemnantError(
                f"{path.name}: expected {name} with sha256 {expected}, got {found}. The published file "
                "may have changed: put a file that you trust into the data folder."
            )
