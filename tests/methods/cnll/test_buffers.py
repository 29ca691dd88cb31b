from typing import Any

import pytest
import torch

from remnant.buffer.buffer import Buffer
from remnant.methods.cnll.buffers import insert, joined
from remnant.stream import Batch


def samples(*ids: int) -> Batch:
    id = torch.tensor(ids, dtype=torch.long)
    return Batch(id[:, None].to(torch.uint8), id % 3, id)


def test_samples_are_appended_while_slots_are_free() -> None:
    buffer, state, rng = Buffer(5, (1,)), dict[str, Any](), torch.Generator().manual_seed(0)
    insert(buffer, state, samples(7, 4), 0, rng)
    insert(buffer, state, samples(9), 1, rng)
    assert buffer.samples().id.tolist() == [7, 4, 9]
    assert buffer.samples().y.tolist() == [1, 1, 0]
    assert buffer.samples().x.flatten().tolist() == [7, 4, 9]
    assert buffer.task[:3].tolist() == [0, 0, 1]


def test_a_sample_is_never_stored_twice() -> None:
    buffer, state, rng = Buffer(5, (1,)), dict[str, Any](), torch.Generator().manual_seed(0)
    insert(buffer, state, samples(7, 4), 0, rng)
    insert(buffer, state, samples(4, 7, 1), 0, rng)
    assert sorted(buffer.samples().id.tolist()) == [1, 4, 7]


def test_no_sample_and_a_full_buffer_are_allowed() -> None:
    buffer, state, rng = Buffer(2, (1,)), dict[str, Any](), torch.Generator().manual_seed(0)
    insert(buffer, state, samples(), 0, rng)
    assert len(buffer) == 0
    insert(buffer, state, samples(*range(50)), 0, rng)
    assert len(buffer) == 2
    assert len(set(buffer.samples().id.tolist())) == 2


@pytest.mark.slow
def test_a_full_buffer_holds_each_sample_of_the_past_with_equal_probability() -> None:
    rng, runs = torch.Generator().manual_seed(0), 2000
    counts = torch.zeros(10)
    for _ in range(runs):
        buffer, state = Buffer(4, (1,)), dict[str, Any]()
        for part in torch.arange(10).split(3):
            insert(buffer, state, samples(*part.tolist()), 0, rng)
        counts[buffer.id] += 1
    expected = runs * 4 / 10
    deviation = (runs * 0.4 * 0.6) ** 0.5
    assert (counts - expected).abs().max() < 4.5 * deviation


def test_insertion_draws_three_numbers_per_sample_even_if_slots_are_free() -> None:
    rng, other = (torch.Generator().manual_seed(0) for _ in range(2))
    insert(Buffer(5, (1,)), {}, samples(1, 2), 0, rng)
    torch.rand(2, 3, generator=other, dtype=torch.float64)
    assert torch.equal(rng.get_state(), other.get_state())


def test_joined_batches_keep_their_order() -> None:
    both = joined(samples(5, 2), samples(8))
    assert both.id.tolist() == [5, 2, 8]
    assert both.y.tolist() == [2, 2, 2]
    assert both.x.flatten().tolist() == [5, 2, 8]
    assert len(joined(samples(), samples(1))) == 1
