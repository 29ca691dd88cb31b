"""New classes in the state of a learner: heads, stored logits and masks become larger, all else stays."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from remnant.config import Config
from remnant.errors import RemnantError
from remnant.methods.objective import AsymmetricCrossEntropy
from remnant.models.model import Label

OPTIMIZERS = ("momentum", "moments")  # a task starts with new ones


def grown(new: Any, old: Any, before: int, after: int) -> Any:  # noqa: ANN401
    """Return the state `old` of a learner with `before` classes for one with `after` classes.

    `new` is the state of a learner with `after` classes that has not learned anything. Its initial values
    are those of the new classes; stored logits of the new classes are 0.
    """
    if isinstance(old, dict):
        kept = {key: value for key, value in old.items() if key not in OPTIMIZERS}
        larger = {key: grown(new.get(key, value), value, before, after) for key, value in kept.items()}
        return {key: larger.get(key, {}) for key in old}
    if isinstance(old, Tensor) and isinstance(new, Tensor) and old.ndim == new.ndim:
        return _padded(new, old, before, after)
    return old


def _padded(new: Tensor, old: Tensor, before: int, after: int) -> Tensor:
    """Return `old` with every dimension of `before` classes, which has size `after` in `new`, extended."""
    sizes = [after if (a, b) == (before, after) else a for a, b in zip(old.shape, new.shape, strict=True)]
    if sizes == list(old.shape):
        return old
    result = new.clone() if list(new.shape) == sizes else old.new_zeros(sizes)
    if result.is_floating_point():
        result = torch.nan_to_num(result, nan=0.0)
    result[tuple(slice(size) for size in old.shape)] = old
    return result


def check_classes(labels: set[Label], known: Sequence[Label], seen: Tensor | None, config: Config) -> None:
    """Raise RemnantError for a single class of samples if the loss only compares classes of one batch.

    `seen` tells which of the `known` classes have occurred so far; the loss also compares with the others.
    """
    if len(labels) > 1 or seen is None or not isinstance(config.objective, AsymmetricCrossEntropy):
        return
    others = zip(known, seen.tolist(), strict=True)
    if all(is_seen or label in labels for label, is_seen in others):
        raise RemnantError(
            f"expected samples of at least two classes, got only {', '.join(map(str, labels))}: "
            f"{config.label} compares the classes of a call with each other, and learns nothing from one. "
            "Add samples of another class, or start a learner with method er."
        )
