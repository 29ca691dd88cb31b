import numpy as np
import pytest
import reference_consolidation
import torch
from buffer_helpers import choice_of, offer_of, same_uniforms, samples
from torch import Tensor

from remnant.buffer.buffer import Buffer
from remnant.buffer.greedy import GreedyBalanced


def one_by_one(y: list[int], capacity: int, uniforms: Tensor) -> tuple[list[int], Buffer]:
    """Offer samples one at a time; return their slots and the buffer."""
    buffer, slots = Buffer(capacity, (1,)), []
    for i, label in enumerate(y):
        slot = GreedyBalanced()(choice_of(buffer, uniforms[i : i + 1], offer_of([i], y=[label])))
        buffer.put(slot, samples([i], [label]), 0)
        slots += slot.tolist()
    return slots, buffer


def test_class_counts_are_those_computed_by_hand() -> None:
    a, b = 0, 1
    labels, uniforms, counts = [a, a, a, a, b, b, b], same_uniforms(0.5, count=7), []
    for length in range(4, 8):
        _, buffer = one_by_one(labels[:length], 4, uniforms)
        counts.append([buffer.samples().y.tolist().count(c) for c in (a, b)])
    assert counts == [[4, 0], [3, 1], [2, 2], [2, 2]]
    assert one_by_one(labels, 4, uniforms)[0][-1] == -1


def assert_is_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, capacity = int(rng.integers(1, 7)), int(rng.integers(2, 12))
    y = rng.integers(classes, size=60).tolist()
    uniforms = torch.from_numpy(rng.random((60, 3)))
    expected = reference_consolidation.greedy_balanced(y, range(60), capacity, uniforms.tolist())
    assert one_by_one(y, capacity, uniforms)[0] == expected
    whole = GreedyBalanced()(choice_of(Buffer(capacity, (1,)), uniforms, offer_of([*range(60)], y=y)))
    assert whole.tolist() == expected


def test_slots_are_those_of_the_reference_one_by_one_and_in_batches() -> None:
    for seed in range(10):
        assert_is_the_reference(seed)


@pytest.mark.slow
def test_slots_are_those_of_the_reference_for_many_seeds() -> None:
    for seed in range(10, 200):
        assert_is_the_reference(seed)


def test_classes_that_arrive_one_after_another_are_balanced() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = np.repeat(rng.permutation(5), 30).tolist()
        _, buffer = one_by_one(y, 23, torch.from_numpy(rng.random((150, 3))))
        counts = torch.bincount(buffer.samples().y)
        assert len(buffer) == 23
        assert counts.max() - counts.min() <= 1


def test_a_sample_that_is_stored_already_is_discarded() -> None:
    _, buffer = one_by_one([0, 0, 1], 4, same_uniforms(0.5, count=3))
    assert GreedyBalanced()(choice_of(buffer, same_uniforms(0.5), offer_of([2], y=[1]))).tolist() == [-1]
