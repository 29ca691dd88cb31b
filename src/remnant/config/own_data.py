"""Own data in a config, and the settings that fit them if there is no recipe."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from remnant.config.components import PYTHON, as_table, build, name_of
from remnant.config.registries import OWN_DATA, REGISTRIES
from remnant.data import OwnData
from remnant.data.pretrained import EFFICIENTNET_LITE0
from remnant.extensions import is_own_data
from remnant.nets import Features
from remnant.settings import user_path

STEPS = 600  # training steps per task that the default number of epochs aims at
EPOCHS = (10, 40)  # least and most; even, since alternate replay has pairs of epochs
BATCH = (4, 32)
MOST_TASKS, LEAST_CLASSES = 5, 2  # default number of tasks, and of classes in each
BUFFER_SHARE, MOST_STORED = 10, 2000  # one of so many training samples is stored, and at most so many
SMALLEST_FOR_RESNET = 24  # side length of images in pixels
FEATURES = "features:efficientnet-lite0"
LR, LR_OF_FEATURES = 0.1, 0.003


def find_own_data(value: Any) -> tuple[Any, list[str]]:  # noqa: ANN401
    """Return the own data that a text or a table describes, with an absolute path, and its problems."""
    name = value.get("name") if isinstance(value, Mapping) else None
    if isinstance(value, OwnData):
        return value, []
    if name not in OWN_DATA and not (isinstance(value, str) and is_own_data(value)):
        own = [key for key in value if key != "name"] if isinstance(name, str) and PYTHON not in value else []
        what = f"only own data has the setting {', '.join(own)}: folder:DIR, table:FILE.csv or hf:NAME"
        return (name, [f"data: {what}, got {name!r}"]) if own else (value, [])
    try:
        data: OwnData = build(OWN_DATA, as_table(OWN_DATA, value))
    except ValueError as error:
        return "digits", [f"data: {error}"]
    path = user_path(data.path)
    is_hub = name_of(OWN_DATA, data) == "hf" and not os.path.exists(path)
    return replace(data, path=data.path if is_hub else os.path.abspath(path)), []


def own_defaults(data: OwnData, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run on own data without a recipe, except those that the user gives."""
    samples, classes = int((~data.is_test).sum()), len(data.spec.classes)
    tasks = default_tasks(data) if not {"tasks", "split"} & settings.keys() else {}
    per_task = max(1, samples // _count({"tasks": MOST_TASKS} | tasks | dict(settings)))
    batch = _clipped(per_task // 4, *BATCH)
    epochs = _clipped(STEPS * batch // per_task, *EPOCHS)
    net = settings.get("net", default_net(data.side))
    return {
        "name": str(name_of(OWN_DATA, data)),
        "net": net,
        **tasks,
        "batch": batch,
        "epochs": epochs + epochs % 2,
        "lr": default_lr(net),
        "buffer_size": _clipped(samples // BUFFER_SHARE, min(2 * classes, samples), MOST_STORED),
    }


def default_net(side: int) -> str:
    """Return the network for own images: a head on frozen features if they are installed, else by size."""
    if EFFICIENTNET_LITE0.is_installed():
        return FEATURES
    return "resnet18:8" if side >= SMALLEST_FOR_RESNET else "small"


def default_lr(net: Any) -> float:  # noqa: ANN401
    """Return the learning rate for a network: a head on frozen features needs a smaller one."""
    is_table, registry = isinstance(net, str | Mapping), REGISTRIES["net"]
    try:
        found = build(registry, as_table(registry, net)) if is_table else net
    except ValueError:  # reported later
        return LR
    return LR_OF_FEATURES if isinstance(found, Features) and not found.train_backbone else LR


def with_side_of(net: object, data: OwnData) -> OwnData:
    """Return own data that are decoded in the size that a pretrained network expects, unless one is set."""
    if not isinstance(net, Features) or data.image_size:
        return data
    return replace(data, image_size=net.pretrained.size)


def default_tasks(data: OwnData) -> dict[str, Any]:
    """Return the tasks of own data: by a column, or at most five groups of at least two classes."""
    if data.listing.task:
        return {"tasks": "column"}
    classes = len(data.spec.classes)
    count = _clipped(classes // LEAST_CLASSES, 1, MOST_TASKS)
    size, larger = divmod(classes, count)
    return {"split": [size] * (count - larger) + [size + 1] * larger} if larger else {"tasks": count}


def _count(settings: Mapping[str, Any]) -> int:
    """Return the number of tasks of these settings, as far as it is known; mistakes are found later."""
    tasks, split = settings["tasks"], settings.get("split")
    if isinstance(split, list | tuple) and split:
        return len(split)
    last = str(tasks).rpartition(":")[2]
    return max(1, int(last)) if last.isdecimal() and len(last) < 9 else MOST_TASKS


def _clipped(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
