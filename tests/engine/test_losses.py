import math

import pytest
import torch

from remnant.engine.losses import READ_EVERY, Losses, StepLoss
from remnant.errors import Diverged


def test_a_known_loss_is_read_at_once_and_others_in_groups() -> None:
    losses = Losses()
    assert not losses.are_due
    losses.add("learn", 0.5, 8)
    assert losses.are_due
    assert losses.read() == [StepLoss("learn", 0.5, 8)]
    for _ in range(READ_EVERY - 1):
        losses.add("forget", torch.tensor(0.25), 8)
        assert not losses.are_due
    losses.add("forget", torch.tensor(0.75), 4)
    assert losses.are_due
    assert losses.read()[-2:] == [StepLoss("forget", 0.25, 8), StepLoss("forget", 0.75, 4)]
    assert losses.last == {"learn": 0.5, "forget": 0.75}
    assert losses.read() == []


def test_losses_are_read_in_the_order_of_the_steps() -> None:
    losses = Losses()
    for kind, loss in (("a", torch.tensor(1.0)), ("b", 2.0), ("a", torch.tensor(3.0))):
        losses.add(kind, loss, 1)
    assert [read.loss for read in losses.read()] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("loss", [math.inf, -math.inf, math.nan])
def test_a_loss_that_is_not_finite_is_an_error(loss: float) -> None:
    losses = Losses()
    losses.add("learn", torch.tensor(1.0), 1)
    losses.add("learn", torch.tensor(loss), 1)
    with pytest.raises(Diverged, match=f"the loss became {loss}"):
        losses.read()
