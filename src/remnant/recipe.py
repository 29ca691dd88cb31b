"""Recipes: TOML files of settings, those that come with the package and a user's own."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from remnant import component
from remnant.errors import RemnantError, nearest
from remnant.registry import OF_METHOD, REGISTRIES


def recipes() -> dict[str, str]:
    """Return the text of each recipe that comes with the package."""
    folder = files("remnant") / "recipes"
    found = {f.name.removesuffix(".toml"): f for f in folder.iterdir() if f.name.endswith(".toml")}
    return {name: found[name].read_text() for name in sorted(found)}


def find(name: str) -> Path | None:
    """Return the recipe file that a word of the command line leads to, or the one in a run folder."""
    path = Path(name)
    try:
        path = path / "config.toml" if path.is_dir() else path
        return path if path.is_file() else None
    except OSError:  # a name too long for any file
        return None


def read(name: str) -> dict[str, Any]:
    """Return the settings of a recipe: a name that comes with the package, or a file."""
    known = recipes()
    path = None if name in known else find(name)
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
    table.setdefault("name", name if path is None else path.stem)
    return table


def _names_one(choice: object) -> bool:
    return isinstance(choice, str) or (isinstance(choice, Mapping) and "name" in choice)


def apply(table: dict[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """Return the settings with `key=value` or `key.setting=value` put on top.

    Another method brings its own choices: those that the recipe names give way to them.
    """
    changes = list(changes)
    merged = dict(table)
    if any(change.partition("=")[0].strip() == "method" for change in changes):
        merged = {k: v for k, v in merged.items() if k not in OF_METHOD or not _names_one(v)}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise RemnantError(f"expected key=value, got {change!r}: write --set lr=0.1")
        key, dot, setting = key.strip().partition(".")
        if not dot:
            merged[key] = component.literal(text.strip())
            continue
        registry = REGISTRIES.get(key, {})
        base = merged.get(key, {})
        base = component.as_table(registry, base) if isinstance(base, str | Mapping) else {}
        merged[key] = base | {setting: component.literal(text.strip())}
    return merged
