"""NTU RGB+D 60: sixty actions of forty people before three cameras, from the published skeleton files.

They are given out by their authors to those who ask, and read once: all of them go into one array on
disk, which is mapped into memory afterwards.
"""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from remnant.data.files import FileCheck, root
from remnant.data.skeleton_file import JOINTS, KEPT, read_people
from remnant.data.source import Dataset, Mapped, Spec
from remnant.data.stored import read_rows, stored, write_rows
from remnant.errors import RemnantError
from remnant.skeleton import KINECT_V2, SkeletonView

FRAMES = 288  # of at most 300 in a file
SETUPS, ACTIONS = 17, 60  # the rest is NTU RGB+D 120
FOLDER = "nturgb+d_skeletons"  # as in the published archive
LEFT_OUT = "NTU_RGBD_samples_with_missing_skeletons.txt"  # as its authors call it: 302 of these samples
BY_HAND = (
    "ask for it at https://rose1.ntu.edu.sg/dataset/actionRecognition, then put the folder "
    f"{FOLDER} and the list {LEFT_OUT} into the data folder"
)
CLASSES = (
    *("drink water", "eat meal", "brush teeth", "brush hair", "drop", "pick up", "throw", "sit down"),
    *("stand up", "clap", "read", "write", "tear up paper", "put on jacket", "take off jacket"),
    *("put on shoe", "take off shoe", "put on glasses", "take off glasses", "put on hat"),
    *("take off hat", "cheer up", "wave hand", "kick something", "reach into pocket", "hop", "jump up"),
    *("phone call", "play with phone", "type on keyboard", "point to something", "take selfie"),
    *("check time", "rub hands", "nod head", "shake head", "wipe face", "salute", "put palms together"),
    *("cross hands in front", "sneeze or cough", "stagger", "fall down", "headache", "chest pain"),
    *(
        "back pain",
        "neck pain",
        "vomit",
        "fan self",
        "punch or slap",
        "kick somebody",
        "push",
        "pat back",
    ),
    *("point finger", "hug", "give object", "touch pocket", "shake hands", "walk towards", "walk apart"),
)
NTU60 = Spec(
    name="ntu60",
    shape=(3, FRAMES, JOINTS, KEPT),
    classes=CLASSES,
    view=SkeletonView(KINECT_V2),
    dtype=torch.float16,  # to 2 mm, where somebody is four metres away
)
NTU60_XVIEW = replace(NTU60, name="ntu60-xview")

TRAIN_SUBJECTS = (1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38)
TRAIN_CAMERAS = (2, 3)


@dataclass(frozen=True)
class Sample:
    """A file and what its name says."""

    path: Path
    setup: int
    camera: int
    subject: int
    action: int

    @property
    def label(self) -> int:
        """Return the class."""
        return self.action - 1


def load_ntu60(folder: Path | None) -> Dataset:
    """Load NTU-60 as split by people (x-sub): twenty to learn from, twenty to be tested on."""
    return _load(NTU60, folder, "subject", TRAIN_SUBJECTS)


def load_ntu60_xview(folder: Path | None) -> Dataset:
    """Load NTU-60 as split by cameras (x-view): two to learn from, one to be tested on."""
    return _load(NTU60_XVIEW, folder, "camera", TRAIN_CAMERAS)


def _load(spec: Spec, folder: Path | None, by: str, of_training: Sequence[int]) -> Dataset:
    home = root(folder)
    samples = find_samples(home)
    x = mapped(home, samples)
    is_train = np.isin([getattr(sample, by) for sample in samples], of_training)
    labels = np.array([sample.label for sample in samples], dtype=np.int64)
    train, test = np.flatnonzero(is_train), np.flatnonzero(~is_train)
    return Dataset(
        spec=spec,
        train=Mapped(x, train),
        y=labels[train],
        test=Mapped(x, test),
        test_y=labels[test],
        index=np.arange(len(train), dtype=np.int64),
        published=len(train),
    )


def check_ntu60(folder: Path | None) -> list[FileCheck]:
    """Read every file that is learned from or tested on; return an entry for each that is wrong."""
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
    """Return setup, camera, subject and action, or None if the name is none of NTU-60."""
    found = re.fullmatch(r"S(\d{3})C(\d{3})P(\d{3})R\d{3}A(\d{3})", path.stem)
    sample = Sample(path, *map(int, found.groups())) if found else None
    is_ours = sample and 1 <= sample.setup <= SETUPS and 1 <= sample.action <= ACTIONS
    return sample if is_ours else None


def find_samples(root: Path) -> list[Sample]:
    """Return the samples of NTU-60 in a data folder by name, without those in the list to leave out."""
    folder = next((f for f in (root / FOLDER, root) if any(f.glob("S*.skeleton"))), None)
    if folder is None:
        raise RemnantError(f"{root / FOLDER}: expected .skeleton files, found none; {BY_HAND}")
    left_out = read_left_out(root)
    paths = sorted(folder.glob("S*.skeleton"))
    samples = [s for s in map(parse_name, paths) if s and s.path.stem not in left_out]
    if not samples:
        raise RemnantError(
            f"{folder}: expected files as S001C001P001R001A001.skeleton, of {SETUPS} setups (S) and "
            f"{ACTIONS} actions (A), found {len(paths):,} others, as {paths[0].name}; {BY_HAND}"
        )
    return samples


def read_left_out(root: Path) -> set[str]:
    """Return the names in the list of samples to leave out; its other lines are prose."""
    path = next((p for p in (root / LEFT_OUT, root / FOLDER / LEFT_OUT) if p.is_file()), root / LEFT_OUT)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RemnantError(
            f"{path}: expected the list of samples without sound skeletons, one name in a line, found: "
            f"{error}; {BY_HAND}. If all of your samples are to be used, make it an empty file"
        ) from error
    listed = [Path(line.strip()) for line in lines]
    return {name.stem for name in listed if parse_name(name)}


def mapped(root: Path, samples: Sequence[Sample]) -> NDArray[np.float16]:
    """Return all samples as one array on disk, (N, *shape), which is made the first time."""
    states = [(s.path.name, s.path.stat()) for s in samples]
    listed = "".join(f"{name} {state.st_size} {state.st_mtime_ns}\n" for name, state in states)
    shape = (len(samples), *NTU60.shape)

    def make(folder: Path) -> None:
        from tqdm import tqdm

        shown = tqdm(samples, "skeletons", disable=not sys.stderr.isatty())
        write_rows(folder, shape, np.float16, (read_people(s.path, FRAMES) for s in shown))

    size = math.prod(shape) * np.dtype(np.float16).itemsize
    folder = stored(root, "ntu60", f"{NTU60.shape}\n{listed}", size, make)
    return read_rows(folder, shape, np.float16)
