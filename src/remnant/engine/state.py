"""Restoring the attributes of an object from a saved state, which may have been written by other code."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor


def restore(
    target: object,
    state: Mapping[str, Any],
    varying: Collection[str] = (),
    names: Collection[str] | None = None,
) -> None:
    """Set attributes of an object; raise ValueError if their names, types or shapes are different.

    `names` are the attributes to set, by default all. Tensors named in `varying` may have another number of
    rows than before. Tensors are moved to the device of those that they replace.
    """
    own = {name: value for name, value in vars(target).items() if names is None or name in names}
    if own.keys() != state.keys():
        raise ValueError(f"expected {', '.join(own)}, found {', '.join(map(str, state))}")
    for name, value in state.items():
        start = 1 if name in varying else 0
        expected, found = _kind(own[name], start), _kind(value, start)
        if expected != found:
            raise ValueError(f"expected {name} to be {expected}, found {found}")
    for name, value in state.items():
        setattr(target, name, value.to(own[name].device) if isinstance(value, Tensor) else value)


def _kind(value: object, start: int) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype} with {value.ndim} dimensions {list(value.shape)[start:]}"
    return type(value).__name__


def clone(state: dict[str, Any]) -> dict[str, Any]:
    """Copy nested dicts of tensors."""
    return {k: clone(v) if isinstance(v, dict) else v.clone() for k, v in state.items()}
