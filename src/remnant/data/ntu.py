"""NTU RGB+D 60: 60 actions by 40 subjects, recorded by three cameras, from the published skeleton files.

The files are available from their authors on request. They are parsed once into one array on disk, which
is memory-mapped afterwards.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from remnant.data.cache import cached, read_array, write_array
from remnant.data.dataset import Dataset, MemoryMapped, Spec
from remnant.data.files import FileCheck, root
from remnant.data.images import progress_bar
from remnant.data.skeleton_file import JOINTS, KEPT, Joints, read_people
from remnant.errors import MissingFiles, RemnantError
from remnant.settings import read_file
from remnant.transforms.skeleton import SkeletonTransform
from remnant.transforms.skeleton_graph import KINECT_V2

FRAMES = 288  # frames used, of at most 300 in a file
SETUPS, ACTIONS = 17, 60  # higher numbers belong to NTU RGB+D 120
FOLDER = "nturgb+d_skeletons"  # as in the published archive
EXCLUDED = "NTU_RGBD_samples_with_missing_skeletons.txt"  # published list of 302 samples
MANUAL_DOWNLOAD = (
    "request it at https://rose1.ntu.edu.sg/dataset/actionRecognition, then put the folder "
    f"{FOLDER} and the list {EXCLUDED} into the data folder"
)
CLASSES = (
    *("drink water", "eat meal", "brush teeth", "brush hair", "drop", "pick up", "throw", "sit down"),
    *("stand up", "clap", "read", "write", "tear up paper", "put on jacket", "take off jacket"),
    *("put on shoe", "take off shoe", "put on glasses", "take off glasses", "put on hat"),
    *("take off hat", "cheer up", "wave hand", "kick something", "reach into pocket", "hop", "jump up"),
    *("phone call", "play with phone", "type on keyboard", "point to something", "take selfie"),
    *("check time", "rub hands", "nod head", "shake head", "wipe face", "salute", "put palms together"),
    *("cross hands in front", "sneeze or cough", "stagger", "fall down", "headache", "chest pain"),
    *("back pain", "neck pain", "vomit", "fan self", "punch or slap", "kick other person", "push"),
    *("pat back", "point finger", "hug", "give object", "touch pocket", "shake hands", "walk towards"),
    *("walk apart",),
)
NTU60 = Spec(
    name="ntu60",
    shape=(3, FRAMES, JOINTS, KEPT),
    classes=CLASSES,
    transform=SkeletonTransform(KINECT_V2),
    dtype=torch.float16,  # steps of at most 2 mm up to four metres from the camera
)
NTU60_XVIEW = replace(NTU60, name="ntu60-xview")

TRAIN_SUBJECTS = (1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38)
TRAIN_CAMERAS = (2, 3)


@dataclass(frozen=True)
class Sample:
    """A file and the numbers encoded in its name."""

    path: Path
    setup: int
    camera: int
    subject: int
    action: int

    @property
    def label(self) -> int:
        """Return the class number."""
        return self.action - 1


def load_ntu60(folder: Path | None) -> Dataset:
    """Load NTU-60 split by subject (x-sub): 20 subjects for training, 20 for testing."""
    return _load(NTU60, folder, "subject", TRAIN_SUBJECTS)


def load_ntu60_xview(folder: Path | None) -> Dataset:
    """Load NTU-60 split by camera (x-view): two cameras for training, one for testing."""
    return _load(NTU60_XVIEW, folder, "camera", TRAIN_CAMERAS)


def _load(spec: Spec, folder: Path | None, attribute: str, training: Sequence[int]) -> Dataset:
    home = root(folder)
    samples = find_samples(home)
    x = read_samples(home, samples)
    is_train = np.isin([getattr(sample, attribute) for sample in samples], training)
    labels = np.array([sample.label for sample in samples], dtype=np.int64)
    train, test = np.flatnonzero(is_train), np.flatnonzero(~is_train)
    return Dataset(
        spec=spec,
        train=MemoryMapped(x, train),
        y=labels[train],
        test=MemoryMapped(x, test),
        test_y=labels[test],
        index=np.arange(len(train), dtype=np.int64),
        published=len(train),
        truth=labels[train],
    )


def check_ntu60(folder: Path | None) -> list[FileCheck]:
    """Read every file that is used; return a check for the folder and for each damaged file."""
    samples = find_samples(root(folder))
    checks = [FileCheck(samples[0].path.parent, None, exists=True)]
    for sample in samples:
        try:
            read_people(sample.path, FRAMES)
        except RemnantError as error:
            problem = str(error).removeprefix(f"{sample.path}").lstrip(",: ")
            checks.append(FileCheck(sample.path, problem, sample.path.exists()))
    return checks


def parse_name(path: Path) -> Sample | None:
    """Parse setup, camera, subject and action; return None if the file is not part of NTU-60."""
    found = re.fullmatch(r"S(\d{3})C(\d{3})P(\d{3})R\d{3}A(\d{3})", path.stem)
    sample = Sample(path, *map(int, found.groups())) if found else None
    is_ntu60 = sample and 1 <= sample.setup <= SETUPS and 1 <= sample.action <= ACTIONS
    return sample if is_ntu60 else None


def find_samples(root: Path) -> list[Sample]:
    """Return the samples of NTU-60 in a data folder, sorted by name, without the excluded samples."""
    folder = next((f for f in (root / FOLDER, root) if any(f.glob("S*.skeleton"))), None)
    if folder is None:
        raise MissingFiles(f"{root / FOLDER}: expected .skeleton files, found none; {MANUAL_DOWNLOAD}")
    excluded = read_excluded(root)
    paths = sorted(folder.glob("S*.skeleton"))
    samples = [s for s in map(parse_name, paths) if s and s.path.stem not in excluded]
    if not samples:
        raise RemnantError(
            f"{folder}: expected files like S001C001P001R001A001.skeleton, of {SETUPS} setups (S) and "
            f"{ACTIONS} actions (A), found {len(paths):,} other files, like {paths[0].name}; "
            f"{MANUAL_DOWNLOAD}"
        )
    return samples


def read_excluded(root: Path) -> set[str]:
    """Return the names of excluded samples; lines of the list that are not sample names are ignored."""
    path = next((p for p in (root / EXCLUDED, root / FOLDER / EXCLUDED) if p.is_file()), root / EXCLUDED)
    try:
        lines = read_file(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RemnantError(
            f"{path}: expected the list of samples with missing skeletons, one name per line, found: "
            f"{error}; {MANUAL_DOWNLOAD}. To use all samples, create an empty file"
        ) from error
    paths = [Path(line.strip()) for line in lines]
    return {path.stem for path in paths if parse_name(path)}


def read_samples(root: Path, samples: Sequence[Sample]) -> NDArray[np.float16]:
    """Return all samples as one memory-mapped array (N, *shape), cached in the folder `root`."""
    states = [(s.path.name, s.path.stat()) for s in samples]
    listed = "".join(f"{name} {state.st_size} {state.st_mtime_ns}\n" for name, state in states)
    shape = (len(samples), *NTU60.shape)

    def make(folder: Path) -> None:
        def people() -> Iterator[Joints]:
            with progress_bar(len(samples), "skeletons") as bar:
                for sample in samples:
                    yield read_people(sample.path, FRAMES)
                    bar.update()

        write_array(folder, shape, np.float16, people())

    size = math.prod(shape) * np.dtype(np.float16).itemsize
    folder = cached(root, "ntu60", f"{NTU60.shape}\n{listed}", size, make)
    return read_array(folder, shape, np.float16)
