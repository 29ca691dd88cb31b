"""From what a user asks for to a config: the method's choices filled in, all mistakes in one error."""

import contextlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from remnant import component
from remnant.config.contradictions import contradictions
from remnant.config.model import Config
from remnant.data import entry
from remnant.errors import RemnantError, nearest
from remnant.methods import METHODS
from remnant.registry import OF_METHOD, OF_REPLAY, REGISTRIES


def resolve(given: Mapping[str, Any]) -> Config:
    """Return the config that these settings ask for, or one error with everything wrong in them."""
    known = [*Config.model_fields]
    problems = [f"unknown key {key!r}{_hint(key, known)}" for key in given if key not in known]
    raw = {key: value for key, value in given.items() if key in known}
    complete, wrong = _with_method(raw), set()
    try:
        config = Config(**complete)
    except ValidationError as error:
        problems += [_sentence(e) for e in error.errors()]
        wrong = {str(e["loc"][0]) for e in error.errors()}
        config = Config(**_with_method({k: v for k, v in raw.items() if k not in wrong}))
    problems += [text for keys, text in contradictions(config) if not wrong & keys]
    if problems:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise RemnantError(f"the settings cannot be used:\n{lines}\nSee `remnant list settings`.")
    return config


def _with_method(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the method's choices; a table without a name changes settings of the method's own."""
    merged = dict(raw)
    method = METHODS.get(str(raw.get("method", "aer-abs")), METHODS["aer-abs"])
    with contextlib.suppress(RemnantError):  # an unknown data set is told of with all other mistakes
        method = method.on(entry(str(raw.get("data", Config.model_fields["data"].default))).spec)
    for kind, registry in REGISTRIES.items():
        default = getattr(method, kind) if kind in OF_METHOD else Config.model_fields[kind].default
        base = component.describe(registry, default)
        value = raw.get(kind, {})
        if not isinstance(value, str | Mapping):
            value = {"name": value}
        table = component.as_table(registry, value)
        same = table.get("name", base["name"]) == base["name"]
        merged[kind] = (base if same else {}) | table
    if merged["learner"].get("name") != "replay":  # a recipe's rates are for methods that replay
        merged = {key: value for key, value in merged.items() if key not in OF_REPLAY}
    return merged


def _hint(key: str, known: list[str]) -> str:
    owners = [
        f"{kind}.{key}"
        for kind, registry in REGISTRIES.items()
        if any(key in component.settings(value) for value in registry.values())
    ]
    return f"; did you mean {' or '.join(owners)}?" if owners else nearest(key, known)


def _sentence(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    is_own = error["type"] == "value_error"
    return f"{where}: {message}" if is_own else f"{where}: {message}, got {error['input']!r}"
