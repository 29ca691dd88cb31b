"""What has to be known of a dataset and a method to build their network again, as plain values.

A spec is rebuilt from its description. Transforms other than those of images are found by the name of
their dataset.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from remnant.config import Config, resolve
from remnant.config.registries import OF_METHOD
from remnant.data import Dataset, Spec, entry
from remnant.data.dataset import InMemory, Transform
from remnant.extensions import names_code
from remnant.transforms.image import ImageTransform
from remnant.transforms.resizing import RESIZES

OF_NETWORK = ("net", "method", *OF_METHOD)  # settings that determine the structure of the network


def describe_spec(spec: Spec) -> dict[str, Any]:
    """Return a spec as plain values."""
    transform: dict[str, Any] = {"data": spec.name}
    if isinstance(spec.transform, ImageTransform):
        transform = asdict(spec.transform)
    return {
        "name": spec.name,
        "shape": list(spec.shape),
        "dtype": str(spec.dtype).removeprefix("torch."),
        "classes": list(spec.classes),
        "transform": transform,
        "resize": spec.resize.about,
    }


def to_spec(description: Mapping[str, Any]) -> Spec:
    """Return the spec with this description."""
    given = description["transform"]
    if names_code(given):
        raise ValueError("its transform names a Python file, which is not executed")
    transform: Transform
    if "data" in given:
        transform = entry(given["data"]).spec.transform
    else:
        transform = ImageTransform(tuple(given["mean"]), tuple(given["std"]), given["pad"], given["flip"])
    return Spec(
        name=description["name"],
        shape=tuple(description["shape"]),
        classes=tuple(description["classes"]),
        transform=transform,
        dtype=getattr(torch, description["dtype"]),
        resize=RESIZES[description["resize"]],
    )


def config_for(spec: Spec, settings: Mapping[str, Any]) -> Config:
    """Return a config with these settings for samples of this spec, whose samples are not known."""
    none, no_labels = InMemory(torch.empty(0, *spec.shape, dtype=spec.dtype)), np.empty(0, np.int64)
    data = Dataset(spec, none, no_labels, none, no_labels, no_labels, 0)
    return resolve({**settings, "data": data, "tasks": 1, "name": "learner"})


def network_settings(config: Config) -> dict[str, Any]:
    """Return the settings of a config that determine the structure of its network."""
    return {name: value for name, value in config.table().items() if name in OF_NETWORK}


def names_of(labels: Sequence[object]) -> tuple[str, ...]:
    """Return labels, which may be numbers, as names of classes."""
    return tuple(str(label) for label in labels)
