import copy
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, strategies as st

from remnant.methods.epoch_schedule import Phase
from remnant.methods.loop import Loop, even_batches
from remnant.methods.protocol import StepDone

Step = tuple[int | str, ...]  # kind of step, place, samples


class Trainer:
    """A learner that records its steps; every second outer step runs an inner loop before it ends."""

    def __init__(self, samples: int = 5, size: int = 2, epochs: int = 3, *, is_nested: bool = False) -> None:
        self.samples, self.size, self.total, self.is_nested = samples, size, epochs, is_nested
        self.outer, self.inner = Loop(), Loop()
        self.rng = torch.Generator().manual_seed(7)
        self.visits = 0  # of the inner loop

    def learn(self, task: int) -> Iterator[Step]:
        for epoch in self.outer.epochs(task, self.total):
            for batch in self.outer.batches(self.samples, self.size, self.rng):
                if self.is_nested and self.outer.step % 2:
                    yield from self.practise(task)
                event = self.outer.step_done(task, Phase.LEARN, torch.tensor(0.5), len(batch))
                assert event.epoch == epoch
                yield ("outer", task, epoch, event.step, event.steps, *batch.tolist())

    def practise(self, task: int) -> Iterator[Step]:
        for epoch in self.inner.epochs(self.visits, 2):
            for batch in self.inner.batches(3, 2, self.rng):
                event = self.inner.step_done(task, Phase.CONSOLIDATE, None, len(batch))
                yield ("inner", self.visits, epoch, event.step, event.steps, *batch.tolist())
        self.visits += 1

    def resumed(self) -> "Trainer":
        """A new trainer that continues from a copy of this one's state."""
        other = Trainer(self.samples, self.size, self.total, is_nested=self.is_nested)
        other.outer.load_state_dict(copy.deepcopy(self.outer.state_dict()))
        other.inner.load_state_dict(copy.deepcopy(self.inner.state_dict()))
        other.rng.set_state(self.rng.get_state())
        other.visits = self.visits
        return other


def whole(trainer: Trainer, tasks: int = 2) -> list[Step]:
    return [step for task in range(tasks) for step in trainer.learn(task)]


def interrupted(trainer: Trainer, every: int, tasks: int = 2) -> list[Step]:
    """The steps of a run that is stopped after `every` steps, saved and resumed, again and again."""
    found: list[Step] = []
    for task in range(tasks):
        is_finished = False
        while not is_finished:
            steps = trainer.learn(task)
            some = [step for _, step in zip(range(every), steps, strict=False)]
            found, is_finished = found + some, len(some) < every
            trainer = trainer.resumed()
    return found


def test_the_events_of_two_epochs_over_five_samples_in_batches_of_two() -> None:
    steps = whole(Trainer(epochs=2), tasks=1)
    assert [step[:5] for step in steps] == [
        ("outer", 0, 0, 1, 3), ("outer", 0, 0, 2, 3), ("outer", 0, 0, 3, 3),
        ("outer", 0, 1, 1, 3), ("outer", 0, 1, 2, 3), ("outer", 0, 1, 3, 3),
    ]  # fmt: skip
    assert [len(step) - 5 for step in steps] == [2, 2, 1, 2, 2, 1]
    for epoch in range(2):
        samples = [i for step in steps[3 * epoch : 3 * epoch + 3] for i in step[5:]]
        assert sorted(samples) == [0, 1, 2, 3, 4]


def test_each_epoch_draws_one_permutation() -> None:
    steps, rng = whole(Trainer(epochs=3), tasks=1), torch.Generator().manual_seed(7)
    for epoch in range(3):
        expected = torch.randperm(5, generator=rng).tolist()
        assert [i for step in steps[3 * epoch : 3 * epoch + 3] for i in step[5:]] == expected


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_loop_that_is_resumed_after_any_step_takes_the_same_steps(every: int, is_nested: bool) -> None:
    expected = whole(Trainer(is_nested=is_nested))
    assert interrupted(Trainer(is_nested=is_nested), every) == expected
    # Two tasks of three epochs: three steps each, and two epochs of two inner steps in the second one.
    assert len(expected) == 2 * 3 * (3 + is_nested * 2 * 2)


@given(
    samples=st.integers(1, 9), size=st.integers(1, 4), epochs=st.integers(0, 3), every=st.integers(1, 7),
    is_nested=st.booleans(),
)  # fmt: skip
def test_resuming_never_changes_the_steps(
    samples: int, size: int, epochs: int, every: int, is_nested: bool
) -> None:
    expected = whole(Trainer(samples, size, epochs, is_nested=is_nested))
    assert interrupted(Trainer(samples, size, epochs, is_nested=is_nested), every) == expected


def test_an_inner_loop_that_is_interrupted_continues_within_the_outer_step() -> None:
    trainer = Trainer(is_nested=True)
    steps = trainer.learn(0)
    first, second, third = (next(steps) for _ in range(3))
    assert [first[:4], second[:4], third[:4]] == [
        ("outer", 0, 0, 1), ("inner", 0, 0, 1), ("inner", 0, 0, 2)
    ]  # fmt: skip
    following = trainer.resumed().learn(0)
    assert [next(following)[:4] for _ in range(3)] == [
        ("inner", 0, 1, 1), ("inner", 0, 1, 2), ("outer", 0, 0, 2)
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", [{"epoch": -1, "step": 2}, {"epoch": 2, "step": -1}, {"key": 0.5}])
def test_a_damaged_position_is_refused(wrong: dict[str, float]) -> None:
    loop = Loop()
    with pytest.raises(ValueError, match="expected a position in a loop"):
        Loop().load_state_dict(loop.state_dict() | wrong)


def test_what_follows_the_last_step_of_an_epoch_is_repeated_after_resuming() -> None:
    loop, rng, ends = Loop(), torch.Generator().manual_seed(0), list[int]()

    def learn() -> Iterator[StepDone]:
        for epoch in loop.epochs(0, 2):
            for batch in loop.batches(4, 2, rng):
                yield loop.step_done(0, Phase.TRAIN, torch.tensor(1.0), len(batch))
            ends.append(epoch)

    steps = learn()
    assert [next(steps).step for _ in range(2)] == [1, 2]
    assert ends == []  # saved here, the epoch has not ended
    assert [(event.epoch, event.step) for event in learn()] == [(1, 1), (1, 2)]
    assert ends == [0, 1]


def test_a_finished_key_has_no_steps_left_and_a_new_key_restarts() -> None:
    trainer = Trainer(epochs=1)
    assert len(list(trainer.learn(0))) == 3
    assert list(trainer.learn(0)) == []
    assert len(list(trainer.learn(1))) == 3


def test_start_tells_whether_the_key_is_new() -> None:
    loop = Loop()
    assert loop.start("warm-up")
    assert not loop.start("warm-up")
    assert loop.start("")
    assert loop.start("warm-up")


def test_a_new_key_in_the_middle_of_an_epoch_restarts_with_a_new_order() -> None:
    loop, rng = Loop(), torch.Generator().manual_seed(0)
    loop.start(0)
    loop.epoch = 3
    first = loop.shuffled(6, rng)
    loop.step_done(0, Phase.TRAIN, None, 2)
    assert (loop.epoch, loop.step, loop.starts_epoch) == (3, 1, False)
    assert torch.equal(loop.shuffled(6, rng), first)  # drawn once in an epoch
    loop.start(1)
    assert (loop.epoch, loop.step, loop.starts_epoch) == (0, 0, True)
    assert not torch.equal(loop.shuffled(6, rng), first)


def test_a_body_without_step_done_is_an_error() -> None:
    loop = Loop()
    loop.start(0)
    with pytest.raises(RuntimeError, match=r"expected each step of a loop to end with step_done\(\)"):
        list(loop.each([1, 2]))


def test_an_epoch_that_is_skipped_has_no_steps() -> None:
    loop, rng, found = Loop(), torch.Generator().manual_seed(0), list[tuple[int, int]]()
    for epoch in loop.epochs(0, 3):
        if epoch == 1:
            continue
        for batch in loop.batches(4, 4, rng):
            event = loop.step_done(0, Phase.TRAIN, None, len(batch))
            found.append((event.epoch, event.step))
    assert found == [(0, 1), (2, 1)]


def test_details_of_an_event_replace_those_of_the_loop() -> None:
    loop = Loop()
    loop.start(0)
    for _ in loop.each(range(1)):
        event = loop.step_done(
            4, Phase.CONSOLIDATE, torch.tensor(0.25), 8, epoch=6, planned=1.5, kind="expert"
        )
    expected = StepDone(4, 6, 1, 1, Phase.CONSOLIDATE, 0.25, 8, planned=1.5, kind="expert")
    assert event == expected


def test_a_saved_position_does_not_change_when_training_continues() -> None:
    trainer = Trainer()
    steps = trainer.learn(0)
    next(steps)
    state = trainer.outer.state_dict()
    before = copy.deepcopy(state)
    list(steps)
    assert state["order"].tolist() == before["order"].tolist()
    assert {k: v for k, v in state.items() if k != "order"} == {
        "key": 0, "epoch": 0, "step": 1, "steps": 3
    }  # fmt: skip


@pytest.mark.parametrize(("samples", "sizes"), [(67, [23, 22, 22]), (64, [32, 32]), (33, [17, 16]), (2, [2])])
def test_batches_of_an_epoch_have_almost_the_same_size(samples: int, sizes: list[int]) -> None:
    assert [len(batch) for batch in even_batches(torch.arange(samples), 32)] == sizes


@given(samples=st.integers(1, 300), size=st.integers(1, 40))
def test_even_batches_are_as_few_and_as_equal_as_possible(samples: int, size: int) -> None:
    order = torch.arange(samples).flip(0)
    batches = even_batches(order, size)
    lengths = [len(batch) for batch in batches]
    assert torch.equal(torch.cat(batches), order)
    assert len(batches) == -(-samples // size)
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1
