import torch
from torch import Tensor

from remnant.memory import NEVER, Memory
from remnant.scoring import Scoring
from remnant.stream import Batch


def full_memory(capacity: int = 64) -> Memory:
    memory = Memory(capacity, (1,))
    rows = Batch(
        torch.zeros(capacity, 1, dtype=torch.uint8), torch.zeros(capacity).long(), torch.arange(capacity)
    )
    unknown = torch.full((capacity,), torch.nan, dtype=torch.float64)
    memory.put(torch.arange(capacity), rows, 0, unknown, torch.zeros(capacity, 0))
    return memory


class Meter:
    """Measures a loss of 1, 2, 3 ... and counts."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, slots: Tensor) -> Tensor:
        self.calls.append(slots.tolist())
        return torch.full((len(slots),), float(len(self.calls)), dtype=torch.float64)


def test_a_loss_is_measured_once_and_then_reused() -> None:
    memory, meter, scoring = full_memory(), Meter(), Scoring(3)
    for clock in (1, 2, 3):
        memory.clock = clock
        assert scoring.losses(memory, torch.tensor([4, 5]), meter).tolist() == [1.0, 1.0]
    memory.clock = 4
    assert scoring.losses(memory, torch.tensor([4, 5]), meter).tolist() == [2.0, 2.0]


def test_refreshing_every_step_measures_at_every_step() -> None:
    memory, meter = full_memory(), Meter()
    for clock in (1, 2, 3):
        memory.clock = clock
        Scoring(1).losses(memory, torch.tensor([0]), meter)
    assert len(meter.calls) == 3


def test_only_the_rows_that_are_too_old_are_measured() -> None:
    memory, meter, scoring = full_memory(), Meter(), Scoring(2)
    memory.clock = 1
    scoring.losses(memory, torch.tensor([0, 1]), meter)
    memory.clock = 2
    scoring.losses(memory, torch.tensor([0, 1, 2]), meter)
    assert meter.calls == [[0, 1], [2]]


def test_by_default_a_loss_lives_for_capacity_over_32_steps() -> None:
    memory, meter = full_memory(64), Meter()
    for clock in range(8):
        memory.clock = clock
        Scoring().losses(memory, torch.arange(64), meter)
    assert len(meter.calls) == 4


def test_an_expired_loss_is_measured_again_in_the_same_step() -> None:
    memory, meter = full_memory(), Meter()
    Scoring(100).losses(memory, torch.tensor([3]), meter)
    memory.expire()
    Scoring(100).losses(memory, torch.tensor([3]), meter)
    assert len(meter.calls) == 2


def test_the_loss_of_a_row_just_stored_is_as_good_as_measured() -> None:
    memory, meter = full_memory(), Meter()
    memory.clock = 7
    row = Batch(torch.zeros(1, 1, dtype=torch.uint8), torch.zeros(1).long(), torch.tensor([500]))
    memory.put(torch.tensor([9]), row, 1, torch.tensor([0.25], dtype=torch.float64), torch.zeros(1, 0))
    assert Scoring(1).losses(memory, torch.tensor([9]), meter).tolist() == [0.25]
    assert meter.calls == []


def test_a_row_stored_without_a_loss_has_never_been_measured() -> None:
    assert (full_memory().measured == NEVER).all()
