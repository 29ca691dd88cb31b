from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import reference_consolidation
import torch
from torch import Tensor

from remnant.memory import Memory
from remnant.predict import Embedding
from remnant.replacement import (
    Candidates,
    Draft,
    GreedyBalanced,
    Reservoir,
    Victim,
    asymmetric_victim,
    loss_aware_victim,
    pick,
    uniform_victim,
)
from remnant.stream import Batch

CURRENT, PAST = [0.1, 0.5, 1.1], [0.2, 0.6, 1.0, 2.2]


def memory_of(losses: list[float], tasks: list[int], capacity: int | None = None) -> Memory:
    memory = Memory(capacity or len(losses), (1,))
    count = len(losses)
    rows = Batch(
        torch.zeros(count, 1, dtype=torch.uint8),
        torch.zeros(count, dtype=torch.long),
        torch.arange(count),
    )
    for i, task in enumerate(tasks):
        slot = torch.full((count,), -1)
        slot[i] = i
        memory.put(slot, rows, task, torch.tensor(losses, dtype=torch.float64), torch.zeros(count, 0))
    return memory


def draft_of(losses: list[float], tasks: list[int], task: int) -> Draft:
    memory = memory_of(losses, tasks)
    return Draft(memory, lambda slots: memory.loss[slots], task)


def probabilities(victim: Victim, losses: list[float], tasks: list[int], task: int) -> list[float]:
    """By a fine grid over both uniforms."""
    fine = 420
    counts: Counter[int] = Counter()
    for g in range(7):
        draft = draft_of(losses, tasks, task)
        for v in range(fine):
            counts[victim(draft, (g + 0.5) / 7, (v + 0.5) / fine)] += 1
    return [counts[slot] / (7 * fine) for slot in range(len(losses))]


def no_losses(slots: Tensor) -> Tensor:
    raise AssertionError("no loss was needed")


def no_offer() -> Candidates:
    raise AssertionError("no candidate was needed")


def no_embedding() -> Embedding:
    raise AssertionError("no feature was needed")


def offer_of(
    ids: list[int], losses: list[float] | None = None, y: list[int] | None = None
) -> Callable[[], Candidates]:
    loss = torch.tensor(losses or [1.0] * len(ids), dtype=torch.float64)
    labels = torch.tensor(y or [0] * len(ids))
    return lambda: Candidates(torch.arange(len(ids)), labels, torch.tensor(ids), loss, no_embedding)


def coins(accept: float, group: float = 0.5, victim: float = 0.5, count: int = 1) -> Tensor:
    return torch.tensor([[accept, group, victim]] * count, dtype=torch.float64)


def test_balanced_sampling_has_the_probabilities_worked_by_hand() -> None:
    found = probabilities(asymmetric_victim, CURRENT + PAST, [1, 1, 1, 0, 0, 0, 0], task=1)
    expected = [0.0252, 0.1261, 0.2773, 0.2381, 0.1905, 0.1429, 0.0]
    assert found == pytest.approx(expected, abs=0.003)


def test_balanced_sampling_of_equal_losses_is_uniform() -> None:
    for losses in ([0.7, 0.7, 0.3, 0.3, 0.3], [0.0] * 5):
        found = probabilities(asymmetric_victim, losses, [1, 1, 0, 0, 0], task=1)
        # The grid over the group coin has seven points, of which 2/5 is not a multiple.
        inside = [found[i] / sum(found[:2]) for i in (0, 1)] + [f / sum(found[2:]) for f in found[2:]]
        assert inside == pytest.approx([1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3], abs=0.003)


def test_loss_aware_sampling_has_the_probabilities_worked_by_hand() -> None:
    found = probabilities(loss_aware_victim, CURRENT + PAST, [1, 1, 1, 0, 0, 0, 0], task=1)
    expected = [0.0175, 0.0877, 0.1930, 0.0351, 0.1053, 0.1754, 0.3860]
    assert found == pytest.approx(expected, abs=0.003)


def test_loss_aware_sampling_is_in_proportion_to_the_loss() -> None:
    assert probabilities(loss_aware_victim, [1, 2, 5], [0, 0, 0], 0) == pytest.approx(
        [0.125, 0.25, 0.625], abs=0.003
    )


def test_the_current_task_loses_its_highest_loss_and_the_past_its_lowest() -> None:
    draft = draft_of([1.0, 3.0, 1.0, 3.0], [1, 1, 0, 0], task=1)
    current = Counter(asymmetric_victim(draft, 0.0, (v + 0.5) / 100) for v in range(100))
    past = Counter(asymmetric_victim(draft, 0.99, (v + 0.5) / 100) for v in range(100))
    assert current == {0: 25, 1: 75}
    assert past == {2: 100}


@pytest.mark.parametrize("victim_uniform", [0.0, 0.3, 0.999])
def test_the_past_is_safe_when_the_coin_says_current(victim_uniform: float) -> None:
    draft = draft_of(CURRENT + PAST, [1, 1, 1, 0, 0, 0, 0], task=1)
    assert asymmetric_victim(draft, 3 / 7 - 1e-9, victim_uniform) in (0, 1, 2)
    assert asymmetric_victim(draft, 3 / 7 + 1e-9, victim_uniform) in (3, 4, 5)


def test_in_the_first_task_there_is_no_past_to_evict() -> None:
    draft = draft_of(CURRENT, [0, 0, 0], task=0)
    assert {asymmetric_victim(draft, g / 10, 0.9) for g in range(10)} == {2}


def test_only_the_chosen_group_is_measured() -> None:
    memory, asked = memory_of(CURRENT + PAST, [1, 1, 1, 0, 0, 0, 0]), []

    def losses(slots: Tensor) -> Tensor:
        asked.extend(slots.tolist())
        return memory.loss[slots]

    Reservoir(asymmetric_victim)(memory, offer_of([50]), losses, 1, coins(0.0, group=0.1))
    assert asked == [0, 1, 2]


def test_pick_never_returns_a_weight_of_zero() -> None:
    weight = torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0])
    assert {pick(weight, u / 1000) for u in range(1000)} == {1, 3}


def test_the_largest_uniform_never_picks_a_last_weight_of_zero() -> None:
    rng = torch.Generator().manual_seed(0)
    for _ in range(300):
        weight = torch.rand(20, generator=rng, dtype=torch.float64)
        weight[-1] = 0
        assert pick(weight, 1 - 2**-53) < 19


def test_a_free_slot_takes_any_new_row_whatever_the_coin() -> None:
    memory = Memory(3, (1,))
    slots = Reservoir()(memory, offer_of([7, 8]), no_losses, 0, coins(0.999999, count=2))
    assert slots.tolist() == [0, 1]


def test_nobody_is_asked_for_anything_when_no_coin_falls() -> None:
    memory = memory_of([1.0] * 4, [0] * 4)
    memory.candidates = 1000
    slots = Reservoir(asymmetric_victim)(memory, no_offer, no_losses, 0, coins(0.5, count=8))
    assert slots.tolist() == [-1] * 8


def test_candidates_are_counted_also_when_none_is_accepted() -> None:
    memory = memory_of([1.0] * 4, [0] * 4)
    memory.candidates = 1000
    Reservoir()(memory, no_offer, no_losses, 0, coins(0.5, count=8))
    assert memory.candidates == 1008


@pytest.mark.parametrize(("accept", "enters"), [(4 / 11 - 1e-9, True), (4 / 11 + 1e-9, False)])
def test_the_nth_candidate_is_accepted_with_probability_capacity_over_n(
    accept: float, enters: bool
) -> None:
    memory = memory_of([1.0] * 4, [0] * 4)
    memory.candidates = 10
    slots = Reservoir()(memory, offer_of([99]), no_losses, 0, coins(accept))
    assert (slots.item() >= 0) == enters


def test_a_row_that_is_stored_already_is_left_alone() -> None:
    memory = memory_of([1.0] * 4, [0] * 4)
    slots = Reservoir()(memory, offer_of([2, 77]), no_losses, 0, coins(0.0, count=2))
    assert slots[0] == -1
    assert slots[1] >= 0


def test_duplicates_can_be_allowed() -> None:
    memory = memory_of([1.0] * 4, [0] * 4)
    policy = Reservoir(uniform_victim, allow_duplicates=True)
    assert policy(memory, offer_of([2]), no_losses, 0, coins(0.0)).item() >= 0


def test_an_evicted_row_may_come_back_within_the_same_batch() -> None:
    memory = memory_of([1.0] * 4, [0] * 4)
    uniforms = torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.5, 0.9]], dtype=torch.float64)
    slots = Reservoir()(memory, offer_of([50, 0]), no_losses, 0, uniforms)
    assert slots.tolist() == [0, 3]


def test_the_next_candidate_sees_the_one_before_it() -> None:
    # Slot 0 is the only row of the current task after the first candidate took it from the past.
    memory = memory_of([1.0, 9.0], [0, 0])
    uniforms = torch.tensor([[0.0, 0.99, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    policy = Reservoir(asymmetric_victim)
    slots = policy(memory, offer_of([50, 51]), lambda s: memory.loss[s], 1, uniforms)
    assert slots.tolist() == [0, 0]


def test_plain_reservoir_needs_no_loss_but_the_loss_aware_ones_do() -> None:
    assert not Reservoir().needs_loss
    assert Reservoir(loss_aware_victim).needs_loss
    assert Reservoir(asymmetric_victim).needs_loss


def greedy_slots(y: list[int], capacity: int, uniforms: Tensor) -> tuple[list[int], Memory]:
    """Offer rows one at a time, as a stream does."""
    memory, slots = Memory(capacity, (1,)), []
    for i, label in enumerate(y):
        offer = offer_of([i], y=[label])
        slot = GreedyBalanced()(memory, offer, no_losses, 0, uniforms[i : i + 1])
        batch = Batch(torch.zeros(1, 1, dtype=torch.uint8), torch.tensor([label]), torch.tensor([i]))
        memory.put(slot, batch, 0, torch.zeros(1, dtype=torch.float64), torch.empty(1, 0))
        slots += slot.tolist()
    return slots, memory


def test_the_greedy_sampler_by_hand() -> None:
    a, b = 0, 1
    stream = [a, a, a, a, b, b, b]
    uniforms = coins(0.5, count=7)
    counts = []
    for length in range(4, 8):
        _, memory = greedy_slots(stream[:length], 4, uniforms)
        counts.append([memory.rows().y.tolist().count(c) for c in (a, b)])
    assert counts == [[4, 0], [3, 1], [2, 2], [2, 2]]
    assert greedy_slots(stream, 4, uniforms)[0][-1] == -1


@pytest.mark.parametrize("seed", range(40))
def test_the_greedy_sampler_is_its_twin_one_by_one_and_in_batches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, capacity = int(rng.integers(1, 7)), int(rng.integers(2, 12))
    y = rng.integers(classes, size=60).tolist()
    uniforms = torch.from_numpy(rng.random((60, 3)))
    expected = reference_consolidation.greedy_balanced(y, range(60), capacity, uniforms.tolist())
    assert greedy_slots(y, capacity, uniforms)[0] == expected
    whole = GreedyBalanced()(Memory(capacity, (1,)), offer_of([*range(60)], y=y), no_losses, 0, uniforms)
    assert whole.tolist() == expected


@pytest.mark.parametrize("seed", range(10))
def test_classes_that_came_often_enough_are_balanced(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.permutation(5), 30).tolist()  # class after class, as tasks bring them
    _, memory = greedy_slots(y, 23, torch.from_numpy(rng.random((150, 3))))
    counts = torch.bincount(memory.rows().y)
    assert len(memory) == 23
    assert counts.max() - counts.min() <= 1


def test_no_row_enters_twice() -> None:
    _, memory = greedy_slots([0, 0, 1], 4, coins(0.5, count=3))
    offer = offer_of([2], y=[1])
    assert GreedyBalanced()(memory, offer, no_losses, 0, coins(0.5)).tolist() == [-1]
