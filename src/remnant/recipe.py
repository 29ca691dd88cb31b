"""Recipes: TOML files of settings, those that come with the package and a user's own."""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from remnant import component
from remnant.config import Config
from remnant.errors import RemnantError, nearest
from remnant.methods import METHODS
from remnant.noise import NOISES
from remnant.registry import OF_METHOD, REGISTRIES

CASES, PAPER = "for", "paper"  # tables of a recipe that are no settings
CONDITIONS = ("method", "noise")  # of a case


def recipes() -> dict[str, str]:
    """Return the text of each recipe that comes with the package."""
    return dict(sorted(_texts(files("remnant") / "recipes")))


def _texts(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from _texts(file, f"{prefix}{file.name}/")
        elif file.name.endswith(".toml"):
            yield prefix + file.name.removesuffix(".toml"), file.read_text(encoding="utf-8")


def find(name: str) -> Path | None:
    """Return the recipe file that a word of the command line leads to, or the one in a run folder."""
    path = Path(name)
    try:
        path = path / "config.toml" if path.is_dir() else path
        return path if path.is_file() else None
    except OSError:  # a name too long for any file
        return None


def read(name: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings of a recipe: a name that comes with the package, or a file.

    What holds for some methods and noises only is under `for`, and chosen by `apply`. Settings that are
    not there come from the recipe that it names as its `base`; `above` are those that rest on this one.
    """
    if name in above:
        raise RemnantError(f"{name}: expected another recipe as base, but it would rest on itself.")
    table = {key: value for key, value in _parsed(name).items() if key != PAPER}
    base = table.pop("base", None)
    if base is not None:
        beside = os.path.normpath(Path(name).parent / str(base))  # a file names others from where it is
        below = read(beside if find(beside) else str(base), (*above, name))
        cases = [_beneath(case, table) for case in below.get(CASES, [])]
        table = below | table | {CASES: [*cases, *table.get(CASES, [])]}
    return table


def _beneath(case: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case of a base without what the recipe that rests on it sets itself: that wins.

    >>> _beneath({"method": "er", "lr": 0.1, "buffer": 5}, {"method": "er", "lr": 0.5})
    {'method': 'er', 'buffer': 5}
    """
    kept = {key: value for key, value in case.items() if key in CONDITIONS or key not in own}
    for key in case.keys() - kept.keys():
        if isinstance(case[key], Mapping) and isinstance(own[key], Mapping) and "name" not in own[key]:
            kept[key] = {k: v for k, v in case[key].items() if k not in own[key]}
    return kept


def papers() -> dict[str, dict[str, Any]]:
    """Return, for each recipe that comes with the package, the numbers that the paper has for it."""
    tables = {name: tomllib.loads(text) for name, text in recipes().items()}
    return {name: table[PAPER] for name, table in tables.items() if PAPER in table}


def _parsed(name: str) -> dict[str, Any]:
    known = recipes()
    path = None if name in known else find(name)
    if path is None:  # the folder of a recipe may be left out
        name = next((full for full in known if full.rpartition("/")[2] == name), name)
    if name not in known and path is None:
        raise RemnantError(
            f"no recipe {name!r}{nearest(name, known)} Expected one of {', '.join(known)}, or the "
            "path of a TOML file or a run folder."
        )
    try:
        text = known[name] if path is None else path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RemnantError(f"{name}: expected TOML, but {error}. Mend that line.") from error
    except OSError as error:
        raise RemnantError(f"{name}: expected a file that can be read, but {error.strerror}.") from error
    _check_cases(name, table.get(CASES, []))
    table.setdefault("name", Path(name).name if path is None else path.stem)
    return table


def _check_cases(name: str, cases: object) -> None:
    """Refuse cases that are no tables, and conditions that are no names."""
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise RemnantError(
            f"{name}: expected tables under [[{CASES}]], with two brackets, got {cases!r}."
        )
    keys = {key for case in cases for key in case} - {*CONDITIONS, *Config.model_fields}
    if keys:
        unknown = ", ".join(f"{key!r}{nearest(key, Config.model_fields)}" for key in sorted(keys))
        raise RemnantError(f"{name}: expected settings under [[{CASES}]], got unknown {unknown}")
    for key, value in ((k, v) for case in cases for k in CONDITIONS for v in _listed(case.get(k, []))):
        table = value if isinstance(value, dict) and key == "noise" else {"name": value}
        if not isinstance(table.get("name"), str):
            raise RemnantError(
                f'{name}: a [[{CASES}]] expects names in quotes, as method = "er" or '
                f'noise = "symmetric:0.4", got {key} = {value!r}.'
            )


def _names_one(choice: object) -> bool:
    return isinstance(choice, str) or (isinstance(choice, Mapping) and "name" in choice)


def apply(table: Mapping[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """Return the settings with `key=value` or `key.setting=value` put on top.

    Another method brings its own choices: those that the recipe names give way to them. What the recipe
    has for the method and the noise at hand goes in between.
    """
    changes = list(changes)
    settings = {key: value for key, value in table.items() if key != CASES}
    if any(change.partition("=")[0].strip() == "method" for change in changes):
        settings = {k: v for k, v in settings.items() if k not in OF_METHOD or not _names_one(v)}
    asked = _put(settings, changes)
    for case in table.get(CASES, []):
        if is_meant(case, asked, str(table.get("name", ""))):
            settings = _merge(settings, {k: v for k, v in case.items() if k not in CONDITIONS})
    return _put(settings, changes)


def is_meant(case: Mapping[str, Any], asked: Mapping[str, Any], recipe: str = "") -> bool:
    """Whether a case of a recipe, of this name, is for the method and the noise that are asked for.

    >>> asked = {"method": "er", "noise": "symmetric:0.4"}
    >>> [is_meant({"noise": noise}, asked) for noise in ("symmetric", "symmetric:0.4", "symmetric:0.2")]
    [True, True, False]
    >>> is_meant({"method": ["er", "aer"], "noise": "block"}, asked)
    False
    """
    methods, noises = (_listed(case.get(key, [])) for key in CONDITIONS)
    unknown = [name for name in methods if name not in METHODS]
    unknown += [text for text in noises if not _is_noise(_noise(text))]
    if unknown or not methods + noises:
        raise RemnantError(
            f"a [[{CASES}]] of the recipe {recipe}: expected a known method, a known noise, or a list "
            f"of them, got {unknown or 'neither'}. See `remnant list`."
        )
    method = asked.get("method", Config.model_fields["method"].default)
    noise = _noise(asked.get("noise", {}), whole=True)
    return (not methods or method in methods) and (
        not noises or any(_noise(text).items() <= noise.items() for text in noises)
    )


def _is_noise(table: Mapping[str, Any]) -> bool:
    try:
        component.build("noise", NOISES, table)
    except ValueError:
        return False
    return True


def _listed(value: Any) -> list[Any]:  # noqa: ANN401
    return list(value) if isinstance(value, list | tuple) else [value]


def _noise(value: Any, whole: bool = False) -> dict[str, Any]:  # noqa: ANN401
    """Return noise as a table, with the settings that were not named if it is to be whole."""
    default = component.describe(NOISES, Config.model_fields["noise"].default)
    table = {"name": default["name"]} | _as_table("noise", value)
    known = component.settings(NOISES[table["name"]]) if str(table["name"]) in NOISES else {}
    return known | table if whole else table


def _merge(table: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Put settings on top of others; of a choice, those that are not named stay."""
    merged = dict(table)
    for key, value in above.items():
        is_part = isinstance(value, Mapping) and "name" not in value and key in REGISTRIES
        merged[key] = _as_table(key, merged.get(key, {})) | value if is_part else value
    return merged


def _put(table: Mapping[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    merged = dict(table)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise RemnantError(f"expected key=value, got {change!r}: write --set lr=0.1")
        key, dot, setting = key.strip().partition(".")
        value = component.literal(text.strip())
        merged[key] = _as_table(key, merged.get(key, {})) | {setting: value} if dot else value
    return merged


def _as_table(kind: str, value: Any) -> dict[str, Any]:  # noqa: ANN401
    registry = REGISTRIES.get(kind, {})
    return component.as_table(registry, value) if isinstance(value, str | Mapping) else {}
