"""Conversion of user settings to a config, with all mistakes reported in one error."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from remnant.config.checks import config_problems
from remnant.config.components import as_table, build, describe, name_of
from remnant.config.own_data import find_own_data, with_side_of
from remnant.config.registries import (
    COMPONENTS,
    CUSTOM,
    METHOD_NAMES,
    OF_METHOD,
    REGISTRIES,
    checked,
    components_of,
    describe_algorithm,
    find_method,
    fitted_to,
)
from remnant.config.schema import Config
from remnant.data import KINDS, Dataset, OwnData, Spec, entry
from remnant.errors import RemnantError, nearest
from remnant.extensions import Registry, with_absolute_paths
from remnant.methods.protocol import Algorithm
from remnant.methods.registry import ALGORITHMS, METHODS, SUFFIXES
from remnant.nets import adapted
from remnant.settings import settings

RENAMED = {"buffer": "buffer_size", "learner": "algorithm"}
DEFAULTS = {name: field.default for name, field in Config.model_fields.items()}


def resolve(given: Mapping[str, Any]) -> Config:
    """Return the config for these settings, or raise one error that lists all problems."""
    for registry in (METHOD_NAMES, *REGISTRIES.values()):
        registry.reload()
    problems = [unknown_key(key) for key in given if key not in DEFAULTS]
    raw = {key: with_absolute_paths(value) for key, value in given.items() if key in DEFAULTS}
    if "data" in raw:
        raw["data"], wrong_data = find_own_data(raw["data"])
        problems += wrong_data
        if isinstance(raw["data"], OwnData):
            raw["data"] = with_side_of(_net(raw), raw["data"])
    method, found = _method(raw)
    components, more = _components(raw, method)
    wrong = {key for key, _ in [*found, *more]}
    problems += [f"{key}: {text}" for key, text in [*found, *more]]
    complete = {key: value for key, value in raw.items() if key not in (*OF_METHOD, *method.unused)}
    complete = complete | components | {"method": _name(raw.get("method", DEFAULTS["method"]))}
    if "data" in wrong:
        del complete["data"]
    try:
        config = Config(**complete)
    except ValidationError as error:
        problems += [_sentence(e) for e in error.errors()]
        invalid = {str(e["loc"][0]) for e in error.errors()}
        wrong |= invalid
        config = Config(**{key: value for key, value in complete.items() if key not in invalid})
    problems += [p.text for p in config_problems(config) if not wrong & p.keys]
    if problems:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise RemnantError(f"the settings cannot be used:\n{lines}\nSee {_lists(problems)}.")
    return config


def _lists(problems: Sequence[str]) -> str:
    """Return the commands that list what can be written instead: known names, or all settings.

    >>> _lists(["method: unknown method 'err'", "net: unknown net 'x'"])
    '`remnant list methods` and `remnant list nets`'
    """
    # There is no list of scorings, since there is only one.
    unknown = [re.match(r"(?!scoring)(\w+): unknown ", problem) for problem in problems]
    keys = dict.fromkeys(match[1] if match else "setting" for match in unknown)
    names = ["data" if key == "data" else f"{key}s" for key in keys]
    return " and ".join(f"`remnant list {name}`" for name in names)


def _name(method: object) -> str:
    if isinstance(method, str):
        return method
    # joint has the components of finetune. A modified replay method has no name, a modified SPR is spr.
    names = [name for name, known in METHODS.items() if known == method and name != "joint"]
    names += [name for name, known in ALGORITHMS.items() if type(known) is type(method) and name in METHODS]
    return next(iter(names), CUSTOM)


def _method(raw: Mapping[str, Any]) -> tuple[Algorithm, list[tuple[str, str]]]:
    """Return the method, and the problems of the method and the dataset."""
    problems, value = [], raw.get("method", DEFAULTS["method"])
    method: Algorithm | None = None
    try:
        method = find_method(value) if isinstance(value, str) else checked("algorithm", value)
        if method is None:
            problems.append(("method", _unknown_method(value)))
    except (ValueError, RemnantError) as error:
        problems.append(("method", str(error)))
    method = METHODS["aer-abs"] if method is None else method
    data = raw.get("data", DEFAULTS["data"])
    try:
        if not isinstance(data, str | Dataset | OwnData):
            raise RemnantError(f"expected the name of a dataset or a remnant.Dataset, got {data!r:.60}")
        spec = entry(data).spec if isinstance(data, str) else data.spec
        return fitted_to(method, _received(raw, spec)), problems
    except RemnantError as error:
        return method, [*problems, ("data", str(error))]


def _received(raw: Mapping[str, Any], spec: Spec) -> Spec:
    """Return the spec of the samples that methods receive; problems of the network are reported later."""
    try:
        net = _net(raw)
        return spec if net is None else adapted(net, spec)
    except (ValueError, RemnantError):
        return spec


def _net(raw: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the network, or None if it has problems."""
    try:
        return _component("net", raw.get("net", {}), DEFAULTS["net"], None)
    except (ValueError, RemnantError):
        return None


def _unknown_method(value: object) -> str:
    base, plus, suffix = str(value).rpartition("+")
    if plus and suffix in SUFFIXES and find_method(base) is not None:
        return f"+{suffix} can only follow a replay method without consolidation, got {base}"
    return METHOD_NAMES.about_unknown(value)


def _components(raw: Mapping[str, Any], method: Algorithm) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the components, from the settings or by default from the method, and their problems."""
    has, problems, built = components_of(method), [], {}
    for kind in REGISTRIES:
        if kind in COMPONENTS and kind not in has:
            if kind in raw:
                problems.append((kind, f"{_name(raw.get('method'))} does not use this component; remove it"))
            continue
        own = getattr(method, kind) if kind in has else method if kind == "algorithm" else None
        built[kind] = DEFAULTS[kind] if own is None else own
        try:
            built[kind] = _component(kind, raw.get(kind, {}), built[kind], own)
        except (ValueError, RemnantError) as error:
            problems.append((kind, str(error)))
    if type(built["algorithm"]) is not type(method):
        name = describe_algorithm(built["algorithm"], None).get("name", "that object")
        problems.append(("algorithm", f"it is determined by the method; set method={name} instead"))
        built["algorithm"] = method
    return built, problems


def _component(kind: str, value: Any, default: Any, own: Any) -> Any:  # noqa: ANN401
    """Return the default with other settings, or another component; `own` is that of the method."""
    registry = REGISTRIES[kind]
    if isinstance(value, int | float):
        raise ValueError(f"expected a name, got {value}{_with_name(registry, default, value)}")
    if not isinstance(value, str | Mapping):
        return checked(kind, value)
    base = describe_algorithm(own, own) if kind == "algorithm" else describe(registry, default, own)
    table = as_table(registry, value)
    if table.get("name", base.get("name")) == base.get("name"):
        table = base | table
    return default if table == base else checked(kind, build(registry, table, default))


def _with_name(registry: Registry, default: object, value: float) -> str:
    """Return a hint for a number that was given instead of a component with this setting."""
    names = [name_of(registry, default), *registry.builtin]
    name = next((name for name in names if name and settings(registry[name])), names[0])
    text = f"{name}:{value}"
    try:
        build(registry, as_table(registry, text))
    except ValueError as error:
        return f"; {text}: {error}"
    return f"; write {text}"


def unknown_key(key: str) -> str:
    """Return the error message for a key that is not a setting."""
    if key in RENAMED:
        return f"{key!r} has been renamed: use {RENAMED[key]!r}"
    owners = [
        f"{kind}.{key}"
        for kind, registry in REGISTRIES.items()
        if any(key in settings(value) for value in registry.loaded.values())
    ]
    owners += ["data." + key] if any(key in settings(kind) for kind in KINDS.values()) else []
    hint = f"; did you mean {' or '.join(owners)}?" if owners else nearest(key, DEFAULTS)
    return f"unknown key {key!r}{hint}"


def _sentence(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    message = re.sub("^Input should be (?=greater|less)", "expected a value ", message)
    message = re.sub(
        "^(Input|String) should", "expected it to", message.replace("Input should be", "expected")
    )
    is_own = error["type"] == "value_error"
    return f"{where}: {message}" if is_own else f"{where}: {message}, got {error['input']!r}"
