"""Generators, blank datasets and files of human labels for tests of label noise."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from remnant.data import DATA
from remnant.data.dataset import Dataset, arrays

# Kind of human labels -> by how much its labels are shifted.
SHIFTS = {"aggre": 1, "random1": 2, "random2": 3, "random3": 4, "worse": 5}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def dataset_like(name: str, per_class: int = 20) -> Dataset:
    """Return a dataset with the classes of a real one, and blank images."""
    spec = DATA[name].spec
    y = np.repeat(np.arange(len(spec.classes)), per_class)
    blank = np.zeros((len(y), *spec.shape), dtype=np.uint8)
    return arrays(spec, blank, y, blank[:1], y[:1], truth=y)


def shuffled(name: str, folder: Path) -> Dataset:
    """Return a dataset with the classes of a real one in random order, as if loaded from this folder."""
    data = dataset_like(name, per_class=4)
    y = rng().permutation(data.y)
    return replace(data, y=y, truth=y, folder=folder)


def annotations(y: np.ndarray) -> dict[str, np.ndarray]:
    """Return labels in the form of CIFAR-10N, shifted by a different number for each kind."""
    names = {k: k.replace("random", "random_label") if k[-1].isdigit() else f"{k}_label" for k in SHIFTS}
    return {"clean_label": y} | {names[kind]: (y + shift) % 10 for kind, shift in SHIFTS.items()}


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays in the published format, or as an .npz whose names start with `human_`."""
    if path.suffix == ".npz":
        names = {name: name if name.startswith("clean") else f"human_{name}" for name in arrays}
        np.savez(path, **{names[name]: array for name, array in arrays.items()})
    else:
        torch.save(arrays, path)


def sha256(labels: np.ndarray) -> str:
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()
