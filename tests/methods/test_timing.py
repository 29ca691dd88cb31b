from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from conftest import tiny_net, tiny_setup, tiny_stream

from remnant.buffer.buffer import Buffer
from remnant.methods import timing
from remnant.methods.epoch_schedule import Phase, phases
from remnant.methods.protocol import Algorithm, EpochDone, Event, Setup, StepDone, TaskLearner
from remnant.methods.registry import METHODS
from remnant.methods.replay import Replay
from remnant.methods.timing import Only, fill, first_steps, seconds_by_work, time_full_delay
from remnant.rng import Generators
from remnant.stream import Task


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def steps(self, kind: str, *seconds: float) -> Iterator[Event]:
        """Yield a step after each of these durations."""
        for step, spent in enumerate(seconds, 1):
            self.now += spent
            yield StepDone(0, 0, step, len(seconds), Phase.CONSOLIDATE, 0.5, 8, kind=kind)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: made.now))
    return made


def test_a_schedule_of_one_phase() -> None:
    assert phases(Only(Phase.FORGET), 3) == [Phase.FORGET] * 3


@pytest.mark.parametrize("capacity", [5, 100])
def test_a_filled_buffer_holds_samples_of_the_task_under_ids_that_never_occur(capacity: int) -> None:
    stream = tiny_stream()
    task, buffer = stream.tasks[0], Buffer(capacity, stream.spec.shape, logits=6)
    fill(buffer, task, classes=6)
    assert len(buffer) == capacity
    assert len(buffer.id.unique()) == capacity
    assert not torch.isin(buffer.id, stream.tasks[0].id).any()  # so that every candidate is a new sample
    assert torch.equal(buffer.y, task.y[torch.arange(capacity) % len(task)])
    assert torch.equal(buffer.x, task.source.take(task.id[torch.arange(capacity) % len(task)]))
    assert buffer.logits.isfinite().all()


def test_the_first_steps_of_an_epoch_are_timed_and_its_steps_are_counted(clock: Clock) -> None:
    assert first_steps(clock.steps("learn", 1, 2, 4, 8, 16), steps=3) == ([1, 2, 4], 5)
    assert first_steps(clock.steps("learn", 1, 2)) == ([1, 2], 2)


def test_timing_stops_at_the_end_of_an_epoch(clock: Clock) -> None:
    def events() -> Iterator[Event]:
        yield from clock.steps("learn", 1, 2)
        yield EpochDone(0, 0, Phase.LEARN)
        raise AssertionError("the next epoch should not be started")

    assert first_steps(events()) == ([1, 2], 2)


def test_the_seconds_of_a_kind_of_work_are_those_of_its_steps_without_the_first(clock: Clock) -> None:
    def events() -> Iterator[Event]:
        yield from clock.steps("write", 100, 1, 2, 3)
        clock.now += 50  # spent before the end of the epoch, not in a step
        yield EpochDone(0, 0, Phase.WRITE)
        yield from clock.steps("expert", 7)

    assert seconds_by_work(events()) == {"write": [1, 2, 3], "expert": [7]}


@pytest.mark.parametrize(("delay", "samples", "epochs"), [(3, 3, 1), (24, 24, 1), (30, 24, 2), (49, 24, 3)])
def test_a_delay_buffer_is_filled_once(clock: Clock, delay: int, samples: int, epochs: int) -> None:
    stream = tiny_stream(noise=0.0)
    task, tasks, setups = stream.tasks[1], list[Task](), list[Setup]()
    assert len(task) == 24

    class Fake:
        def learn(self, task: Task) -> Iterator[Event]:
            tasks.append(task)
            return clock.steps("write", 5)

    def build(method: Algorithm, setup: Setup) -> TaskLearner:
        assert method is METHODS["spr"]
        setups.append(setup)
        return Fake()  # type: ignore[return-value]

    setup = tiny_setup(stream, epochs=4)
    assert time_full_delay(METHODS["spr"], delay, setup, build, task) == {"write": [5]}
    assert [t.id.tolist() for t in tasks] == [task.id[:samples].tolist()]
    assert [t.y.tolist() for t in tasks] == [task.y[:samples].tolist()]
    assert setups == [replace(setup, training=replace(setup.training, epochs=epochs))]


@pytest.mark.parametrize("name", ["aer-abs", "er", "finetune", "der++", "er+dividemix", "gdumb", "puridiver"])
def test_a_replay_method_times_every_kind_of_work_of_its_plan(name: str) -> None:
    stream, method, built = tiny_stream(), METHODS[name], []

    def build(made: Algorithm, setup: Setup) -> TaskLearner:
        built.append(made)
        return made.build(setup, tiny_net(stream), Generators.from_seed(0), 0.3)

    setup = tiny_setup(stream, buffer_size=30)  # more than the 24 or so samples of the task
    seconds = method.time_steps(setup, build, stream.tasks[0])
    assert seconds.keys() == method.plan(setup, [len(stream.tasks[0])]).works.keys()
    assert all(min(spent) > 0 for spent in seconds.values())
    assert all(isinstance(made, Replay) for made in built)
