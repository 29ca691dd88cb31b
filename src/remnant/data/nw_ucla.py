"""Northwestern-UCLA skeletons: ten actions of ten people before three cameras (Kinect v1).

They are read from nw_ucla.npz: `joints` (frames of all sequences, 20, 3) in metres; sequence i is
joints[offsets[i]:offsets[i + 1]]; `y` and `is_train_crossview` of each sequence: learned from where
cameras 1 and 2 saw it, tested on where camera 3 did.
"""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from remnant.data.files import UNREADABLE, root
from remnant.data.source import Dataset, Labels, Spec, arrays
from remnant.errors import RemnantError
from remnant.skeleton import KINECT_V1, SkeletonView

FILE = "nw_ucla.npz"
BY_HAND = f"put a file {FILE} into the data folder, with the arrays that its loader describes"
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
    moves, edges = np.diff(content.offsets) > 1, content.offsets
    x = np.stack([resampled(content.joints[edges[i] : edges[i + 1]]) for i in np.flatnonzero(moves)])
    y, is_train = content.y[moves], content.is_train_crossview[moves]
    return arrays(NW_UCLA, x[is_train], y[is_train], x[~is_train], y[~is_train])


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
            content = Content(**{name: file[name] for name in names})
    except FileNotFoundError as error:
        raise RemnantError(f"{path}: expected a file, found nothing; {BY_HAND}") from error
    except UNREADABLE as error:
        raise RemnantError(
            f"{path}: expected an .npz file with the arrays {', '.join(names)}, found: {error}; "
            f"{BY_HAND}"
        ) from error
    if content.offsets.ndim != 1 or len(content.offsets) < 2 or content.offsets.dtype.kind not in "iu":
        raise RemnantError(f"{path}: expected offsets (n + 1,) in whole numbers; {BY_HAND}")
    if content.joints.dtype.kind != "f":
        raise RemnantError(f"{path}: expected joints in metres, found {content.joints.dtype}; {BY_HAND}")
    _check(path, content)
    return content


def _check(path: Path, content: Content) -> None:
    joints, edges, y, count = content.joints, content.offsets, content.y, len(content.offsets) - 1
    is_train, shape, classes = content.is_train_crossview, NW_UCLA.shape, len(NW_UCLA.classes)
    rises = edges[0] == 0 and edges[-1] == len(joints) and (np.diff(edges) > 0).all()
    expected = {
        f"joints (F, {shape[2]}, 3)": joints.shape[1:] == (shape[2], 3),
        "finite joints": np.isfinite(joints).all(),
        "offsets that rise from 0 to F": rises,
        f"{count} labels below {classes}": y.shape == (count,) and np.isin(y, range(classes)).all(),
        f"{count} booleans": is_train.shape == (count,) and is_train.dtype == np.bool_,
    }
    wrong = [what for what, is_so in expected.items() if not is_so]
    if wrong:
        raise RemnantError(f"{path}: expected {', '.join(wrong)}, found other arrays; {BY_HAND}")
