"""Components in configs: `name`, `name:value` for the first setting, a table of settings, or a Python object.

A registry maps names to components with default settings.
"""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from remnant.errors import nearest
from remnant.extensions import IN_FILE, Registry, describe_object
from remnant.settings import Plain, literal, settings

OWN = "method"  # the name of a component of a method that is not in a registry
PYTHON = "python"  # marks the description of a Python object


def name_of(registry: Registry, component: object) -> str | None:
    """Return the name of a component in a registry, or None."""
    return next((name for name, known in registry.loaded.items() if _is_same_kind(known, component)), None)


def _is_same_kind(a: object, b: object) -> bool:
    """Return whether two components differ in settings only."""
    if a is b or type(a) is not type(b) or not dataclasses.is_dataclass(a):
        return a is b
    return bool(dataclasses.replace(a, **settings(b)) == b)  # type: ignore[type-var]


def describe(registry: Registry, component: object, own: object = None) -> dict[str, Any]:
    """Return a component as a table; `own`, that of the method, may not be in the registry."""
    name = name_of(registry, component)
    if name is None and own is not None and _is_same_kind(own, component):
        name = OWN
    if name is None:
        return {**describe_object(component), **settings(component)}
    return {"name": name, **settings(component)}


def short(registry: Registry, component: object) -> str:
    """Return a component as `name:value`, with its other settings where they differ from the defaults."""
    table = describe(registry, component)
    if PYTHON in table:
        return str(table[PYTHON]).rpartition(":")[2]
    name = str(table.pop("name"))
    default = settings(registry[name])
    first = next((key for key, value in table.items() if not isinstance(value, bool)), None)
    text = name if first is None else f"{name}:{_plain(table[first])}"
    others = [f"{k}={_plain(v)}" for k, v in table.items() if k != first and v != default[k]]
    return ",".join([text, *others])


def _plain(value: Plain) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_table(registry: Registry | Mapping[str, Any], value: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return `name:value` as a table; a table is returned unchanged."""
    if not isinstance(value, str):
        return dict(value)
    if match := IN_FILE.fullmatch(value):
        name, text = f"{match['path']}:{match['name']}", match["value"]
    else:
        name, _, text = value.partition(":") if ":" in value else (value, "", None)
    if text is None:
        return {"name": name}
    known = settings(registry[name]) if name in registry else {}
    first = next(iter(known), "argument")
    # A path stays a text, even if it looks like a number.
    return {"name": name, first: text if isinstance(known.get(first), str) else literal(text)}


def build(registry: Registry, table: Mapping[str, Any], own: object = None) -> Any:  # noqa: ANN401
    """Return the component that a table describes; raise ValueError with all problems of the table."""
    given = dict(table)
    if PYTHON in given:
        raise ValueError(
            f"this run was made with the Python object {given[PYTHON]}, which a config file cannot contain; "
            "run it from Python again"
        )
    name = given.pop("name", None)
    if name == OWN and own is not None:
        default = own
    elif isinstance(name, str) and name in registry:
        default = registry[name]
    else:
        raise ValueError(registry.about_unknown(name))
    allowed, problems = settings(default), []
    for key, value in given.items():
        if key not in allowed:
            known = f"it has {', '.join(allowed)}" if allowed else "it has no settings"
            problems.append(f"{name} has no setting {key!r}{nearest(key, allowed)} ({known})")
        elif not _fits(value, allowed[key]):
            problems.append(f"{key} expects {_kind(allowed[key])}, got {value!r:.60}")
    if problems:
        raise ValueError("; ".join(problems))
    values = {k: float(v) if isinstance(allowed[k], float) else v for k, v in given.items()}
    return dataclasses.replace(default, **values) if values else default  # type: ignore[type-var]


def _fits(value: object, default: Plain) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float) and isinstance(value, int):
        return abs(value) <= sys.float_info.max
    return isinstance(value, type(default))


def _kind(default: Plain) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return kinds[type(default)]


def has_setting(table: Mapping[str, Any], name: str) -> bool:
    """Return whether a complete table of settings has this one, which may be `component.setting`.

    >>> table = {"lr": 0.1, "insertion": {"name": "lowest-loss", "alpha": 0.75}}
    >>> [has_setting(table, name) for name in ("lr", "insertion.alpha", "insertion.beta", "noise")]
    [True, True, False, False]
    """
    kind, _, part = name.partition(".")
    return kind in table and (not part or part in table[kind])
