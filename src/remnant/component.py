"""Choices by name: `name`, `name:value` for its first setting, or a table of settings.

A registry maps names to frozen dataclasses with their defaults. Settings are their plain fields; a
setting lives in the component that uses it, and so does its check.
"""

import dataclasses
import math
import sys
import tomllib
from collections.abc import Mapping
from typing import Any, TypeVar

from remnant.errors import nearest

T = TypeVar("T")
Plain = bool | int | float | str


def settings(component: object) -> dict[str, Plain]:
    """Return the settings of a component: its fields that hold plain values."""
    fields = dataclasses.fields(component)  # type: ignore[arg-type]
    values = {field.name: getattr(component, field.name) for field in fields}
    return {name: value for name, value in values.items() if isinstance(value, Plain)}


def tuned(default: Any) -> Any:  # noqa: ANN401
    """Return a field whose value is fitted to the data: another one does not make another method."""
    return dataclasses.field(default=default, metadata={"tuned": True})


def is_same_but_tuned(a: T, b: T) -> bool:
    """Whether two components differ in tuned settings alone; a number becoming 0 is no tuning.

    >>> from dataclasses import make_dataclass
    >>> kind = make_dataclass("kind", [("lr", float, tuned(0.1)), ("views", int, 3)], frozen=True)
    >>> is_same_but_tuned(kind(lr=0.2), kind()), is_same_but_tuned(kind(views=2), kind())
    (True, False)
    >>> is_same_but_tuned(kind(lr=0.0), kind())
    False
    """
    if type(a) is not type(b):
        return False
    fields = dataclasses.fields(a)  # type: ignore[arg-type]
    like_b = {f.name: getattr(b, f.name) for f in fields if "tuned" in f.metadata}
    off = [n for n, v in like_b.items() if not isinstance(v, bool) and bool(getattr(a, n)) != bool(v)]
    return not off and bool(dataclasses.replace(a, **like_b) == b)  # type: ignore[type-var]


def expect(rules: dict[str, bool], component: object) -> None:
    """Refuse settings that break a rule, which begins with the setting's name, or are not finite."""
    wrong = [rule for rule in rules if not rules[rule]]
    named = {rule.split()[0] for rule in wrong}
    numbers = {name: value for name, value in settings(component).items() if isinstance(value, float)}
    endless = [name for name, value in numbers.items() if not math.isfinite(value)]
    wrong += [f"{name} to be finite" for name in endless if name not in named]
    if wrong:
        got = [f"expected {rule}, got {getattr(component, rule.split()[0])}" for rule in wrong]
        raise ValueError("; ".join(got))


def name_of(registry: Mapping[str, T], component: T) -> str:
    """Return the name under which a component is known."""
    for name, default in registry.items():
        if type(default) is type(component):
            same = dataclasses.replace(default, **settings(component))  # type: ignore[type-var]
            if same == component:
                return name
    raise LookupError(f"{component} is in no registry")


def describe(registry: Mapping[str, T], component: T) -> dict[str, Plain]:
    """Return a component as a table."""
    return {"name": name_of(registry, component), **settings(component)}


def short(registry: Mapping[str, T], component: T) -> str:
    """Return a component as `name:value`, with its other settings where they are not the defaults."""
    table = describe(registry, component)
    name = str(table.pop("name"))
    default = settings(registry[name])
    first = next((key for key, value in table.items() if not isinstance(value, bool)), None)
    text = name if first is None else f"{name}:{_plain(table[first])}"
    others = [f"{k}={_plain(v)}" for k, v in table.items() if k != first and v != default[k]]
    return ",".join([text, *others])


def _plain(value: Plain) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_table(registry: Mapping[str, T], value: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return `name:value` as a table; a table stays as it is."""
    if not isinstance(value, str):
        return dict(value)
    name, colon, text = value.partition(":")
    first = next(iter(settings(registry[name])), None) if name in registry else None
    return {"name": name, first or "argument": literal(text)} if colon else {"name": name}


def literal(text: str) -> Any:  # noqa: ANN401
    """Read a value as TOML would, or else as a string.

    >>> [literal(t) for t in ("0.4", "true", "[1, 2]", "abs")]
    [0.4, True, [1, 2], 'abs']
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:  # no TOML, or a number of thousands of digits
        return text


def build(kind: str, registry: Mapping[str, T], table: Mapping[str, Any]) -> T:
    """Return the component that a table describes; ValueError says all that is wrong with it."""
    given = dict(table)
    name = given.pop("name", None)
    if not isinstance(name, str) or name not in registry:
        raise ValueError(
            f"unknown {kind} {name!r}{nearest(str(name), registry)} Known: {', '.join(registry)}"
        )
    allowed = settings(registry[name])
    problems = []
    for key, value in given.items():
        if key not in allowed:
            known = f"it has {', '.join(allowed)}" if allowed else "it has no settings"
            problems.append(f"{name} has no setting {key!r}{nearest(key, allowed)} ({known})")
        elif not _fits(value, allowed[key]):
            problems.append(f"{key} expects {_kind(allowed[key])}, got {value!r:.60}")
    if problems:
        raise ValueError("; ".join(problems))
    numbers = {k: float(v) if isinstance(allowed[k], float) else v for k, v in given.items()}
    return dataclasses.replace(registry[name], **numbers)  # type: ignore[type-var]


def _fits(value: object, default: Plain) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float) and isinstance(value, int):
        return abs(value) <= sys.float_info.max
    return isinstance(value, type(default))


def _kind(default: Plain) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return kinds[type(default)]
