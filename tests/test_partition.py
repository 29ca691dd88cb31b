import copy
import math

import numpy as np
import pytest
import reference_spr as reference
import torch
from torch import Tensor

from remnant.memory import Memory
from remnant.replacement import Candidates
from remnant.spr.partition import doubtful, partitioned
from remnant.stream import Batch


class Store:
    """A memory with its counts, fed by hand."""

    def __init__(self, capacity: int, classes: int = 4) -> None:
        self.memory = Memory(capacity, (1,))
        self.offered = torch.zeros(classes, dtype=torch.long)
        self.next = 0

    def put(self, y: list[int], clean: list[float], uniforms: Tensor, ids: list[int]) -> list[int]:
        rows, loss = torch.arange(len(y)), 1 - torch.tensor(clean, dtype=torch.float64)
        id = torch.tensor(ids)
        candidates = Candidates(rows, torch.tensor(y), id, loss)
        slots = partitioned(self.memory, candidates, self.offered, uniforms)
        batch = Batch(torch.zeros(len(y), 1, dtype=torch.uint8), torch.tensor(y), id)
        self.memory.put(slots, batch, 0, loss, torch.empty(len(y), 0))
        return slots.tolist()

    def add(
        self, y: list[int], clean: list[float], accept: float = 0.0, group: float = 0.0
    ) -> list[int]:
        ids = [*range(self.next, self.next + len(y))]
        self.next += len(y)
        return self.put(y, clean, torch.tensor([[accept, group]] * len(y), dtype=torch.float64), ids)


def counts(memory: Memory) -> list[int]:
    return torch.bincount(memory.rows().y, minlength=2).tolist()


def test_a_free_slot_takes_any_row_whatever_the_coin() -> None:
    store = Store(3)
    assert store.add([0, 0, 0], [0.1, 0.2, 0.3], accept=0.999) == [0, 1, 2]


def test_the_least_clean_row_of_the_class_leaves() -> None:
    store = Store(4)
    store.add([0, 0, 0, 1], [0.9, 0.2, 0.5, 0.1])
    assert store.add([1], [0.3]) == [1]  # of class 0, though the row of class 1 is less clean


def test_classes_leave_in_proportion_to_the_exponential_of_their_rows() -> None:
    y, loss = [0, 0, 0, 1, 1, 2], [0.1, 0.2, 0.3, 0.9, 0.8, 0.5]
    fine = 5000
    found = [doubtful(y, loss, (k + 0.5) / fine) for k in range(fine)]
    total = math.e**3 + math.e**2 + math.e
    for slot, count in ((2, 3), (3, 2), (5, 1)):  # the highest loss of each class
        assert found.count(slot) / fine == pytest.approx(math.e**count / total, abs=1e-3)


def test_equal_doubts_let_the_first_row_leave() -> None:
    assert doubtful([1, 0, 0], [0.5, 0.5, 0.5], 0.0) == 1


@pytest.mark.parametrize(("accept", "enters"), [(4 / 6 - 1e-9, True), (4 / 6 + 1e-9, False)])
def test_the_nth_row_of_a_class_is_accepted_with_its_part_over_n(accept: float, enters: bool) -> None:
    # Capacity 8, two classes: a part of 4. The candidate is the sixth of class 1.
    store = Store(8)
    store.add([0, 0, 0, 1, 1, 1, 1, 1], [0.5] * 8)
    assert (store.add([1], [0.5], accept=accept) != [-1]) == enters


def test_a_class_with_less_than_its_part_always_enters() -> None:
    store = Store(4)
    store.add([0] * 50, [0.5] * 50)
    assert store.add([1, 1], [0.5, 0.5], accept=1 - 2**-53) != [-1, -1]
    assert counts(store.memory) == [2, 2]


def test_parts_shrink_as_classes_arrive() -> None:
    store = Store(8)
    store.add([0] * 8, [0.5] * 8)
    assert store.add([0], [0.5], accept=0.88) == [0]  # 8 / 9
    store.add([1], [0.5])
    assert store.add([0], [0.5], accept=0.41) == [-1]  # 4 / 10
    assert store.add([0], [0.5], accept=0.36) != [-1]  # 4 / 11


def test_the_candidate_before_is_seen_by_the_next() -> None:
    store = Store(2)
    store.add([0, 0], [0.9, 0.8])
    # The first one takes the place of the least clean, and is then the least clean itself.
    assert store.add([0, 0], [0.1, 0.7]) == [1, 1]
    assert store.memory.rows().id.tolist() == [0, 3]


def test_a_row_that_is_stored_stays_and_is_counted() -> None:
    store = Store(3)
    store.add([0, 0], [0.9, 0.8])
    assert store.put([0], [0.1], torch.zeros(1, 2), [1]) == [-1]
    assert store.memory.loss[1].item() == pytest.approx(0.2)
    assert store.offered.tolist() == [3, 0, 0, 0]


def test_an_evicted_row_may_come_back() -> None:
    store = Store(1)
    store.add([0], [0.5])
    store.add([0], [0.6])
    assert store.put([0], [0.7], torch.zeros(1, 2), [0]) == [0]


def test_nobody_offered_is_nobody_placed() -> None:
    store = Store(3)
    none = torch.empty(0, dtype=torch.long)
    slots = partitioned(
        store.memory, Candidates(none, none, none, torch.empty(0)), store.offered, torch.empty(0, 2)
    )
    assert slots.tolist() == []
    assert slots.dtype == torch.long


@pytest.mark.parametrize("seed", range(10))
def test_classes_of_ten_to_one_end_half_and_half(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.permutation([0] * 1000 + [1] * 100).tolist()
    store = Store(100, classes=2)
    uniforms = torch.from_numpy(rng.random((1100, 2)))
    store.put(y, rng.random(1100).tolist(), uniforms, [*range(1100)])
    assert max(counts(store.memory)) <= 53


def test_what_stays_is_cleaner_than_what_was_offered() -> None:
    rng = np.random.default_rng(0)
    clean = rng.random(2000)
    store = Store(50)
    y = rng.integers(2, size=2000).tolist()
    store.put(y, clean.tolist(), torch.from_numpy(rng.random((2000, 2))), [*range(2000)])
    assert (1 - store.memory.loss).mean() > clean.mean() + 0.2


@pytest.mark.parametrize("seed", range(40))
def test_the_reservoir_is_its_twin_at_once_and_in_parts(seed: int) -> None:
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
        saved = copy.deepcopy((parts.memory.state_dict(), parts.offered))
        parts = Store(capacity, classes)
        parts.memory.load_state_dict(saved[0])
        parts.offered.copy_(saved[1])
    assert found == expected
    assert parts.memory.candidates == 80
    assert parts.offered.sum() == 80
