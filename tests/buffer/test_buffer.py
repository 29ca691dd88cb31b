import copy

import pytest
import torch

from remnant.buffer.buffer import Buffer, written
from remnant.stream import Batch


def samples(ids: list[int]) -> Batch:
    id = torch.tensor(ids)
    return Batch(id[:, None].to(torch.uint8), id % 10, id)


def put(buffer: Buffer, slots: list[int], ids: list[int], task: int = 0) -> None:
    logits = torch.arange(len(ids) * 2.0).view(-1, 2)
    buffer.put(torch.tensor(slots), samples(ids), task, logits)


def test_a_sample_is_stored_with_its_label_id_task_and_logits() -> None:
    buffer = Buffer(4, (1,), logits=2)
    put(buffer, [0, 1], [31, 42], task=3)
    assert buffer.x[:2].flatten().tolist() == [31, 42]
    assert buffer.y[:2].tolist() == [1, 2]
    assert buffer.id[:2].tolist() == [31, 42]
    assert buffer.task[:2].tolist() == [3, 3]
    assert buffer.logits[:2].tolist() == [[0, 1], [2, 3]]
    assert len(buffer) == 2


def test_slot_minus_one_discards_a_sample() -> None:
    buffer = Buffer(4, (1,))
    put(buffer, [-1, 0, -1], [1, 2, 3])
    assert buffer.samples().id.tolist() == [2]


def test_a_slot_that_occurs_twice_keeps_the_last_sample() -> None:
    buffer = Buffer(2, (1,))
    put(buffer, [0, 0], [5, 6])
    assert buffer.samples().id.tolist() == [6]


def test_discarding_all_samples_changes_nothing() -> None:
    buffer = Buffer(2, (1,))
    put(buffer, [-1], [5])
    assert len(buffer) == 0
    assert [part.tolist() for part in written(torch.tensor([-1, -1]))] == [[], []]


def test_a_draw_has_no_duplicates_and_at_most_all_samples() -> None:
    buffer = Buffer(6, (1,))
    put(buffer, [0, 1, 2, 3], [1, 2, 3, 4])
    drawn = buffer.draw(32, torch.Generator().manual_seed(0))
    assert sorted(drawn.x.flatten().tolist()) == [1, 2, 3, 4]
    assert drawn.logits.shape == (4, 0)


def test_draws_are_uniform() -> None:
    buffer, rng = Buffer(5, (1,)), torch.Generator().manual_seed(0)
    put(buffer, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    counts = torch.zeros(5)
    for _ in range(2000):
        counts[buffer.draw(2, rng).x.flatten().long()] += 1
    assert counts.tolist() == pytest.approx([800] * 5, abs=100)


def test_a_stored_sample_is_a_copy() -> None:
    buffer, batch = Buffer(1, (1,)), samples([9])
    buffer.put(torch.tensor([0]), batch, 0)
    batch.x[0] = 77
    assert buffer.x[0].item() == 9


def test_a_restored_buffer_holds_the_same_samples() -> None:
    buffer = Buffer(3, (1,), logits=2)
    put(buffer, [0, 1], [1, 2], task=4)
    other = Buffer(3, (1,), logits=2)
    other.load_state_dict(copy.deepcopy(buffer.state_dict()))
    assert other.samples().id.tolist() == [1, 2]
    assert (len(other), other.capacity) == (2, 3)
    for name, value in buffer.state_dict().items():
        assert torch.equal(
            torch.as_tensor(getattr(other, name)).nan_to_num(), torch.as_tensor(value).nan_to_num()
        )


def test_removing_samples_leaves_no_gap() -> None:
    buffer = Buffer(5, (1,), logits=2)
    put(buffer, [0, 1, 2, 3], [11, 12, 13, 14], task=1)
    buffer.remove(torch.tensor([12, 14, 99]))
    assert buffer.samples().id.tolist() == [11, 13]
    assert buffer.x[:2].flatten().tolist() == [11, 13]
    assert buffer.logits[:2].tolist() == [[0, 1], [4, 5]]
    put(buffer, [2], [15])
    assert buffer.samples().id.tolist() == [11, 13, 15]


def test_a_buffer_that_grows_keeps_its_samples() -> None:
    buffer = Buffer(2, (1,), logits=2)
    put(buffer, [0, 1], [11, 12])
    buffer.reserve(0)
    assert buffer.capacity == 2
    buffer.reserve(1)
    assert (buffer.capacity, len(buffer)) == (4, 2)
    put(buffer, [2], [13])
    assert buffer.samples().id.tolist() == [11, 12, 13]
    buffer.reserve(9)
    assert buffer.capacity >= 12


def test_logits_that_are_not_given_are_nan() -> None:
    buffer = Buffer(2, (1,), logits=2)
    put(buffer, [0], [4])
    buffer.put(torch.tensor([0]), samples([5]), 0)
    assert buffer.logits[0].isnan().all()


def test_changes_are_counted_and_are_not_part_of_the_state() -> None:
    buffer = Buffer(3, (1,))
    buffer.put(
        torch.tensor([0, 1]), Batch(torch.zeros(2, 1).byte(), torch.tensor([0, 1]), torch.tensor([5, 6])), 0
    )
    buffer.put(
        torch.tensor([-1, -1]), Batch(torch.zeros(2, 1).byte(), torch.tensor([0, 1]), torch.tensor([7, 8])), 0
    )
    assert buffer.changes == 1
    buffer.remove(torch.tensor([5]))
    assert buffer.changes == 2
    assert "changes" not in buffer.state_dict()
    restored = Buffer(3, (1,))
    restored.load_state_dict(buffer.state_dict())
    assert restored.changes > 0
