from typing import Any

import pytest
import torch
from buffer_helpers import buffer_of, choice_of, not_needed, offer_of, same_uniforms, samples
from torch import Tensor

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
    assert choice.state["candidates"] == 1008


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


def offered(state: dict[str, Any], ids: list[int], accept: float, task: int = 0) -> list[int]:
    """Offer samples to a full buffer that holds 0, 1, 2, 3, the next candidate being the fifth."""
    state.setdefault("candidates", 4)
    choice = choice_of(
        buffer_of([0] * 4), same_uniforms(accept, count=len(ids)), offer_of(ids), task=task, state=state
    )
    return Reservoir()(choice).tolist()


def test_the_acceptance_of_a_stored_sample_passes_to_the_next_candidate_that_is_not_stored() -> None:
    # 0.7 accepts the fifth candidate (4 / 5) and no other (4 / 6, 4 / 7, 4 / 8 < 0.7).
    assert offered({}, [2, 3, 77, 78], 0.7) == [-1, -1, 2, -1]


def test_an_acceptance_waits_for_a_later_batch() -> None:
    state: dict[str, Any] = {}
    assert offered(state, [2, 3], 0.7) == [-1, -1]
    assert offered(state, [0, 77, 78], 0.7) == [-1, 2, -1]


def test_an_acceptance_does_not_wait_for_the_next_task() -> None:
    state: dict[str, Any] = {}
    offered(state, [2, 3], 0.7)
    assert offered(state, [77], 0.7, task=1) == [-1]


def test_no_acceptance_waits_while_a_slot_is_free() -> None:
    buffer = Buffer(2, (1,))
    buffer.put(torch.tensor([0]), samples([7]), task=0)
    choice = choice_of(buffer, same_uniforms(0.0, count=2), offer_of([7, 8]))
    assert Reservoir()(choice).tolist() == [-1, 1]
    assert choice.state["waiting"] == 0


def shares(seed: int, tasks: int, epochs: int, pool: int, slots: int) -> list[Tensor]:
    """Return how many samples of each task are stored after each task.

    In each epoch half of the pool of a task are candidates, in random order and in batches of eight.
    """
    rng, buffer, state = torch.Generator().manual_seed(seed), Buffer(slots, (1,)), dict[str, Any]()
    counts = []
    for task in range(tasks):
        for _ in range(epochs):
            for ids in (task * pool + torch.randperm(pool, generator=rng)[: pool // 2]).split(8):
                uniforms = torch.rand(len(ids), 3, generator=rng, dtype=torch.float64)
                offer = offer_of(ids.tolist())
                chosen = Reservoir()(choice_of(buffer, uniforms, offer, task=task, state=state))
                buffer.put(chosen, samples(ids.tolist()), task)
        counts.append(torch.bincount(buffer.task[: len(buffer)], minlength=task + 1))
    return counts


def deviations(counts: list[Tensor], slots: int) -> Tensor:
    """Return the relative deviation of every share from its even share."""
    return torch.cat([count.double() * len(count) / slots - 1 for count in counts])


def test_every_task_gets_its_share_of_the_buffer() -> None:
    runs = [deviations(shares(seed, tasks=3, epochs=8, pool=100, slots=60), 60) for seed in range(40)]
    assert torch.stack(runs).mean(0).abs().max() < 0.1


@pytest.mark.slow
def test_every_task_gets_its_share_of_the_buffer_at_the_size_of_cifar100() -> None:
    runs = [deviations(shares(seed, tasks=10, epochs=25, pool=2500, slots=2000), 2000) for seed in range(20)]
    assert torch.stack(runs).mean(0).abs().max() < 0.05
    assert torch.stack(runs).abs().max() < 0.25


def test_a_sample_that_was_removed_can_be_inserted_again() -> None:
    buffer = buffer_of([0] * 4)
    buffer.remove(torch.tensor([3]))
    assert Reservoir()(choice_of(buffer, same_uniforms(0.0), offer_of([3]))).tolist() == [3]


def test_the_first_sample_can_be_inserted_after_the_buffer_has_grown() -> None:
    buffer = Buffer(1, (1,))
    buffer.put(torch.tensor([0]), samples([7]), task=0)
    buffer.reserve(1)
    assert Reservoir()(choice_of(buffer, same_uniforms(0.0), offer_of([0]))).tolist() == [1]


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
