"""Datasets by name, and folders, as tasks of a learner."""

from pathlib import Path

import torch

from remnant.data import data_dir, load, names
from remnant.learner.learner import Learner

FOLDER = "folder:"


def learn_from(learner: Learner, data: str, folder: Path | None) -> int:
    """Learn the training samples of a dataset or of a folder as one task, and return their number.

    `folder` is the data folder of datasets that are loaded by name.
    """
    before = learner.samples
    if data.startswith(FOLDER) or (data not in names() and Path(data).is_dir()):
        learner.learn(Path(data.removeprefix(FOLDER)))
    else:
        found = load(data, data_dir(folder))
        x = found.train.take(torch.arange(len(found.train)))
        learner.learn(x, [found.spec.classes[y] for y in found.y])
    return learner.samples - before
