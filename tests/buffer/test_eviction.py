from collections import Counter

import pytest
import torch
from buffer_helpers import buffer_of, choice_of, offer_of, same_uniforms
from torch import Tensor

from remnant.buffer.eviction import Draft, Victim, asymmetric_victim, loss_aware_victim, pick
from remnant.buffer.reservoir import Reservoir

CURRENT, PAST = [0.1, 0.5, 1.1], [0.2, 0.6, 1.0, 2.2]
TASKS = [1, 1, 1, 0, 0, 0, 0]


def draft_of(losses: list[float], tasks: list[int], task: int) -> Draft:
    table = torch.tensor(losses, dtype=torch.float64)
    return Draft(choice_of(buffer_of(tasks), same_uniforms(0.0), losses=table.__getitem__, task=task))


def probabilities(victim: Victim, losses: list[float], tasks: list[int], task: int) -> list[float]:
    """The probability of each slot, by a fine grid over both uniforms."""
    fine = 420
    counts: Counter[int] = Counter()
    for g in range(7):
        draft = draft_of(losses, tasks, task)
        for v in range(fine):
            counts[victim(draft, (g + 0.5) / 7, (v + 0.5) / fine)] += 1
    return [counts[slot] / (7 * fine) for slot in range(len(losses))]


def test_abs_has_the_probabilities_computed_by_hand() -> None:
    found = probabilities(asymmetric_victim, CURRENT + PAST, TASKS, task=1)
    expected = [0.0252, 0.1261, 0.2773, 0.2381, 0.1905, 0.1429, 0.0]
    assert found == pytest.approx(expected, abs=0.003)


def test_abs_is_uniform_in_a_group_of_equal_losses() -> None:
    for losses in ([0.7, 0.7, 0.3, 0.3, 0.3], [0.0] * 5):
        found = probabilities(asymmetric_victim, losses, [1, 1, 0, 0, 0], task=1)
        # The grid over the group uniform has seven points, and 2/5 is not a multiple of 1/7.
        inside = [found[i] / sum(found[:2]) for i in (0, 1)] + [f / sum(found[2:]) for f in found[2:]]
        assert inside == pytest.approx([1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3], abs=0.003)


def test_lass_has_the_probabilities_computed_by_hand() -> None:
    found = probabilities(loss_aware_victim, CURRENT + PAST, TASKS, task=1)
    expected = [0.0175, 0.0877, 0.1930, 0.0351, 0.1053, 0.1754, 0.3860]
    assert found == pytest.approx(expected, abs=0.003)


def test_lass_evicts_in_proportion_to_the_loss() -> None:
    found = probabilities(loss_aware_victim, [1, 2, 5], [0, 0, 0], 0)
    assert found == pytest.approx([0.125, 0.25, 0.625], abs=0.003)


def test_abs_evicts_high_losses_of_the_current_task_and_low_losses_of_past_tasks() -> None:
    draft = draft_of([1.0, 3.0, 1.0, 3.0], [1, 1, 0, 0], task=1)
    current = Counter(asymmetric_victim(draft, 0.0, (v + 0.5) / 100) for v in range(100))
    past = Counter(asymmetric_victim(draft, 0.99, (v + 0.5) / 100) for v in range(100))
    assert current == {0: 25, 1: 75}
    assert past == {2: 100}


def test_the_group_uniform_decides_between_current_and_past_tasks() -> None:
    draft = draft_of(CURRENT + PAST, TASKS, task=1)
    for victim in (0.0, 0.3, 0.999):
        assert asymmetric_victim(draft, 3 / 7 - 1e-9, victim) in (0, 1, 2)
        assert asymmetric_victim(draft, 3 / 7 + 1e-9, victim) in (3, 4, 5)


def test_in_the_first_task_all_victims_are_of_the_current_task() -> None:
    draft = draft_of(CURRENT, [0, 0, 0], task=0)
    assert {asymmetric_victim(draft, g / 10, 0.9) for g in range(10)} == {2}


def test_only_the_chosen_group_is_measured_and_only_once() -> None:
    asked: list[int] = []

    def losses(slots: Tensor) -> Tensor:
        asked.extend(slots.tolist())
        return torch.tensor(CURRENT + PAST, dtype=torch.float64)[slots]

    choice = choice_of(
        buffer_of(TASKS), same_uniforms(0.0, group=0.1, count=2), offer_of([50, 51]), losses=losses, task=1
    )
    Reservoir(asymmetric_victim)(choice)
    assert asked == [0, 1, 2]


def test_pick_never_returns_a_position_of_weight_zero() -> None:
    weight = torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0])
    assert {pick(weight, u / 1000) for u in range(1000)} == {1, 3}


def test_the_largest_uniform_never_picks_a_last_weight_of_zero() -> None:
    rng = torch.Generator().manual_seed(0)
    for _ in range(300):
        weight = torch.rand(20, generator=rng, dtype=torch.float64)
        weight[-1] = 0
        assert pick(weight, 1 - 2**-53) < 19


def test_weights_of_zero_are_picked_uniformly() -> None:
    assert [pick(torch.zeros(4), u) for u in (0.0, 0.24, 0.25, 0.99)] == [0, 0, 1, 3]
