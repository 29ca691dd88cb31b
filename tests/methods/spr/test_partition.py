import copy
import math

import numpy as np
import pytest
import reference_spr as reference
import torch
from torch import Tensor

from remnant.buffer.base import Candidates
from remnant.buffer.buffer import Buffer, written
from remnant.methods.spr.partition import doubtful, partitioned
from remnant.stream import Batch


class Store:
    """A buffer with the scores of its samples and the number of candidates of each class."""

    def __init__(self, capacity: int, classes: int = 4) -> None:
        self.buffer = Buffer(capacity, (1,))
        self.score = torch.full((capacity,), torch.nan, dtype=torch.float64)
        self.offered = torch.zeros(classes, dtype=torch.long)
        self.next = 0

    def put(self, y: list[int], clean: list[float], uniforms: Tensor, ids: list[int]) -> list[int]:
        positions, loss = torch.arange(len(y)), 1 - torch.tensor(clean, dtype=torch.float64)
        batch = Batch(torch.zeros(len(y), 1, dtype=torch.uint8), torch.tensor(y), torch.tensor(ids))
        candidates = Candidates(positions, batch.y, batch.id, loss)
        slots = partitioned(self.buffer, self.score, candidates, self.offered, uniforms)
        self.buffer.put(slots, batch, 0)
        at, i = written(slots)
        self.score[at] = loss[i]
        return slots.tolist()

    def add(self, y: list[int], clean: list[float], accept: float = 0.0, group: float = 0.0) -> list[int]:
        """Offer new samples, all with the same two uniforms."""
        ids = [*range(self.next, self.next + len(y))]
        self.next += len(y)
        return self.put(y, clean, torch.tensor([[accept, group]] * len(y), dtype=torch.float64), ids)


def counts(buffer: Buffer) -> list[int]:
    return torch.bincount(buffer.samples().y, minlength=2).tolist()


def test_a_free_slot_is_filled_without_an_acceptance_draw() -> None:
    store = Store(3)
    assert store.add([0, 0, 0], [0.1, 0.2, 0.3], accept=0.999) == [0, 1, 2]


def test_the_least_clean_sample_of_the_drawn_class_is_evicted() -> None:
    store = Store(4)
    store.add([0, 0, 0, 1], [0.9, 0.2, 0.5, 0.1])
    assert store.add([1], [0.3]) == [1]  # of class 0, although the sample of class 1 is less clean


def test_a_class_is_drawn_by_softmax_of_its_number_of_samples() -> None:
    y, score = [0, 0, 0, 1, 1, 2], [0.1, 0.2, 0.3, 0.9, 0.8, 0.5]
    fine = 5000
    found = [doubtful(y, score, (k + 0.5) / fine) for k in range(fine)]
    total = math.e**3 + math.e**2 + math.e
    for slot, count in ((2, 3), (3, 2), (5, 1)):  # the highest score of each class
        assert found.count(slot) / fine == pytest.approx(math.e**count / total, abs=1e-3)


def test_the_first_of_equal_scores_is_evicted() -> None:
    assert doubtful([1, 0, 0], [0.5, 0.5, 0.5], 0.0) == 1


@pytest.mark.parametrize(("accept", "is_accepted"), [(4 / 6 - 1e-9, True), (4 / 6 + 1e-9, False)])
def test_the_nth_candidate_of_a_class_is_accepted_with_probability_part_over_n(
    accept: float, is_accepted: bool
) -> None:
    # Capacity 8, two classes: a part of 4. The candidate is the sixth of class 1.
    store = Store(8)
    store.add([0, 0, 0, 1, 1, 1, 1, 1], [0.5] * 8)
    assert (store.add([1], [0.5], accept=accept) != [-1]) == is_accepted


def test_candidates_of_a_class_below_its_part_are_always_accepted() -> None:
    store = Store(4)
    store.add([0] * 50, [0.5] * 50)
    assert store.add([1, 1], [0.5, 0.5], accept=1 - 2**-53) != [-1, -1]
    assert counts(store.buffer) == [2, 2]


def test_parts_shrink_as_classes_arrive() -> None:
    store = Store(8)
    store.add([0] * 8, [0.5] * 8)
    assert store.add([0], [0.5], accept=0.88) == [0]  # 8 / 9
    store.add([1], [0.5])
    assert store.add([0], [0.5], accept=0.41) == [-1]  # 4 / 10
    assert store.add([0], [0.5], accept=0.36) != [-1]  # 4 / 11


def test_the_next_candidate_sees_the_one_before_it() -> None:
    store = Store(2)
    store.add([0, 0], [0.9, 0.8])
    # The first candidate replaces the least clean sample and is then the least clean one itself.
    assert store.add([0, 0], [0.1, 0.7]) == [1, 1]
    assert store.buffer.samples().id.tolist() == [0, 3]


def test_a_sample_that_is_stored_already_is_discarded_but_counted() -> None:
    store = Store(3)
    store.add([0, 0], [0.9, 0.8])
    assert store.put([0], [0.1], torch.zeros(1, 2), [1]) == [-1]
    assert store.score[1].item() == pytest.approx(0.2)
    assert store.offered.tolist() == [3, 0, 0, 0]


def test_an_evicted_sample_can_be_inserted_again() -> None:
    store = Store(1)
    store.add([0], [0.5])
    store.add([0], [0.6])
    assert store.put([0], [0.7], torch.zeros(1, 2), [0]) == [0]


def test_no_candidates_get_no_slots() -> None:
    store, none = Store(3), torch.empty(0, dtype=torch.long)
    candidates = Candidates(none, none, none, torch.empty(0))
    slots = partitioned(store.buffer, store.score, candidates, store.offered, torch.empty(0, 2))
    assert slots.tolist() == []
    assert slots.dtype == torch.long


def test_unbalanced_classes_get_equal_parts() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = rng.permutation([0] * 1000 + [1] * 100).tolist()
        store = Store(100, classes=2)
        store.put(y, rng.random(1100).tolist(), torch.from_numpy(rng.random((1100, 2))), [*range(1100)])
        assert max(counts(store.buffer)) <= 53


def test_stored_samples_are_cleaner_than_the_candidates() -> None:
    rng = np.random.default_rng(0)
    clean = rng.random(2000)
    store = Store(50)
    y = rng.integers(2, size=2000).tolist()
    store.put(y, clean.tolist(), torch.from_numpy(rng.random((2000, 2))), [*range(2000)])
    assert (1 - store.score).mean() > clean.mean() + 0.2


def assert_is_the_reference(seed: int) -> None:
    """Offer 80 candidates at once, and in parts with a restored buffer for each."""
    rng = np.random.default_rng(seed)
    classes, capacity = int(rng.integers(1, 6)), int(rng.integers(1, 15))
    y, ids = rng.integers(classes, size=80).tolist(), rng.integers(60, size=80).tolist()
    clean, uniforms = rng.random(80).round(1).tolist(), torch.from_numpy(rng.random((80, 2)))
    expected = reference.partitioned(y, ids, clean, capacity, uniforms.tolist())
    whole, parts = Store(capacity, classes), Store(capacity, classes)
    assert whole.put(y, clean, uniforms, ids) == expected
    found: list[int] = []
    for some in np.array_split(np.arange(80), int(rng.integers(1, 80))):
        part = slice(some[0], some[-1] + 1)
        found += parts.put(y[part], clean[part], uniforms[part], ids[part])
        saved = copy.deepcopy((parts.buffer.state_dict(), parts.score, parts.offered))
        parts = Store(capacity, classes)
        parts.buffer.load_state_dict(saved[0])
        parts.score, parts.offered = saved[1:]
    assert found == expected
    assert parts.offered.sum() == 80


def test_slots_are_those_of_the_reference_at_once_and_in_parts() -> None:
    for seed in range(10):
        assert_is_the_reference(seed)


@pytest.mark.slow
def test_slots_are_those_of_the_reference_for_many_seeds() -> None:
    for seed in range(10, 200):
        assert_is_the_reference(seed)
