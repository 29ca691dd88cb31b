import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remnant.insertion import Everything, LowestLoss


@pytest.mark.parametrize(("batch", "count"), [(32, 8), (8, 2), (1, 0), (2, 0), (6, 2), (10, 2)])
def test_a_quarter_of_the_batch_may_enter_rounded_half_to_even(batch: int, count: int) -> None:
    assert LowestLoss(0.75).count(batch) == count
    assert len(LowestLoss(0.75).choose(torch.rand(batch))) == count


@pytest.mark.parametrize(
    ("alpha", "count"), [(0, 32), (0.25, 24), (0.5, 16), (0.6, 13), (0.75, 8), (0.9, 3)]
)
def test_alpha_is_the_share_that_stays_out(alpha: float, count: int) -> None:
    assert LowestLoss(alpha).count(32) == count


def test_the_lowest_losses_enter_in_the_order_of_the_batch() -> None:
    loss = torch.tensor([5.0, 0.2, 3.0, 0.1, 4.0, 2.0, 6.0, 7.0])
    assert LowestLoss(0.75).choose(loss).tolist() == [1, 3]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.floats(0, 0.99))
def test_nobody_left_out_has_a_lower_loss_than_a_candidate(losses: list[float], alpha: float) -> None:
    loss = torch.tensor(losses)
    chosen = LowestLoss(alpha).choose(loss)
    left_out = torch.ones(len(loss), dtype=torch.bool)
    left_out[chosen] = False
    if len(chosen) and left_out.any():
        assert loss[chosen].max() <= loss[left_out].min()


def test_everything_needs_no_loss() -> None:
    assert not Everything().needs_loss
    assert Everything().choose(torch.rand(5)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("alpha", [75, 1, -0.1])
def test_alpha_must_be_a_share(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"share in \[0, 1\)"):
        LowestLoss(alpha)


def test_a_percentage_is_told_how_to_be_a_share() -> None:
    with pytest.raises(ValueError, match=r"for 75 % write 0\.75"):
        LowestLoss(75)
