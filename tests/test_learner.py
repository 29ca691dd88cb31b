import copy
import gc
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import get_type_hints

import numpy as np
import pytest
import torch
from conftest import same, tiny_learner, tiny_stream, weights
from torch import Tensor, nn

from remnant.consolidate import Nothing
from remnant.learner import Training
from remnant.methods import (
    AER_ABS,
    DER,
    DER_AER_ABS,
    ER,
    ER_ACE,
    ER_ACE_ALPHA,
    FINETUNE,
    METHODS,
    Method,
)
from remnant.objective import DarkReplay, Objective, Outcome
from remnant.protocol import EpochDone, Event, Learner, StepDone
from remnant.schedule import Always, Phase
from remnant.scoring import Scoring
from remnant.stream import Stream, Task, even_batches


class LeakySource:
    """A source that carries labels."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Tensor) -> Tensor:
        return rows


class Watch:
    """An objective that remembers whether it was given replay."""

    keeps_logits = normed_head = False

    def __init__(self, inner: Objective) -> None:
        self.inner, self.replayed = inner, []

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: object, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        self.replayed.append(draw is not None)
        return self.inner(net, x, y, draw, seen, rng)  # type: ignore[arg-type]

    def row_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        return self.inner.row_loss(logits, y, seen)


def contents(learner: Learner) -> list[int]:
    return learner.memories()["memory"].rows().id.tolist()


def test_weights_after_a_forgetting_epoch_are_those_before_it() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=2)
    start = weights(learner)
    events = learner.learn(stream.tasks[0])
    for event in events:
        if isinstance(event, EpochDone):
            break
    assert not same(weights(learner), start)
    learner.training = replace(learner.training, lr=0.0)
    next(events)  # rolls back, then takes a step at rate 0, which moves BatchNorm's buffers alone
    now = weights(learner)
    parameters = {name for name, _ in learner.net.named_parameters()}
    assert all(torch.equal(now[name], start[name]) for name in parameters)


def test_batchnorm_buffers_are_rolled_back_too() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=2)
    start = weights(learner)
    counted = [name for name in start if name.endswith("num_batches_tracked")]
    events = learner.learn(stream.tasks[0])
    steps = sum(1 for event in events if isinstance(event, StepDone) and event.epoch == 1)
    # Two forwards a step, stream and replay, in the learning epoch; none is left of the forgetting one.
    assert all(int(weights(learner)[name]) == 2 * steps for name in counted)


def test_momentum_is_rolled_back_with_the_weights() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=2, momentum=0.9)
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, EpochDone) and event.epoch == 0:
            assert learner.optimizer.state_dict()["state"]
        if isinstance(event, StepDone) and event.epoch == 1 and event.step == 1:
            buffers = learner.optimizer.state_dict()["state"].values()
            gradients = [p.grad for p in learner.net.parameters()]
            # After a rollback to nothing the first buffer is the gradient itself.
            for buffer, gradient in zip(buffers, gradients, strict=True):
                assert torch.equal(buffer["momentum_buffer"], gradient)


def test_the_memory_changes_in_forgetting_epochs_only() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=6)
    changed, before = {}, []
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, EpochDone):
            changed[event.epoch] = contents(learner) != before
            before = contents(learner)
    assert changed[0]
    assert not any(changed[epoch] for epoch in (1, 3, 5))


def test_nothing_is_replayed_in_forgetting_epochs() -> None:
    stream = tiny_stream()
    watch = Watch(AER_ABS.objective)
    learner = tiny_learner(replace(AER_ABS, objective=watch), stream)
    for task in stream.tasks:
        for event in learner.learn(task):
            if isinstance(event, StepDone):
                assert watch.replayed[-1] == (event.phase is Phase.LEARN)


def test_learning_epochs_replay_from_the_first_step_on() -> None:
    stream = tiny_stream()
    watch = Watch(ER.objective)
    learner = tiny_learner(replace(ER, objective=watch), stream)
    for _ in learner.learn(stream.tasks[0]):
        pass
    assert watch.replayed[0] is False  # nothing is stored yet
    assert all(watch.replayed[1:])


def test_finetuning_keeps_nothing() -> None:
    stream = tiny_stream()
    learner = tiny_learner(FINETUNE, stream)
    for _ in learner.learn(stream.tasks[0]):
        pass
    assert contents(learner) == []


def test_the_last_epoch_of_a_task_is_not_undone() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=5)
    last = {}
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, EpochDone):
            last = weights(learner)
    assert same(weights(learner), last)


def test_the_reservoir_counts_candidates_and_not_rows_of_the_stream() -> None:
    stream = tiny_stream()
    learner = tiny_learner(ER_ACE_ALPHA, stream, epochs=1)
    expected = 0
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone):
            expected += round(0.25 * event.images)
    assert learner.memory.candidates == expected


def test_what_is_stored_had_the_lowest_losses_of_its_batch() -> None:
    stream = tiny_stream()
    learner = tiny_learner(ER_ACE_ALPHA, stream, epochs=1, capacity=1000)
    task = stream.tasks[0]
    seen: set[int] = set()
    frozen = copy.deepcopy(learner.net)
    order = torch.randperm(len(task), generator=copy.deepcopy(learner.rng).order)
    batches = iter(even_batches(order, 8))
    for event in learner.learn(task):
        if not isinstance(event, StepDone):
            continue
        batch = task.take(next(batches))
        frozen.eval()
        with torch.no_grad():
            logits = frozen(learner.view.plain(batch.x))
        loss = learner.method.objective.row_loss(logits, batch.y, learner.seen)
        lowest = set(batch.id[loss.argsort()[: round(0.25 * len(batch))]].tolist())
        assert set(contents(learner)) - seen == lowest
        seen |= lowest
        frozen = copy.deepcopy(learner.net)


def test_scores_and_candidates_never_move_batchnorm() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=2, capacity=4)
    tracked = "body.1.num_batches_tracked"
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and event.epoch == 0:
            assert int(learner.net.state_dict()[tracked]) == event.step


def test_aer_off_reservoir_and_alpha_zero_is_er_ace_bit_for_bit() -> None:
    stream = tiny_stream()
    reduced = replace(AER_ABS, schedule=Always(), insertion=type(AER_ABS.insertion)(alpha=0.0))
    reduced = replace(reduced, replacement=ER_ACE.replacement)
    a, b = tiny_learner(reduced, stream), tiny_learner(ER_ACE, stream)
    for task in stream.tasks:
        for _ in zip(a.learn(task), b.learn(task), strict=True):
            pass
    assert contents(a) == contents(b)
    assert same(weights(a), weights(b))


def test_dark_replay_without_weights_is_finetuning_bit_for_bit() -> None:
    stream = tiny_stream()
    a = tiny_learner(replace(DER, objective=DarkReplay(0.0, 0.0)), stream)
    b = tiny_learner(FINETUNE, stream)
    for task in stream.tasks[:2]:
        for _ in zip(a.learn(task), b.learn(task), strict=True):
            pass
    assert same(weights(a), weights(b))


def test_logits_stored_while_forgetting_come_from_the_restored_network() -> None:
    stream = tiny_stream()
    learner = tiny_learner(DER_AER_ABS, stream, epochs=2)
    learner.training = replace(learner.training, lr=0.05)
    start = copy.deepcopy(learner.net)
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, EpochDone) and event.epoch == 0:
            assert learner.memory.logits[: len(learner.memory)].isnan().all()
        if isinstance(event, StepDone) and event.epoch == 1 and event.step == 1:
            start.eval()
            with torch.no_grad():
                expected = start(learner.view.plain(learner.memory.rows().x))
            assert torch.allclose(learner.memory.logits[: len(learner.memory)], expected, atol=1e-6)


def test_plain_dark_replay_keeps_the_logits_of_the_step() -> None:
    stream = tiny_stream()
    learner = tiny_learner(DER, stream, epochs=1, capacity=1000)
    for _ in learner.learn(stream.tasks[0]):
        pass
    assert not learner.memory.logits[: len(learner.memory)].isnan().any()


def advance(events: Iterator[Event], steps: int) -> None:
    for event in events:
        steps -= isinstance(event, StepDone)
        if not steps:
            return


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_cut_at_any_step_and_continued(name: str) -> None:
    stream, method = tiny_stream(), METHODS[name]
    if not isinstance(method.consolidation, Nothing):  # they are cut at every step in test_fit
        short = {"epochs": 2} | ({"warmup": 1} if hasattr(method.consolidation, "warmup") else {})
        method = replace(method, consolidation=replace(method.consolidation, **short))
    whole, cut = tiny_learner(method, stream, epochs=3), tiny_learner(method, stream, epochs=3)
    for task in stream.tasks[:2]:
        advance(whole.learn(task), 10**6)
        for steps in (1, 2, 5, 3, 10**6):
            advance(cut.learn(task), steps)
            state = copy.deepcopy(cut.state_dict())
            cut = tiny_learner(method, stream, epochs=3)
            cut.load_state_dict(state)
    assert same(weights(whole), weights(cut))
    assert same(whole.rng.state_dict(), cut.rng.state_dict())
    for mine, other in zip(whole.memories().values(), cut.memories().values(), strict=True):
        assert torch.equal(mine.id, other.id)
        assert torch.equal(mine.measured, other.measured)


@pytest.mark.parametrize(
    ("rows", "sizes"), [(67, [23, 22, 22]), (64, [32, 32]), (33, [17, 16]), (2, [2])]
)
def test_batches_of_an_epoch_are_of_one_size(rows: int, sizes: list[int]) -> None:
    assert [len(batch) for batch in even_batches(torch.arange(rows), 32)] == sizes


def test_the_rate_falls_to_a_tenth_after_the_given_shares() -> None:
    training = Training(epochs=50, batch=32, lr=0.03, lr_drops=(0.7, 0.9))
    rates = [training.rate(epoch) for epoch in (0, 34, 35, 44, 45, 49)]
    assert rates == pytest.approx([0.03, 0.03, 0.003, 0.003, 0.0003, 0.0003])


def test_lazy_scores_cost_fewer_forwards_than_literal_ones() -> None:
    def forwards(scoring: Scoring) -> int:
        stream, count = tiny_stream(), 0
        learner = tiny_learner(replace(AER_ABS, scoring=scoring), stream, epochs=4, capacity=8)
        measure = learner._measure

        def counting(slots: Tensor) -> Tensor:
            nonlocal count
            count += len(slots)
            return measure(slots)

        learner._measure = counting  # type: ignore[method-assign]
        for task in stream.tasks:
            for _ in learner.learn(task):
                pass
        return count

    assert forwards(Scoring(8)) < forwards(Scoring(1))


def test_predictions_do_not_depend_on_how_rows_are_grouped() -> None:
    stream = tiny_stream()
    learner = tiny_learner(ER, stream)
    x = stream.tasks[0].source.take(stream.tasks[0].id)
    apart = torch.cat([learner.predict(row) for row in x.split(5)])
    assert torch.allclose(learner.predict(x), apart, atol=1e-5)


def labels_reachable_from(root: object, depth: int = 6) -> list[list[int]]:
    """The values of all tensors and arrays of one dimension that an object leads to."""
    found, known, layer = [], {id(root)}, [root]
    for _ in range(depth):
        layer = [o for o in gc.get_referents(*layer) if id(o) not in known and not isinstance(o, type)]
        known |= {id(o) for o in layer}
        found += [o.tolist() for o in layer if isinstance(o, Tensor | np.ndarray) and o.ndim == 1]
    return found


def test_the_truth_cannot_be_reached_from_a_task() -> None:
    stream = tiny_stream(noise=0.5)
    for task in stream.tasks:
        hidden = [stream.truth.tolist(), stream.truth[task.id].tolist()]
        hidden += [test.y.tolist() for test in stream.tests]
        reached = labels_reachable_from(task)
        assert task.y.tolist() in reached  # the search does find what is there
        assert not [labels for labels in hidden if labels in reached]


def test_the_search_would_find_truth_that_a_source_carried() -> None:
    stream = tiny_stream(noise=0.5)
    leaky = replace(stream.tasks[0], source=LeakySource(stream.truth.clone().numpy()))
    assert stream.truth.tolist() in labels_reachable_from(leaky)


def test_no_type_of_a_task_has_room_for_truth_or_tests() -> None:
    assert {field.name for field in fields(Task)} == {"number", "classes", "id", "y", "source"}
    assert get_type_hints(Learner.learn)["task"] is Task
    assert "truth" in {field.name for field in fields(Stream)}


@pytest.mark.parametrize("method", [AER_ABS, ER, DER_AER_ABS])
def test_training_with_poisoned_truth_gives_the_same_weights(method: Method) -> None:
    honest, poisoned = tiny_stream(), tiny_stream()
    poisoned.truth.fill_(0)
    for test in poisoned.tests:
        test.y.fill_(5)
    learners = [tiny_learner(method, stream) for stream in (honest, poisoned)]
    for learner, stream in zip(learners, (honest, poisoned), strict=True):
        for task in stream.tasks:
            for _ in learner.learn(task):
                pass
    assert same(weights(learners[0]), weights(learners[1]))
    assert contents(learners[0]) == contents(learners[1])
