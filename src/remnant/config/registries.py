"""Registries of the components and methods that a config refers to by name."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from remnant.buffer import INSERTIONS, REPLACEMENTS, SCORINGS
from remnant.config.components import OWN
from remnant.data import KINDS
from remnant.data.dataset import Spec
from remnant.errors import RemnantError
from remnant.extensions import Registry, describe_object
from remnant.methods.consolidation import CONSOLIDATIONS
from remnant.methods.epoch_schedule import SCHEDULES
from remnant.methods.objective import OBJECTIVES
from remnant.methods.protocol import Algorithm
from remnant.methods.rebuild import REBUILDS
from remnant.methods.registry import ALGORITHMS, METHODS, SUFFIXES, with_suffix
from remnant.nets import NETS
from remnant.noise import NOISES
from remnant.settings import is_same_but_tuned, settings

REGISTRIES: dict[str, Registry] = {
    "noise": Registry("noise", NOISES, "remnant.noises"),
    "net": Registry("net", NETS, "remnant.nets"),
    "objective": Registry("objective", OBJECTIVES),
    "schedule": Registry("schedule", SCHEDULES),
    "scoring": Registry("scoring", SCORINGS),
    "insertion": Registry("insertion", INSERTIONS),
    "replacement": Registry("replacement", REPLACEMENTS),
    "rebuild": Registry("rebuild", REBUILDS),
    "consolidation": Registry("consolidation", CONSOLIDATIONS),
    "algorithm": Registry("algorithm", ALGORITHMS),
}
OWN_DATA = Registry("own data", KINDS)
METHOD_NAMES = Registry("method", METHODS, "remnant.methods")
COMPONENTS = ("objective", "schedule", "scoring", "insertion", "replacement", "rebuild", "consolidation")
OF_METHOD = (*COMPONENTS, "algorithm")  # settings that follow from the method
CUSTOM = "custom"  # the method of a combination of components that has no name
# Attributes that an object needs to be used instead of a name.
REQUIRED = {
    **dict.fromkeys(("noise", "net", "schedule", "replacement", "rebuild"), ("__call__",)),
    "objective": ("__call__", "sample_loss", "keeps_logits", "normed_head"),
    "scoring": ("limit",),
    "insertion": ("needs_loss", "count", "choose"),
    "consolidation": ("epochs", "steps"),
    "algorithm": ("build", "plan", "check", "time_steps", "unused"),
}


def _has(value: object, name: str) -> bool:
    try:
        return hasattr(value, name)
    except Exception:  # the object is a user's, and its __getattr__ may raise anything
        return False


def checked(kind: str, value: Any) -> Any:  # noqa: ANN401
    """Return an object, or raise ValueError if it cannot be used instead of a name."""
    missing = [key for key in REQUIRED[kind] if not _has(value, key)]
    is_class = isinstance(value, type) and kind != "net"
    if missing or is_class:
        what = "a method, such as Replay(...)" if kind == "algorithm" else "a name, a table of settings"
        what += f", or an object with {', '.join(REQUIRED[kind])}"
        got = f"the class {value.__name__}: write {value.__name__}(...)" if is_class else f"{value!r:.60}"
        without = f" without {', '.join(missing)}" if missing else ""
        raise ValueError(f"expected {what}, got {got}{without}")
    return value


def find_method(name: str) -> Algorithm | None:
    """Return a method by name: a known one, one in a file, or either with the suffix of a consolidation."""
    if name == CUSTOM:
        return METHODS["er"]
    base, plus, suffix = name.rpartition("+")
    if name not in METHOD_NAMES and plus and suffix in SUFFIXES and base != CUSTOM:
        method = find_method(base)
        return None if method is None else with_suffix(method, base, suffix)
    if name not in METHOD_NAMES:
        return None
    try:
        found: Algorithm = checked("algorithm", METHOD_NAMES[name])
    except ValueError as error:
        raise RemnantError(f"{name}: {error}.") from error
    return found


def components_of(method: Algorithm) -> tuple[str, ...]:
    """Return the components that a method has."""
    names = {field.name for field in fields(method)} if is_dataclass(method) else ()
    return tuple(name for name in COMPONENTS if name in names)


def describe_algorithm(method: Algorithm, own: object) -> dict[str, Any]:
    """Return the algorithm of a method as a table of its plain settings, without its components."""
    known = {type(a): name for name, a in REGISTRIES["algorithm"].loaded.items()}
    name = known.get(type(method), OWN if type(own) is type(method) else "")
    return ({"name": name} if name else describe_object(method)) | settings(method)


def fitted_to(method: Algorithm, spec: Spec) -> Algorithm:
    """Adapt a method to a dataset: CutMix is disabled unless the inputs are images."""
    own = {name: getattr(method, name) for name in components_of(method)}
    with_cutmix = {} if spec.are_images else {n: c for n, c in own.items() if getattr(c, "cutmix", 0)}
    changes = {name: replace(component, cutmix=0.0) for name, component in with_cutmix.items()}
    return replace(method, **changes) if changes else method  # type: ignore[type-var]


def is_same_method(a: Algorithm, b: Algorithm) -> bool:
    """Return whether two methods differ in tuned settings only."""
    if type(a) is not type(b):
        return False
    pairs = {name: (getattr(a, name), getattr(b, name)) for name in components_of(a)}
    same = {name: theirs for name, (ours, theirs) in pairs.items() if is_same_but_tuned(ours, theirs)}
    return is_same_but_tuned(replace(a, **same) if same else a, b)  # type: ignore[type-var]
