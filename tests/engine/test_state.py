from types import SimpleNamespace
from typing import Any

import pytest
import torch

from remnant.engine.state import restore


def thing() -> SimpleNamespace:
    return SimpleNamespace(count=1, x=torch.zeros(2, 3), order=torch.empty(0, dtype=torch.long))


def state(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"count": 5, "x": torch.ones(2, 3), "order": torch.arange(4)} | changes


def test_all_attributes_are_restored() -> None:
    target = thing()
    restore(target, state(), varying=("order",))
    assert target.count == 5
    assert torch.equal(target.x, torch.ones(2, 3))
    assert target.order.tolist() == [0, 1, 2, 3]


def test_other_attributes_than_those_named_are_kept() -> None:
    target = thing()
    restore(target, {"count": 5}, names=("count",))
    assert target.count == 5
    assert not len(target.order)
    with pytest.raises(ValueError, match="expected count, found order"):
        restore(target, {"order": torch.arange(4)}, names=("count",))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (state(more=1), "expected count, x, order, found count, x, order, more"),
        ({"count": 5}, "found count"),
        (state(count="five"), "expected count to be int, found str"),
        (state(count=None), "found NoneType"),
        (state(count=torch.tensor(5)), "expected count to be int, found a tensor"),
        (state(x=[1, 2]), "expected x to be a tensor of torch.float32.*found list"),
        (state(x=torch.ones(2, 4)), r"dimensions \[2, 3\], found .*\[2, 4\]"),
        (state(x=torch.ones(5, 3)), r"found .*\[5, 3\]"),
        (state(x=torch.ones(2, 3, dtype=torch.int)), "found a tensor of torch.int32"),
        (state(order=torch.ones(4, 1, dtype=torch.long)), "2 dimensions"),
    ],
)
def test_a_state_of_other_names_types_or_shapes_is_an_error_and_changes_nothing(
    wrong: dict[str, Any], message: str
) -> None:
    target = thing()
    with pytest.raises(ValueError, match=message):
        restore(target, wrong, varying=("order",))
    assert target.count == 1
