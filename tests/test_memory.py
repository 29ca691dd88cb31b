import pytest
import torch

from remnant.memory import Memory
from remnant.stream import Batch


def rows(ids: list[int]) -> Batch:
    id = torch.tensor(ids)
    return Batch(id[:, None].to(torch.uint8), id % 10, id)


def put(memory: Memory, slots: list[int], ids: list[int], task: int = 0) -> None:
    loss = torch.arange(len(ids), dtype=torch.float64)
    logits = torch.arange(len(ids) * 2.0).view(-1, 2)
    memory.put(torch.tensor(slots), rows(ids), task, loss, logits)


def test_a_row_is_stored_with_all_that_belongs_to_it() -> None:
    memory = Memory(4, (1,), logits=2)
    put(memory, [0, 1], [31, 42], task=3)
    assert memory.x[:2].flatten().tolist() == [31, 42]
    assert memory.y[:2].tolist() == [1, 2]
    assert memory.id[:2].tolist() == [31, 42]
    assert memory.task[:2].tolist() == [3, 3]
    assert memory.logits[:2].tolist() == [[0, 1], [2, 3]]
    assert len(memory) == 2


def test_minus_one_stays_out() -> None:
    memory = Memory(4, (1,))
    put(memory, [-1, 0, -1], [1, 2, 3])
    assert memory.rows().id.tolist() == [2]


def test_a_slot_named_twice_keeps_the_later_row() -> None:
    memory = Memory(2, (1,))
    put(memory, [0, 0], [5, 6])
    assert memory.rows().id.tolist() == [6]


def test_storing_nothing_changes_nothing() -> None:
    memory = Memory(2, (1,))
    put(memory, [-1], [5])
    assert len(memory) == 0


def test_a_draw_has_no_row_twice_and_at_most_all() -> None:
    memory = Memory(6, (1,))
    put(memory, [0, 1, 2, 3], [1, 2, 3, 4])
    drawn = memory.draw(32, torch.Generator().manual_seed(0))
    assert sorted(drawn.x.flatten().tolist()) == [1, 2, 3, 4]


def test_draws_are_uniform() -> None:
    memory, rng = Memory(5, (1,)), torch.Generator().manual_seed(0)
    put(memory, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    counts = torch.zeros(5)
    for _ in range(2000):
        counts[memory.draw(2, rng).x.flatten().long()] += 1
    assert counts.tolist() == pytest.approx([800] * 5, abs=100)


def test_the_stored_image_does_not_follow_the_tensor_it_came_from() -> None:
    memory, batch = Memory(1, (1,)), rows([9])
    memory.put(torch.tensor([0]), batch, 0, torch.zeros(1).double(), torch.zeros(1, 0))
    batch.x[0] = 77
    assert memory.x[0].item() == 9


def test_a_saved_memory_goes_on_with_the_same_rows_and_counts() -> None:
    memory = Memory(3, (1,))
    put(memory, [0, 1], [1, 2])
    memory.candidates, memory.clock = 17, 4
    other = Memory(3, (1,))
    other.load_state_dict(memory.state_dict())
    assert other.rows().id.tolist() == [1, 2]
    assert (other.candidates, other.clock, len(other)) == (17, 4, 2)


def test_rows_taken_out_leave_no_gap() -> None:
    memory = Memory(5, (1,), logits=2)
    put(memory, [0, 1, 2, 3], [11, 12, 13, 14], task=1)
    memory.drop(torch.tensor([12, 14, 99]))
    assert memory.rows().id.tolist() == [11, 13]
    assert memory.x[:2].flatten().tolist() == [11, 13]
    assert memory.logits[:2].tolist() == [[0, 1], [4, 5]]
    put(memory, [2], [15])
    assert memory.rows().id.tolist() == [11, 13, 15]


def test_a_memory_that_grows_holds_the_same_rows() -> None:
    memory = Memory(2, (1,), logits=2)
    put(memory, [0, 1], [11, 12])
    memory.candidates = 7
    memory.make_room(0)
    assert memory.capacity == 2
    memory.make_room(1)
    assert (memory.capacity, len(memory), memory.candidates) == (4, 2, 7)
    put(memory, [2], [13])
    assert memory.rows().id.tolist() == [11, 12, 13]
    memory.make_room(9)
    assert memory.capacity >= 12


def test_what_is_not_known_of_a_row_is_nan() -> None:
    memory = Memory(2, (1,), logits=2)
    memory.put(torch.tensor([0]), rows([5]), 0)
    assert memory.loss[0].isnan()
    assert memory.logits[0].isnan().all()
