"""A small dataset of skeletons: four actions that look the same in a mirror."""

import numpy as np
import torch

from remnant.data import Dataset, Spec
from remnant.data.dataset import arrays
from remnant.transforms.skeleton import SkeletonTransform
from remnant.transforms.skeleton_graph import KINECT_V1

ACTIONS = {  # joints and axis of a movement
    "raise arms": (range(4, 12), 1),
    "step forward": (range(12, 20), 2),
    "jump": (range(20), 1),
    "stand": (range(0), 0),
}
SPEC = Spec(
    name="synthetic",
    shape=(3, 8, 20, 1),
    classes=tuple(ACTIONS),
    transform=SkeletonTransform(KINECT_V1),
    dtype=torch.float16,
)


def action_dataset(per_class: int = 6) -> Dataset:
    """In each action some joints move and return."""
    rng, frames = np.random.default_rng(0), np.linspace(0, np.pi, 8)
    y = np.repeat(np.arange(4), per_class)
    x = rng.normal(0, 0.02, (len(y), 3, 8, 20, 1)) + rng.normal(0, 1, (3, 1, 20, 1))
    for i, label in enumerate(y):
        joints, axis = list(ACTIONS.values())[label]
        x[i, axis][:, list(joints), 0] += np.sin(frames)[:, None]
    return arrays(SPEC, x.astype(np.float16), y, x[::2].astype(np.float16), y[::2], truth=y)
