import pytest
import torch
from hypothesis import given, strategies as st

from remnant.buffer.insertion import Everything, LowestLoss


def test_the_number_of_candidates_is_rounded_half_to_even() -> None:
    for batch, count in [(32, 8), (8, 2), (1, 0), (2, 0), (6, 2), (10, 2)]:
        assert LowestLoss(0.75).count(batch) == count
        assert len(LowestLoss(0.75).choose(torch.rand(batch))) == count


def test_alpha_is_the_fraction_that_is_never_inserted() -> None:
    for alpha, count in [(0, 32), (0.25, 24), (0.5, 16), (0.6, 13), (0.75, 8), (0.9, 3)]:
        assert LowestLoss(alpha).count(32) == count


def test_candidates_have_the_lowest_losses_and_keep_the_order_of_the_batch() -> None:
    loss = torch.tensor([5.0, 0.2, 3.0, 0.1, 4.0, 2.0, 6.0, 7.0])
    assert LowestLoss(0.75).choose(loss).tolist() == [1, 3]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.floats(0, 0.99))
def test_no_other_sample_has_a_lower_loss_than_a_candidate(losses: list[float], alpha: float) -> None:
    loss = torch.tensor(losses)
    chosen = LowestLoss(alpha).choose(loss)
    is_other = torch.ones(len(loss), dtype=torch.bool)
    is_other[chosen] = False
    if len(chosen) and is_other.any():
        assert loss[chosen].max() <= loss[is_other].min()


def test_everything_makes_all_samples_candidates_without_losses() -> None:
    assert not Everything().needs_loss
    assert LowestLoss().needs_loss
    assert Everything().count(5) == 5
    assert Everything().choose(torch.rand(5)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("alpha", [75, 1, -0.1])
def test_alpha_must_be_a_fraction(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"fraction in \[0, 1\)"):
        LowestLoss(alpha)


def test_the_error_for_a_percentage_says_how_to_write_it() -> None:
    with pytest.raises(ValueError, match=r"for 75 % write 0\.75"):
        LowestLoss(75)
