"""Northwestern-UCLA skeletons: ten actions of ten people before three cameras (Kinect v1).

They are read from nw_ucla.npz: `joints` (frames of all sequences, 20, 3) in metres; sequence i is
joints[offsets[i]:offsets[i + 1]]; `y` and `is_train_crossview` of each sequence: learned from where
cameras 1 and 2 saw it, tested on where camera 3 did.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from remnant.data.files import UNREADABLE, FileCheck, root
from remnant.data.source import Dataset, Labels, Spec, arrays
from remnant.errors import RemnantError, unmet
from remnant.skeleton import KINECT_V1, SkeletonView

FILE = "nw_ucla.npz"
BY_HAND = (
    f"put a file {FILE} into the data folder, with the frames of all sequences as joints (F, 20, 3), "
    "where each sequence begins as offsets (n + 1,), its action as y (n,), and whether camera 1 or 2 "
    "saw it as is_train_crossview (n,)"
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
    view=SkeletonView(KINECT_V1),
    dtype=torch.float32,
)


@dataclass(frozen=True, eq=False)
class Content:
    """What is in the file. F frames, n sequences."""

    joints: NDArray[np.float32]  # (F, 20, 3)
    offsets: NDArray[np.int64]  # (n + 1,)
    y: Labels  # (n,)
    is_train_crossview: NDArray[np.bool_]  # (n,)


def load_nw_ucla(folder: Path | None) -> Dataset:
    """Load the sequences of more than one frame, split by camera."""
    content = _read(root(folder) / FILE)
    moves, edges = _moves(content), content.offsets
    x = np.stack([resampled(content.joints[edges[i] : edges[i + 1]]) for i in np.flatnonzero(moves)])
    y, is_train = content.y[moves], content.is_train_crossview[moves]
    return arrays(NW_UCLA, x[is_train], y[is_train], x[~is_train], y[~is_train])


def check_nw_ucla(folder: Path | None) -> list[FileCheck]:
    """Read the file and say what is wrong with it."""
    path, problem = root(folder) / FILE, None
    try:
        _read(path)
    except RemnantError as error:
        problem = str(error).removeprefix(f"{path}: ").removesuffix(f"; {BY_HAND}")
    return [FileCheck(path, problem, path.exists())]


def resampled(joints: NDArray[np.float32], frames: int = FRAMES) -> NDArray[np.float32]:
    """Return a sequence (T, V, 3) of any length as (3, frames, V, 1), seen from its first hips.

    The first frame stays the first and the last the last; between two frames joints move on lines.
    """
    centred = joints - joints[0, HIPS]
    when = np.linspace(0, len(joints) - 1, frames)
    before = np.minimum(when.astype(np.int64), len(joints) - 2)
    part = (when - before)[:, None, None].astype(np.float32)
    along: NDArray[np.float32] = centred[before] * (1 - part) + centred[before + 1] * part
    return along.transpose(2, 0, 1)[..., None]


def _read(path: Path) -> Content:
    names = [field.name for field in fields(Content)]
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in names}
    except FileNotFoundError as error:
        raise RemnantError(f"{path}: expected a file, found nothing; {BY_HAND}") from error
    except UNREADABLE as error:
        raise RemnantError(
            f"{path}: expected an .npz file with the arrays {', '.join(names)}, found: {error}; "
            f"{BY_HAND}"
        ) from error
    shapes = ", ".join(f"{name} {array.shape} of {array.dtype}" for name, array in found.items())
    wrong = _ill_formed(found)
    if not wrong:
        joints, edges = found["joints"].astype(np.float32), found["offsets"].astype(np.int64)
        content = Content(joints, edges, found["y"], found["is_train_crossview"])
        wrong = _wrong(content)
    if wrong:
        raise RemnantError(f"{path}: expected {', '.join(wrong)}, found {shapes}; {BY_HAND}")
    return content


def _ill_formed(found: Mapping[str, NDArray[np.generic]]) -> list[str]:
    """Return what is expected of the shapes and types of the arrays, and not so."""
    count, joints, is_train = found["offsets"].size - 1, len(KINECT_V1.joints), "is_train_crossview"
    kinds = {name: array.dtype.kind for name, array in found.items()}
    shapes = {name: array.shape for name, array in found.items()}
    expected = {
        f"joints (F, {joints}, 3) in metres": shapes["joints"][1:] == (joints, 3)
        and kinds["joints"] == "f",
        "offsets (n + 1,) in whole numbers": shapes["offsets"] == (count + 1,)
        and count > 0
        and kinds["offsets"] in "iu",
        f"y ({count},) in whole numbers": shapes["y"] == (count,) and kinds["y"] in "iu",
        f"{is_train} ({count},) of bool": shapes[is_train] == (count,) and kinds[is_train] == "b",
    }
    return unmet(expected)


def _wrong(content: Content) -> list[str]:
    """Return what is expected of the values, and not so."""
    edges, classes = content.offsets, len(NW_UCLA.classes)
    rises = edges[0] == 0 and edges[-1] == len(content.joints) and (np.diff(edges) > 0).all()
    expected = {
        "finite joints": np.isfinite(content.joints).all(),
        "offsets that rise from 0 to F": rises,
        f"labels below {classes}": np.isin(content.y, range(classes)).all(),
        "sequences of two frames or more on both sides": rises
        and len(set(content.is_train_crossview[_moves(content)])) == 2,
    }
    return unmet(expected)


def _moves(content: Content) -> NDArray[np.bool_]:
    """Return which sequences have more than one frame, (n,)."""
    return np.diff(content.offsets) > 1
