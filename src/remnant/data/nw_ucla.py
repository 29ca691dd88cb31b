"""Northwestern-UCLA skeletons: 10 actions by 10 subjects, recorded by three cameras (Kinect v1).

They are read from nw_ucla.npz: `joints` (F, 20, 3) has the frames of all sequences, in metres; sequence i is
joints[offsets[i]:offsets[i + 1]]; `y` is the action of each sequence, and `is_train_crossview` is True if it
was recorded by camera 1 or 2 (training split), and False for camera 3 (test split).
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from remnant.data.dataset import Dataset, Labels, Spec, arrays
from remnant.data.files import ARRAY_READ_ERRORS, MAX_HEADER, FileCheck, root
from remnant.errors import MissingFiles, RemnantError, unmet
from remnant.settings import read_file
from remnant.transforms.skeleton import SkeletonTransform
from remnant.transforms.skeleton_graph import KINECT_V1

FILE = "nw_ucla.npz"
MANUAL_DOWNLOAD = (
    f"put a file {FILE} into the data folder, with the frames of all sequences as joints (F, 20, 3), "
    "the start of each sequence as offsets (n + 1,), its action as y (n,), and whether camera 1 or 2 "
    "recorded it as is_train_crossview (n,)"
)
FRAMES = 64
HIPS = KINECT_V1.joints.index("middle of hips")
NW_UCLA = Spec(
    name="nw-ucla",
    shape=(3, FRAMES, len(KINECT_V1.joints), 1),
    classes=(
        *("pick up with one hand", "pick up with two hands", "drop trash", "walk around", "sit down"),
        *("stand up", "donning", "doffing", "throw", "carry"),
    ),
    transform=SkeletonTransform(KINECT_V1),
    dtype=torch.float32,
)


@dataclass(frozen=True, eq=False)
class Sequences:
    """The content of the file: F frames, n sequences."""

    joints: NDArray[np.float32]  # (F, 20, 3)
    offsets: NDArray[np.int64]  # (n + 1,)
    y: Labels  # (n,)
    is_train_crossview: NDArray[np.bool_]  # (n,)


def load_nw_ucla(folder: Path | None) -> Dataset:
    """Load the sequences with more than one frame, split by camera."""
    found = _read(root(folder) / FILE)
    used, edges = _is_long_enough(found), found.offsets
    x = np.stack([resample(found.joints[edges[i] : edges[i + 1]]) for i in np.flatnonzero(used)])
    y, is_train = found.y[used], found.is_train_crossview[used]
    return arrays(NW_UCLA, x[is_train], y[is_train], x[~is_train], y[~is_train], truth=y[is_train])


def check_nw_ucla(folder: Path | None) -> list[FileCheck]:
    """Check the file."""
    path, problem = root(folder) / FILE, None
    try:
        _read(path)
    except RemnantError as error:
        problem = str(error).removeprefix(f"{path}: ").removesuffix(f"; {MANUAL_DOWNLOAD}")
    return [FileCheck(path, problem, path.exists())]


def resample(joints: NDArray[np.float32], frames: int = FRAMES) -> NDArray[np.float32]:
    """Return a sequence (T, V, 3) of any length as (3, frames, V, 1), relative to the hips in frame 0.

    Joints are interpolated linearly between frames; the first and the last frame are kept.
    """
    centred = joints - joints[0, HIPS]
    time = np.linspace(0, len(joints) - 1, frames)
    before = np.minimum(time.astype(np.int64), len(joints) - 2)
    weight = (time - before)[:, None, None].astype(np.float32)
    x: NDArray[np.float32] = centred[before] * (1 - weight) + centred[before + 1] * weight
    return x.transpose(2, 0, 1)[..., None]


def _read(path: Path) -> Sequences:
    names = [field.name for field in fields(Sequences)]
    try:
        with np.load(io.BytesIO(read_file(path)), allow_pickle=False, max_header_size=MAX_HEADER) as file:
            found = {name: np.asarray(file[name]) for name in names}  # bytes, if it is no array file
    except FileNotFoundError as error:
        raise MissingFiles(f"{path}: expected a file, found nothing; {MANUAL_DOWNLOAD}") from error
    except (*ARRAY_READ_ERRORS, AttributeError) as error:  # a single array, or a member that is none
        raise RemnantError(
            f"{path}: expected an .npz file with the arrays {', '.join(names)}, found: {error}; "
            f"{MANUAL_DOWNLOAD}"
        ) from error
    shapes = ", ".join(f"{name} {array.shape} of {array.dtype}" for name, array in found.items())
    wrong = _wrong_shapes(found)
    if not wrong:
        joints, edges = found["joints"].astype(np.float32), found["offsets"].astype(np.int64)
        sequences = Sequences(joints, edges, found["y"], found["is_train_crossview"])
        wrong = _wrong_values(sequences)
    if wrong:
        raise RemnantError(f"{path}: expected {', '.join(wrong)}, found {shapes}; {MANUAL_DOWNLOAD}")
    return sequences


def _wrong_shapes(found: Mapping[str, NDArray[np.generic]]) -> list[str]:
    """Return the requirements that the shapes and dtypes of the arrays do not meet."""
    count, joints, is_train = found["offsets"].size - 1, len(KINECT_V1.joints), "is_train_crossview"
    kinds = {name: array.dtype.kind for name, array in found.items()}
    shapes = {name: array.shape for name, array in found.items()}
    expected = {
        f"joints (F, {joints}, 3) in metres": shapes["joints"][1:] == (joints, 3) and kinds["joints"] == "f",
        "offsets (n + 1,) of integers": shapes["offsets"] == (count + 1,)
        and count > 0
        and kinds["offsets"] in "iu",
        f"y ({count},) of integers": shapes["y"] == (count,) and kinds["y"] in "iu",
        f"{is_train} ({count},) of bool": shapes[is_train] == (count,) and kinds[is_train] == "b",
    }
    return unmet(expected)


def _wrong_values(found: Sequences) -> list[str]:
    """Return the requirements that the values of the arrays do not meet."""
    edges, classes = found.offsets, len(NW_UCLA.classes)
    is_increasing = edges[0] == 0 and edges[-1] == len(found.joints) and (np.diff(edges) > 0).all()
    expected = {
        "finite joints": np.isfinite(found.joints).all(),
        "offsets that increase from 0 to F": is_increasing,
        f"labels below {classes}": np.isin(found.y, range(classes)).all(),
        "sequences of at least two frames in both splits": is_increasing
        and len(set(found.is_train_crossview[_is_long_enough(found)])) == 2,
    }
    return unmet(expected)


def _is_long_enough(found: Sequences) -> NDArray[np.bool_]:
    """Return which sequences have more than one frame, (n,)."""
    return np.diff(found.offsets) > 1
