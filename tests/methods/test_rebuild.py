"""Rebuilding the buffer at the end of a task: who is trusted, quotas, and what stays."""

from dataclasses import replace

import pytest
import torch
from conftest import same, tiny_learner, tiny_stream
from torch import Tensor

from remnant.buffer import Buffer
from remnant.methods.consolidation import BufferFit
from remnant.methods.protocol import StepDone
from remnant.methods.rebuild import Trusted, equal_quotas
from remnant.methods.registry import DER_AER_ABS, METHODS, TRACE
from remnant.stream import Stream, Task


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def margins(task: Task, good: Tensor) -> Tensor:
    """Margins near 3 for good samples, near -3 for the others."""
    return torch.where(good, 3.0, -3.0) + torch.linspace(-0.5, 0.5, len(task))


def stored(buffer: Buffer) -> tuple[list[int], list[int]]:
    labels = buffer.samples().y
    return buffer.task[: len(buffer)].tolist(), torch.bincount(labels, minlength=6).tolist()


def rebuilt(stream: Stream, tasks: int, capacity: int = 12) -> Buffer:
    """A buffer that was rebuilt after this many tasks, in which the first samples are trusted."""
    buffer = Buffer(capacity, stream.spec.shape)
    for task in stream.tasks[:tasks]:
        good = torch.arange(len(task)) < len(task) * 2 // 3
        Trusted()(buffer, task, margins(task, good), generator())
    return buffer


def test_all_classes_have_equally_many_slots_after_each_task() -> None:
    stream = tiny_stream()
    assert stored(rebuilt(stream, 1))[1] == [6, 6, 0, 0, 0, 0]
    assert stored(rebuilt(stream, 2))[1] == [3, 3, 3, 3, 0, 0]
    assert stored(rebuilt(stream, 3))[1] == [2, 2, 2, 2, 2, 2]


def test_only_trusted_samples_are_stored_and_old_ones_remain() -> None:
    stream = tiny_stream()
    first, second = rebuilt(stream, 1), rebuilt(stream, 2)
    old = second.id[:12][second.task[:12] == 0].tolist()
    assert set(old) < set(first.id.tolist())
    task = stream.tasks[1]
    position = {int(id): i for i, id in enumerate(task.id)}
    new = second.id[:12][second.task[:12] == 1].tolist()
    assert all(position[id] < len(task) * 2 // 3 for id in new)


def test_the_highest_margins_are_trusted_if_training_disagrees_with_many_labels() -> None:
    margin = torch.cat([torch.linspace(-4, -2, 40), torch.linspace(2, 4, 60)])
    assert Trusted().is_trusted(margin, 10).nonzero().flatten().tolist() == list(range(75, 100))
    assert Trusted(share=0.5).is_trusted(margin, 10).sum() == 50
    assert Trusted().is_trusted(margin, 30).sum() == 30  # as many as there are slots
    assert Trusted().is_trusted(torch.tensor([-4.0, -3.9, 2.0]), 1).tolist() == [False, False, True]


def test_all_labels_are_trusted_if_some_are_merely_harder() -> None:
    assert Trusted().is_trusted(torch.linspace(1, 9, 100), 10).all()
    assert Trusted().is_trusted(torch.ones(5), 10).all()


def test_samples_stored_during_the_task_are_replaced() -> None:
    stream = tiny_stream()
    task, buffer = stream.tasks[0], Buffer(4, stream.spec.shape)
    bad = torch.arange(4)
    buffer.put(torch.arange(4), task.take(bad), task.number)
    good = torch.arange(len(task)) >= len(task) // 3
    Trusted()(buffer, task, margins(task, good), generator())
    assert not set(buffer.id.tolist()) & set(task.id[bad].tolist())


def test_a_class_that_returns_shares_its_slots_between_its_tasks() -> None:
    stream = tiny_stream()
    task, buffer = stream.tasks[0], Buffer(6, stream.spec.shape)
    for number, new in enumerate([6, 4, 2]):  # old samples keep 1/2, then 2/3 of three slots, rounded down
        part = torch.arange(number, len(task), 3)
        again = replace(task, number=number, id=task.id[part], y=task.y[part])
        Trusted()(buffer, again, torch.ones(len(part)), generator(number))
        assert len(buffer) == 6
        assert (buffer.task == number).sum() == new


def test_more_classes_than_slots_leave_some_without() -> None:
    assert equal_quotas(2, torch.arange(5)) == {0: 1, 1: 1, 2: 0, 3: 0, 4: 0}
    assert len(rebuilt(tiny_stream(), 3, capacity=4)) == 4


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="expected share"):
        Trusted(share)


def test_trace_writes_the_buffer_at_the_end_of_a_task_only() -> None:
    stream = tiny_stream()
    learner = tiny_learner(TRACE, stream, epochs=2)
    sizes = [len(learner.buffer) for event in learner.learn(stream.tasks[0]) if isinstance(event, StepDone)]
    assert set(sizes) == {0}
    assert len(learner.buffer) == learner.buffer.capacity


@pytest.mark.parametrize(
    "method",
    [METHODS["trace"], replace(DER_AER_ABS, rebuild=Trusted(), consolidation=BufferFit())],
    ids=["trace", "der++-aer-abs"],
)
def test_a_task_that_is_resumed_after_the_rebuild_is_not_rebuilt_again(method) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    stream = tiny_stream()
    method = replace(method, consolidation=replace(method.consolidation, epochs=2))
    whole, cut = (tiny_learner(method, stream, epochs=2) for _ in range(2))
    for task in stream.tasks:
        list(whole.learn(task))
    for task in stream.tasks:
        while True:  # a new learner after every step
            other = tiny_learner(method, stream, epochs=2)
            other.load_state_dict(cut.state_dict())
            cut, events = other, other.learn(task)
            if not any(isinstance(event, StepDone) for event in events):
                break
    assert cut.buffer.id.tolist() == whole.buffer.id.tolist()
    assert same(dict(cut.network().state_dict()), dict(whole.network().state_dict()))
