"""Checks for settings that cannot be used together."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from remnant.config.registries import components_of
from remnant.config.schema import Config
from remnant.data import Dataset, OwnData
from remnant.data.rows import no_rows
from remnant.errors import RemnantError
from remnant.methods.epoch_schedule import Phase, phases
from remnant.methods.protocol import Problem
from remnant.nets import check_fits as check_net
from remnant.noise import check_fits as check_noise
from remnant.stream import class_order


def config_problems(config: Config) -> Iterator[Problem]:
    """Yield the problems of a config."""
    spec = config.data_spec
    classes = len(spec.classes)
    yield from _row_problems(config)
    if config.split and (sum(config.split) != classes or min(config.split) < 1):
        yield Problem.of(
            f"split: expected numbers of classes that add up to the {classes} of {spec.name}, got "
            f"{list(config.split)} ({sum(config.split)})",
            *("data", "split"),
        )
    if any(not 0 < fraction < 1 for fraction in config.lr_drops):
        text = f"lr_drops: expected fractions in (0, 1), got {list(config.lr_drops)}"
        yield Problem.of(text, "lr_drops")
    attempts: dict[str, Callable[[], object]] = {
        "tasks": config.class_counts,
        "class_order": lambda: class_order(config.class_order, spec, np.random.default_rng()),
        "noise": lambda: check_noise(config.noise, spec),
        "net": lambda: check_net(config.net, spec),
    }
    for key, attempt in attempts.items():
        try:
            attempt()
        except RemnantError as error:
            yield Problem.of(f"{key}: {error}", "data", key)
    method, received = config.to_method(), config.spec
    for name in components_of(method) if not received.are_images else ():
        if getattr(getattr(method, name), "cutmix", 0):
            text = (
                f"{name}: CutMix needs images, but gets {received.kind} of {spec.name}; set {name}.cutmix=0"
            )
            yield Problem.of(text, "data", "method", name)
    yield from method.check(config.setup(), config.method)


def _row_problems(config: Config) -> Iterator[Problem]:
    """Yield the problems of tasks that follow from the rows of a table."""
    if isinstance(config.tasks, str):
        if not _has_rows(config):
            yield Problem.of(no_rows(config.tasks, config.spec.name), "data", "tasks")
        if config.split:
            yield Problem.of(f"split: expected none with tasks={config.tasks}, got {config.split}", "split")


def _has_rows(config: Config) -> bool:
    """Return whether the data have rows that tasks can follow from."""
    if isinstance(config.data, OwnData):
        listing = config.data.listing
        return bool(listing.task) if config.tasks == "column" else listing.is_ordered
    rows = config.data.rows if isinstance(config.data, Dataset) else None
    return rows is not None and (config.tasks != "column" or rows.task is not None)


def unused_settings(config: Config) -> set[str]:
    """Return the settings that have no effect with the method of a config."""
    unused, done = set(config.algorithm.unused), Phase.IDLE
    if config.schedule is None:  # not a replay method
        return unused
    for phase in phases(config.schedule, config.epochs):
        done |= phase
    if not done & (Phase.REPLAY | Phase.WRITE):
        unused |= {"buffer_size", "rebuild", "batchnorm"}
    if Phase.WRITE not in done:
        unused |= {"insertion", "replacement", "scoring"}
    if Phase.TRAIN not in done:
        unused |= {"lr", "lr_drops", "momentum", "weight_decay"}
    return unused


def unused_remark(config: Config, keys: Iterable[str]) -> list[str]:
    """Return a warning if settings that a user gave, as `key` or `component.key`, have no effect.

    A warning, because a command may be repeated for several methods with the same settings.
    """
    unused = unused_settings(config)
    given = [key for key in keys if key.partition(".")[0] in unused]
    if not given:
        return []
    own = [f"{k}.{name}" for k, v in config.table().items() if isinstance(v, dict) for name in v]
    similar = [name for name in own if name.partition(".")[0] not in unused and name.endswith(tuple(given))]
    has = f"; it has {', '.join(similar)}" if similar else ""
    return [f"warning: {config.method} does not use {', '.join(given)}{has}"]
