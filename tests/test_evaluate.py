import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from conftest import tiny_stream
from torch import Tensor

from remnant import evaluate
from remnant.memory import Memory
from remnant.protocol import Division, Event
from remnant.stream import Stream, Task


class Oracle:
    """Predicts the class that the brightness of a tiny image tells, plus an offset."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def predict(self, x: Tensor) -> Tensor:
        label = (x.double().mean((1, 2, 3)) / 30).long()
        return torch.nn.functional.one_hot((label + self.offset) % 6, 6).double()

    def learn(self, task: Task) -> Iterator[Event]:
        yield from ()

    def memories(self) -> dict[str, Memory]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def stored(stream: Stream, rows: list[int], tasks: list[int]) -> Memory:
    memory = Memory(len(rows), stream.spec.shape)
    id = torch.tensor(rows)
    for slot, (i, task) in enumerate(zip(rows, tasks, strict=True)):
        one = torch.tensor([i])
        from remnant.stream import Batch

        batch = Batch(stream.tasks[0].source.take(one), stream.observed[one], one)
        loss = torch.zeros(1, dtype=torch.float64)
        memory.put(torch.tensor([slot]), batch, task, loss, torch.zeros(1, 0))
    assert len(memory) == len(id)
    return memory


def test_a_perfect_learner_has_100_percent_everywhere() -> None:
    found = evaluate.accuracy(Oracle(), tiny_stream(noise=0.5).tests)
    assert found.class_incremental == [100, 100, 100]
    assert found.task_incremental == [100, 100, 100]
    assert found.per_class == dict.fromkeys(range(6), 100)


def test_a_learner_that_is_one_class_off_is_always_wrong() -> None:
    found = evaluate.accuracy(Oracle(offset=1), tiny_stream().tests)
    assert found.class_incremental == [0, 0, 0]


def test_within_a_task_only_its_own_classes_compete() -> None:
    # Two classes off: the logits of the task's own classes are equal, and the first of them wins.
    found = evaluate.accuracy(Oracle(offset=2), tiny_stream().tests)
    assert found.class_incremental == [0, 0, 0]
    assert found.task_incremental == pytest.approx([50, 50, 50])


def test_a_memory_is_reported_against_the_truth() -> None:
    stream = tiny_stream(noise=0.5)
    clean = torch.nonzero(stream.truth == stream.observed).flatten()[:6].tolist()
    wrong = torch.nonzero(stream.truth != stream.observed).flatten()[:2].tolist()
    report = evaluate.memory_report(stored(stream, clean + wrong, [0] * 6 + [1] * 2), stream, task=2)
    assert report["size"] == 8
    assert report["wrong"] == 2
    assert report["purity"] == 75
    assert report["purity_per_task"] == {"0": 100, "1": 0}
    assert report["duplicates"] == 0


def test_an_empty_memory_has_no_purity() -> None:
    report = evaluate.memory_report(Memory(4, (1, 6, 6)), tiny_stream(), task=1)
    assert report["size"] == 0
    assert report["purity"] is None
    assert report["balance"] is None


def test_balance_is_over_the_classes_seen_so_far() -> None:
    stream = tiny_stream(noise=0.0)
    memory = stored(stream, [0, 1, 12, 13], [0] * 4)  # two rows of each of the first two classes
    assert evaluate.memory_report(memory, stream, task=0)["balance"] == pytest.approx(1)
    later = evaluate.memory_report(memory, stream, task=2)["balance"]
    assert later == pytest.approx(math.log(2) / math.log(6))


def test_a_division_is_reported_against_the_truth() -> None:
    stream = tiny_stream(noise=0.5)
    right = torch.nonzero(stream.truth == stream.observed).flatten()[:6].tolist()
    wrong = torch.nonzero(stream.truth != stream.observed).flatten()[:3].tolist()
    memory = stored(stream, right + wrong, [0] * 9)
    # Trusted: four of the six right ones, and one of the three wrong ones; 1/2 is not trusted.
    first = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.1, 0.9, 0.2, 0.0])
    division = Division(torch.stack([first, torch.ones(9)]), ("", "losses too equal"))
    report, plain = evaluate.division_report(division, memory, stream)
    assert report == {
        "trusted": 5,
        "precision": pytest.approx(80),
        "recall": pytest.approx(100 * 4 / 6),
        "noisy_precision": pytest.approx(50),
        "noisy_recall": pytest.approx(100 * 2 / 3),
    }
    assert plain == {"plain": "losses too equal"}


def test_separation_is_perfect_for_a_learner_that_knows_the_truth() -> None:
    stream = tiny_stream(noise=0.5)
    memory = stored(stream, list(range(20)), [0] * 20)
    assert evaluate.separation(Oracle(), memory, stream, task=1) == 1


def test_separation_looks_at_past_tasks_only() -> None:
    stream = tiny_stream(noise=0.5)
    memory = stored(stream, list(range(20)), [1] * 20)
    assert evaluate.separation(Oracle(), memory, stream, task=1) is None
