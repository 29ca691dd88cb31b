"""Grids: TOML files with lists of values, which expand to the configs of their runs.

Every key of a grid is a setting, or `recipe`. A list has one value for each run; the runs are all
combinations. Tables `[[grid]]` have combinations of their own on top of the keys before them.
"""

import itertools
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from remnant.config import Config
from remnant.config.checks import unused_settings
from remnant.config.recipe import packaged_texts, to_config
from remnant.config.registries import COMPONENTS, REGISTRIES
from remnant.errors import RemnantError, nearest
from remnant.settings import read_file

RECIPE, METHOD, SEED, BLOCKS, ABOUT = "recipe", "method", "seed", "grid", "about"
MAX_RUNS = 100_000
Table = Mapping[str, Any]
Combination = tuple[str | None, dict[str, Any], list[int]]  # recipe, settings, seeds


def grids() -> dict[str, str]:
    """Return the text of each packaged grid."""
    return packaged_texts(files("remnant.sweep") / "grids")


def read_grid(name: str) -> dict[str, Any]:
    """Return a packaged grid, or that of a TOML file."""
    known = grids()
    try:
        if not os.path.isfile(name) and name in known:
            return tomllib.loads(known[name])
        return tomllib.loads(read_file(Path(name)).decode())
    except FileNotFoundError as error:
        raise RemnantError(
            f"unknown grid {name!r}{nearest(name, known)} Expected a TOML file, or one of {', '.join(known)}."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise RemnantError(f"{name}: expected a grid in TOML, but {error}. Fix the file.") from error


def expand(table: Table, changes: Table | None = None, methods: Sequence[str] | None = None) -> list[Config]:
    """Return the configs of all runs of a grid in its order, each once; `changes` override its keys.

    `methods` chooses among the methods of the grid, whose settings stay theirs.
    """
    configs: dict[str, Config] = {}
    for recipe, settings, seeds in _chosen(list(combinations(table, changes or {})), methods):
        config = to_config(recipe, settings)
        for seeded in _seeded(config, seeds or [config.seed]):
            configs.setdefault(seeded.digest(), seeded)
        if len(configs) > MAX_RUNS:
            raise RemnantError(f"expected a grid of at most {MAX_RUNS:,} runs, got more. Divide it.")
    return list(configs.values())


def _chosen(found: list[Combination], methods: Sequence[str] | None) -> list[Combination]:
    """Return the combinations that have one of some methods; those without a method get each of them."""
    if methods is None:
        return found
    listed = dict.fromkeys(settings[METHOD] for _, settings, _ in found if METHOD in settings)
    unknown = [method for method in methods if listed and method not in listed]
    if unknown:
        raise RemnantError(
            f"unknown method {unknown[0]!r}{nearest(unknown[0], listed)} Expected methods of the grid: "
            f"{', '.join(map(str, listed))}. To run another one instead of them, write method=NAME."
        )
    return [
        (recipe, settings | {METHOD: method}, seeds)
        for recipe, settings, seeds in found
        for method in methods
        if settings.get(METHOD, method) == method
    ]


def combinations(table: Table, changes: Table) -> Iterator[Combination]:
    """Yield recipe, settings and seeds of the runs of a grid; `changes` override its keys.

    >>> list(combinations({"recipe": "digits", "insertion": {"alpha": [0.5, 0.75]}, "seed": "0-1"}, {}))
    [('digits', {'insertion.alpha': 0.5}, [0, 1]), ('digits', {'insertion.alpha': 0.75}, [0, 1])]
    """
    common = {key: value for key, value in table.items() if key not in (BLOCKS, ABOUT)}
    blocks = table.get(BLOCKS, [{}])
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        raise RemnantError(f"expected tables under [[{BLOCKS}]], with double brackets, got {blocks!r:.80}.")
    for block in blocks:
        dotted = _dotted(common) | _dotted(block) | dict(changes)
        axes = {key: _values(key, value) for key, value in dotted.items()}
        recipes, seeds = axes.pop(RECIPE, [None]), axes.pop(SEED, [])
        for recipe, *values in itertools.product(recipes, *axes.values()):
            yield recipe, dict(zip(axes, values, strict=True)), seeds


def _dotted(table: Table) -> dict[str, Any]:
    """Return a table in which the settings of components are `component.setting`."""
    dotted: dict[str, Any] = {}
    for key, value in table.items():
        is_component = key in REGISTRIES and isinstance(value, Mapping)
        dotted |= {f"{key}.{name}": item for name, item in value.items()} if is_component else {key: value}
    return dotted


def _values(key: str, value: Any) -> list[Any]:  # noqa: ANN401
    if key == SEED:
        return parse_seeds(value)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise RemnantError(f"{key}: expected a value or a list of values, got an empty list. Remove the key.")
    return values


def parse_seeds(given: object) -> list[int]:
    """Return seeds given as numbers, lists or ranges.

    >>> parse_seeds("0-2,5"), parse_seeds([1, "3-4"]), parse_seeds(7)
    ([0, 1, 2, 5], [1, 3, 4], [7])
    """
    items = given if isinstance(given, list) else [given]
    seeds: list[int] = []
    for text in (part for item in items for part in re.split(r"[\s,]+", str(item).strip())):
        match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", text)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + MAX_RUNS:
            raise RemnantError(f"seeds: expected numbers or ranges such as 0-4 or 0,1,2, got {text!r}.")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def comparison(
    recipe: str | None, methods: Sequence[str], seeds: Sequence[int], settings: Table
) -> list[Config]:
    """Return the configs of a comparison of methods over seeds.

    There is one set of settings for all methods, such as the epochs of a consolidation, and each method gets
    those that it has. A setting that no method has is an error.
    """
    used = {method: _used_by(method, recipe, settings) for method in methods}
    unknown = {
        key: value for key, value in settings.items() if not any(key in keys for keys in used.values())
    }
    tables = [used[method] | unknown | {"method": method} for method in methods]
    return [config for table in tables for config in _seeded(to_config(recipe, table), seeds)]


def _used_by(method: str, recipe: str | None, settings: Table) -> dict[str, Any]:
    """Return the settings without those that a method or its components do not have."""
    config = to_config(recipe, {"method": method})
    table, unused = config.table(), unused_settings(config)
    used = {}
    for path, value in settings.items():
        key, dot, name = path.partition(".")
        has_setting = not dot or key not in COMPONENTS or name in table.get(key, {})
        if key not in unused and (key in table or key not in COMPONENTS) and has_setting:
            used[path] = value
    return used


def _seeded(config: Config, seeds: Sequence[int]) -> list[Config]:
    """Return a config with each of several seeds, which is faster than to resolve each of them."""
    return [config.model_copy(update={"seed": seed}) for seed in seeds]
