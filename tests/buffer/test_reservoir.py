import pytest
import torch
from buffer_helpers import buffer_of, choice_of, not_needed, offer_of, same_uniforms

from remnant.buffer.buffer import Buffer
from remnant.buffer.eviction import asymmetric_victim, loss_aware_victim, uniform_victim
from remnant.buffer.reservoir import Reservoir

CURRENT, PAST = [0.1, 0.5, 1.1], [0.2, 0.6, 1.0, 2.2]
TASKS = [1, 1, 1, 0, 0, 0, 0]


def test_a_free_slot_is_filled_without_an_acceptance_draw() -> None:
    choice = choice_of(Buffer(3, (1,)), same_uniforms(0.999999, count=2), offer_of([7, 8]))
    assert Reservoir()(choice).tolist() == [0, 1]


def test_nothing_is_computed_when_no_candidate_is_accepted() -> None:
    choice = choice_of(buffer_of([0] * 4), same_uniforms(0.5, count=8), state={"candidates": 1000})
    assert choice.offer is choice.losses is not_needed
    assert Reservoir(asymmetric_victim)(choice).tolist() == [-1] * 8


def test_candidates_are_counted_even_when_none_is_accepted() -> None:
    choice = choice_of(buffer_of([0] * 4), same_uniforms(0.5, count=8), state={"candidates": 1000})
    Reservoir()(choice)
    assert choice.state == {"candidates": 1008}


@pytest.mark.parametrize(("accept", "is_accepted"), [(4 / 11 - 1e-9, True), (4 / 11 + 1e-9, False)])
def test_the_nth_candidate_is_accepted_with_probability_capacity_over_n(
    accept: float, is_accepted: bool
) -> None:
    choice = choice_of(buffer_of([0] * 4), same_uniforms(accept), offer_of([99]), state={"candidates": 10})
    assert (Reservoir()(choice).item() >= 0) == is_accepted


def test_a_sample_that_is_stored_already_is_discarded() -> None:
    slots = Reservoir()(choice_of(buffer_of([0] * 4), same_uniforms(0.0, count=2), offer_of([2, 77])))
    assert slots[0] == -1
    assert slots[1] >= 0


def test_duplicates_can_be_allowed() -> None:
    policy = Reservoir(uniform_victim, allow_duplicates=True)
    assert policy(choice_of(buffer_of([0] * 4), same_uniforms(0.0), offer_of([2]))).item() >= 0


def test_an_evicted_sample_can_be_inserted_again_in_the_same_batch() -> None:
    uniforms = torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.5, 0.9]], dtype=torch.float64)
    slots = Reservoir()(choice_of(buffer_of([0] * 4), uniforms, offer_of([50, 0])))
    assert slots.tolist() == [0, 3]


def test_the_next_candidate_sees_the_one_before_it() -> None:
    # The first candidate replaces slot 0, which is then the only sample of the current task.
    uniforms = torch.tensor([[0.0, 0.99, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    table = torch.tensor([1.0, 9.0], dtype=torch.float64)
    choice = choice_of(buffer_of([0, 0]), uniforms, offer_of([50, 51]), losses=table.__getitem__, task=1)
    assert Reservoir(asymmetric_victim)(choice).tolist() == [0, 0]


def test_only_loss_aware_policies_need_losses() -> None:
    assert not Reservoir().needs_loss
    assert Reservoir(loss_aware_victim).needs_loss
    assert Reservoir(asymmetric_victim).needs_loss
