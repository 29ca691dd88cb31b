"""Names of variants: the settings in which a run differs from its registered method, and from other runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from remnant.config.components import PYTHON, describe
from remnant.config.registries import (
    CUSTOM,
    OF_METHOD,
    REGISTRIES,
    components_of,
    describe_algorithm,
    find_method,
)
from remnant.errors import RemnantError
from remnant.report.runs import FinishedRun, differing_settings
from remnant.settings import settings

Components = Mapping[str, Mapping[str, Any]]  # kind, such as `schedule`, -> its table in the config
NAMES = ("name", PYTHON, "source")  # keys of a component that are not settings
SUFFIX = f"-{CUSTOM}"


def base_method(method: str) -> str:
    """Return the method that a run with other components is based on.

    >>> base_method("aer-abs-custom")
    'aer-abs'
    """
    return method.removesuffix(SUFFIX)


def is_custom(method: str) -> bool:
    """Return whether a method has other components than the registered one of its name."""
    return method == CUSTOM or method.endswith(SUFFIX)


def named_settings(runs: Sequence[FinishedRun]) -> list[dict[str, Any]]:
    """Return for each run the settings that tell it apart from the others.

    Settings of components are those that differ from the registered method, so that the runs of this method
    have none. Other settings are those in which the runs differ.
    """
    keys = [key for key in differing_settings(runs) if key.partition(".")[0] not in OF_METHOD]
    components: dict[int, dict[str, Any]] = {}
    for base in dict.fromkeys(base_method(run.method) for run in runs):
        places = [place for place, run in enumerate(runs) if base_method(run.method) == base]
        found = _component_settings(base, [runs[place] for place in places])
        components |= dict(zip(places, found, strict=True))
    tables = [run.settings() for run in runs]
    return [
        components[place] | {key: table[key] for key in keys if key in table}
        for place, table in enumerate(tables)
    ]


def _component_settings(base: str, runs: Sequence[FinishedRun]) -> list[dict[str, Any]]:
    """Return the named settings of components of runs that are based on one method."""
    differing = _of_components(differing_settings(runs))
    reference = _reference(base, runs)
    if reference is None:
        return [_chosen(run, differing) for run in runs]
    tuned = _of_components(differing_settings([run for run in runs if not is_custom(run.method)]))
    found = []
    for run in runs:
        own = _differences(_components(run), reference)
        kept = own if is_custom(run.method) else {k: v for k, v in own.items() if {k, f"{k}.name"} & {*tuned}}
        found.append(kept)
    if _count(found) < _count([_components(run) for run in runs]):  # such as two objects of one name
        return [own | _chosen(run, differing) for own, run in zip(found, runs, strict=True)]
    return found


def _of_components(keys: Sequence[str]) -> list[str]:
    return [key for key in keys if key.partition(".")[0] in OF_METHOD]


def _chosen(run: FinishedRun, keys: Sequence[str]) -> dict[str, Any]:
    table = run.settings()
    return {key: table[key] for key in keys if key in table}


def _count(tables: Sequence[Mapping[str, Any]]) -> int:
    return len({json.dumps(table, sort_keys=True) for table in tables})


def _components(run: FinishedRun) -> Components:
    return {kind: table for kind in OF_METHOD if isinstance(table := run.config.get(kind), Mapping)}


def _reference(base: str, runs: Sequence[FinishedRun]) -> Components | None:
    """Return the components of the registered method: those of its runs, whose recipe may tune them."""
    own = [_components(run) for run in runs if not is_custom(run.method)]
    return own[0] if _count(own) == 1 else _registered(base)


def _registered(method: str) -> Components | None:
    """Return the components of a method by name, or None if it is unknown here."""
    try:
        found = find_method(method)
    except RemnantError:
        return None
    if found is None:
        return None
    own = {kind: getattr(found, kind) for kind in components_of(found)}
    tables = {kind: describe(REGISTRIES[kind], value, value) for kind, value in own.items()}
    return {**tables, "algorithm": describe_algorithm(found, found)}


def _differences(components: Components, reference: Components) -> dict[str, Any]:
    """Return the names of other components, then settings that do not follow from a component's name."""
    names: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for kind, table in components.items():
        other = reference.get(kind, table)
        name = _name(table)
        if name is not None and name != _name(other):
            names[kind] = name.rpartition(".py:")[2]
            known = REGISTRIES[kind].builtin
            other = settings(known[name]) if name in known else {}
        own = {key: value for key, value in table.items() if key not in NAMES}
        values |= {f"{kind}.{k}": v for k, v in own.items() if k not in other or other[k] != v}
    return names | values


def _name(table: Mapping[str, Any]) -> str | None:
    """Return the name of a component, or that of its Python object."""
    if PYTHON in table:
        return str(table[PYTHON]).rpartition(":")[2]
    return table.get("name")
