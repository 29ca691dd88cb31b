"""Recipes: TOML files with settings, built-in or written by the user.

Besides settings, a recipe may have a `base`, tables `[[for]]` with settings for some methods and noises,
and a table `[paper]` with published results.
"""

import contextlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from remnant.config.components import as_table, build, describe
from remnant.config.own_data import find_own_data, own_defaults
from remnant.config.registries import OF_METHOD, OWN_DATA, REGISTRIES, find_method
from remnant.config.resolve import DEFAULTS, resolve, unknown_key
from remnant.config.schema import Config
from remnant.data import Dataset, OwnData, entry
from remnant.data.registry import DATASETS
from remnant.errors import RemnantError, UnknownRecipe, nearest
from remnant.extensions import is_in_file, is_own_data
from remnant.settings import read_file, settings

CASES, PAPER = "for", "paper"  # tables of a recipe that are not settings
CONDITIONS = ("method", "noise")  # of a case
MAX_BASES = 50  # recipes that are based on each other
PARTS = REGISTRIES | {"data": OWN_DATA}  # what has settings of its own


def recipes() -> dict[str, str]:
    """Return the text of each packaged recipe."""
    return packaged_texts(files("remnant.config") / "recipes")


def packaged_texts(folder: Traversable) -> dict[str, str]:
    """Return the text of each TOML file in a folder of the package, by its path without the suffix."""
    return dict(sorted(_texts(folder)))


def _texts(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from _texts(file, f"{prefix}{file.name}/")
        elif file.name.endswith(".toml"):
            yield prefix + file.name.removesuffix(".toml"), file.read_text(encoding="utf-8")


def to_config(recipe: Config | Mapping[str, Any] | str | Path | None, settings: Mapping[str, Any]) -> Config:
    """Return the config of a recipe, a table or a config, with changed settings.

    Without a recipe it is that of digits, or, if a dataset is set, the defaults of all settings. The name
    of a dataset, or own data, in the place of a recipe means this dataset without a recipe.
    """
    try:
        return _to_config(recipe, settings)
    except RecursionError as error:
        raise RemnantError(
            "expected settings without deeply nested tables and lists. Remove them."
        ) from error


def _to_config(recipe: Config | Mapping[str, Any] | str | Path | None, settings: Mapping[str, Any]) -> Config:
    if isinstance(recipe, Config):
        return resolve(apply(recipe.values(), settings)) if settings else recipe
    recipe, settings = data_as_setting(recipe, settings)
    if recipe is None and "data" in settings:
        own = {key: value for key, value in settings.items() if key.partition(".")[0] == "data"}
        data, problems = find_own_data(nested(own)["data"])
        if isinstance(data, OwnData) and not problems:
            others = {key: value for key, value in settings.items() if key not in own}
            return resolve(apply(own_defaults(data, others), others | {"data": data}))
        return resolve(apply(_named_after(settings["data"]), settings))
    return resolve(apply(recipe if isinstance(recipe, Mapping) else read(str(recipe or "digits")), settings))


def data_as_setting(recipe: object, settings: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return recipe and settings, where a dataset in the place of the recipe is the setting `data`."""
    if not isinstance(recipe, str) or "data" in settings:
        return recipe, settings
    is_recipe = find(recipe) is not None or _packaged(recipe) is not None
    if is_own_data(recipe) or (recipe in DATASETS and not is_in_file(recipe) and not is_recipe):
        return None, {"data": recipe, **settings}
    return recipe, settings


def _packaged(name: str) -> str | None:
    """Return the full name of a packaged recipe, whose folder may be omitted; None if there is none."""
    return next((full for full in recipes() if name in (full, full.rpartition("/")[2])), None)


def absolute_name(name: str) -> str:
    """Return a name of the same recipe that is valid in any working directory."""
    is_file = name not in recipes() and find(name) is not None
    return os.path.abspath(name) if is_file else _packaged(name) or name


def _named_after(data: object) -> dict[str, Any]:
    with contextlib.suppress(RemnantError):  # an unknown dataset is reported with all other mistakes
        spec = data.spec if isinstance(data, Dataset) else entry(str(data)).spec
        return {"name": re.sub(r"[^\w.+-]+", "-", spec.name)}
    return {}


def find(name: str) -> Path | None:
    """Return the path of a recipe file, or of the config in a run folder; None if there is none."""
    path = Path(name, "config.toml") if os.path.isdir(name) else Path(name)
    return path if os.path.isfile(path) else None  # never raises, unlike Path.is_file


def read(name: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings of a packaged recipe or of a file.

    Settings for certain methods and noises are under `for`; `apply` selects them. Missing settings are
    taken from the recipe named as `base`; `above` are the paths of the recipes that are based on this one.
    """
    table = {key: value for key, value in _parsed(name).items() if key != PAPER}
    place = name if name in recipes() else os.path.realpath(name)  # one spelling of each path
    if place in above:
        raise RemnantError(f"{name}: expected another recipe as base, got a recipe that is based on itself.")
    if len(above) > MAX_BASES:
        raise RemnantError(f"{name}: expected at most {MAX_BASES} recipes that are based on each other.")
    base = table.pop("base", None)
    if base is not None:
        beside = os.path.normpath(Path(name).parent / str(base))  # relative to the file that names it
        below = read(beside if find(beside) else str(base), (*above, place))
        cases = [_without_own(case, table) for case in below.get(CASES, [])]
        table = below | table | {CASES: [*cases, *table.get(CASES, [])]}
    return table


def _without_own(case: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case of a base recipe without the settings that the derived recipe overrides.

    >>> _without_own({"method": "er", "lr": 0.1, "buffer_size": 5}, {"method": "er", "lr": 0.5})
    {'method': 'er', 'buffer_size': 5}
    """
    kept = {key: value for key, value in case.items() if key in CONDITIONS or key not in own}
    for key in case.keys() - kept.keys():
        if isinstance(case[key], Mapping) and isinstance(own[key], Mapping) and "name" not in own[key]:
            kept[key] = {k: v for k, v in case[key].items() if k not in own[key]}
    return kept


def papers() -> dict[str, dict[str, Any]]:
    """Return the published results of each packaged recipe that contains them."""
    tables = {name: tomllib.loads(text) for name, text in recipes().items()}
    return {name: table[PAPER] for name, table in tables.items() if PAPER in table}


def _parsed(name: str) -> dict[str, Any]:
    known = recipes()
    path = None if name in known else find(name)
    if path is None:
        name = _packaged(name) or name
    if name not in known and path is None:
        if os.path.isdir(name):
            raise RemnantError(
                f"{name}: expected a run folder with a file config.toml, found none. For images in a folder "
                f"for each class, write folder:{name}; a run is repeated by the command that started it."
            )
        if is_in_file(name):
            raise RemnantError(
                f"{name}: expected a recipe, got an object in a file. Write data={name} if it is a dataset, "
                f"--method {name} if it is a method."
            )
        is_method = f" {name} is a method: write --method {name}." if find_method(name) else ""
        raise UnknownRecipe(
            f"unknown recipe {name!r}{nearest(name, known)}{is_method} Expected one of {', '.join(known)}, "
            "or the path of a TOML file or a run folder."
        )
    try:
        text = known[name] if path is None else read_file(path).decode()
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also not UTF-8, or an integer with thousands of digits
        raise RemnantError(f"{path}: expected TOML, but {error}. Fix the file.") from error
    except OSError as error:
        raise RemnantError(f"{name}: expected a readable file, but {error.strerror}.") from error
    _check_cases(name, table.get(CASES, []))
    table.setdefault("name", Path(name).name if path is None else path.stem)
    return table


def _check_cases(name: str, cases: object) -> None:
    """Raise RemnantError if cases are not tables of settings, or conditions are not names."""
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise RemnantError(f"{name}: expected tables under [[{CASES}]], with double brackets, got {cases!r}.")
    keys = {key for case in cases for key in case} - {*CONDITIONS, *DEFAULTS}
    if keys:
        unknown = ", ".join(unknown_key(key) for key in sorted(keys))
        raise RemnantError(f"{name}: expected settings under [[{CASES}]], got {unknown}")
    for key, value in ((k, v) for case in cases for k in CONDITIONS for v in _listed(case.get(k, []))):
        table = value if isinstance(value, dict) and key == "noise" else {"name": value}
        if not isinstance(table.get("name"), str):
            raise RemnantError(
                f'{name}: a [[{CASES}]] expects names in quotes, such as method = "er" or '
                f'noise = "symmetric:0.4", got {key} = {value!r}.'
            )


def _is_named(choice: object) -> bool:
    return not isinstance(choice, Mapping) or "name" in choice


def apply(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recipe with changes on top; keys of changes may be `component.setting`.

    If the method changes, its components replace those that the recipe names. The recipe's settings for
    the selected method and noise override its general settings, and changes override both.
    """
    plain = {key: value for key, value in table.items() if key != CASES}
    if "method" in changes:
        plain = {k: v for k, v in plain.items() if k not in OF_METHOD or not _is_named(v)}
    selected = _put(plain, changes)
    for case in table.get(CASES, []):
        if applies(case, selected, str(table.get("name", ""))):
            plain = _merge(plain, {k: v for k, v in case.items() if k not in CONDITIONS})
    return _put(plain, changes)


def applies(case: Mapping[str, Any], selected: Mapping[str, Any], recipe: str = "") -> bool:
    """Return whether a case of a recipe applies to the selected method and noise.

    >>> selected = {"method": "er", "noise": "symmetric:0.4"}
    >>> [applies({"noise": noise}, selected) for noise in ("symmetric", "symmetric:0.4", "symmetric:0.2")]
    [True, True, False]
    >>> applies({"method": ["er", "aer"], "noise": "block"}, selected)
    False
    """
    methods, noises = (_listed(case.get(key, [])) for key in CONDITIONS)
    unknown = [name for name in methods if find_method(name) is None]
    unknown += [text for text in noises if not _is_noise(_noise(text))]
    if unknown or not methods + noises:
        raise RemnantError(
            f"a [[{CASES}]] of the recipe {recipe}: expected a known method, a known noise, or a list "
            f"of them, got {unknown or 'neither'}. See `remnant list`."
        )
    method = selected.get("method", DEFAULTS["method"])
    noise = _noise(selected.get("noise", {}), complete=True)
    return (not methods or method in methods) and (
        not noises or any(_noise(text).items() <= noise.items() for text in noises)
    )


def _is_noise(table: Mapping[str, Any]) -> bool:
    try:
        build(REGISTRIES["noise"], table)
    except ValueError:
        return False
    return True


def _listed(value: Any) -> list[Any]:  # noqa: ANN401
    return list(value) if isinstance(value, list | tuple) else [value]


def _noise(value: Any, complete: bool = False) -> dict[str, Any]:  # noqa: ANN401
    """Return a noise as a table; if `complete`, with the default values of all other settings."""
    registry = REGISTRIES["noise"]
    table = {"name": describe(registry, DEFAULTS["noise"])["name"]} | _as_table("noise", value)
    known = settings(registry[table["name"]]) if str(table["name"]) in registry else {}
    return known | table if complete else table


def _merge(table: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `table` updated by `above`; settings of a component that are not given are kept."""
    merged = dict(table)
    for key, value in above.items():
        is_part = isinstance(value, Mapping) and "name" not in value and key in PARTS
        merged[key] = _as_table(key, merged.get(key, {})) | value if is_part else value
    return merged


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, some of them `component.setting`, as they are written in a recipe.

    >>> nested({"lr": 0.1, "consolidation.lr": 0.05, "consolidation": "mixmatch"})
    {'lr': 0.1, 'consolidation': {'name': 'mixmatch', 'lr': 0.05}}
    """
    return _put({}, settings)


def _put(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(table)
    for path, value in sorted(changes.items(), key=lambda change: "." in change[0]):  # components first
        key, dot, name = path.partition(".")
        merged = _merge(merged, {key: {name: value} if dot and key in PARTS else value})
        if dot and key not in PARTS:
            merged[key] = {name: value}
    return merged


def _as_table(kind: str, value: Any) -> dict[str, Any]:  # noqa: ANN401
    if isinstance(value, str | Mapping):
        return as_table(PARTS.get(kind, {}), value)
    return describe(PARTS[kind], value) if kind in PARTS else {}
