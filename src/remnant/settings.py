"""Settings of components: fields of frozen dataclasses with a description and a check.

A component is anything that is chosen by name: a noise, a network, an objective, an algorithm with its
own training loop. Its settings are its fields that hold plain values. A setting is declared, described and
checked in the component that uses it.
"""

import dataclasses
import errno
import math
import os
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from remnant.errors import RemnantError

T = TypeVar("T")
Plain = bool | int | float | str


def setting(default: Any, about: str, *, tuned: bool = False) -> Any:  # noqa: ANN401
    """Declare a field of a component.

    `about` is the description shown by `remnant list settings`. A `tuned` setting depends on the data,
    like a learning rate: a method keeps its name when the value changes.
    """
    return dataclasses.field(default=default, metadata={"about": about, "tuned": tuned})


def settings(component: object) -> dict[str, Plain]:
    """Return the settings of a component with their values: its fields that hold plain values."""
    if not dataclasses.is_dataclass(component):
        return {}
    values = {field.name: getattr(component, field.name) for field in dataclasses.fields(component)}
    return {name: value for name, value in values.items() if isinstance(value, Plain) and name != "about"}


def describe_setting(component: object, name: str) -> str:
    """Return the description of a setting."""
    fields = {field.name: field for field in dataclasses.fields(component)}  # type: ignore[arg-type]
    return str(fields[name].metadata.get("about", ""))


def is_same_but_tuned(a: T, b: T) -> bool:
    """Return whether two components differ in tuned settings only; setting one to 0 is not tuning.

    >>> from dataclasses import make_dataclass
    >>> fields = [("lr", float, setting(0.1, "rate", tuned=True)), ("views", int, setting(3, "views"))]
    >>> kind = make_dataclass("kind", fields, frozen=True)
    >>> is_same_but_tuned(kind(lr=0.2), kind()), is_same_but_tuned(kind(views=2), kind())
    (True, False)
    >>> is_same_but_tuned(kind(lr=0.0), kind())
    False
    """
    if type(a) is not type(b) or not dataclasses.is_dataclass(a):
        return a == b
    like_b = {f.name: getattr(b, f.name) for f in dataclasses.fields(a) if f.metadata.get("tuned")}
    off = [n for n, v in like_b.items() if not isinstance(v, bool) and bool(getattr(a, n)) != bool(v)]
    return not off and bool(dataclasses.replace(a, **like_b) == b)  # type: ignore[type-var]


def expect(rules: dict[str, bool], component: object) -> None:
    """Raise ValueError for rules that do not hold, and for numbers that are not finite.

    A rule starts with the name of its setting, as in "lr > 0".
    """
    broken = [rule for rule, holds in rules.items() if not holds]
    named = {rule.split()[0] for rule in broken}
    numbers = {name: value for name, value in settings(component).items() if isinstance(value, float)}
    broken += [f"{n} to be finite" for n, v in numbers.items() if not math.isfinite(v) and n not in named]
    if broken:
        got = [f"expected {rule}, got {getattr(component, rule.split()[0])}" for rule in broken]
        raise ValueError("; ".join(got))


def literal(text: str) -> Any:  # noqa: ANN401
    """Parse a value as TOML; return it as a string if it is not valid TOML.

    >>> [literal(t) for t in ("0.4", "true", "[1, 2]", "abs")]
    [0.4, True, [1, 2], 'abs']
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, an integer with thousands of digits, or deeply nested
        return text


def user_path(text: str | Path) -> Path:
    """Return a path given by the user, in which `~` is replaced by the home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise RemnantError(
            f"{text}: expected a path, but its home folder is unknown. Write the complete path."
        ) from error


def check_regular(path: Path) -> None:
    """Raise OSError if a path is a folder, pipe or device; reading those could block forever."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_file(path: Path) -> bytes:
    """Return the content of a regular file; raise OSError for files in /proc, whose size is 0."""
    check_regular(path)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # an endless file may also block
        content = file.read(os.fstat(file.fileno()).st_size)
        if not content and file.read(1):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return content
