import copy
import gc
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import get_type_hints

import numpy as np
import pytest
import torch
from conftest import same, tiny_learner, tiny_stream, weights
from torch import Tensor, nn

from remnant.buffer.scoring import Scores, Scoring
from remnant.methods.epoch_schedule import Always, Phase
from remnant.methods.loop import even_batches
from remnant.methods.objective import DarkReplay, Objective, Outcome
from remnant.methods.protocol import EpochDone, Event, StepDone, TaskLearner
from remnant.methods.registry import (
    AER_ABS,
    DER,
    DER_AER_ABS,
    ER,
    ER_ACE,
    ER_ACE_ALPHA,
    FINETUNE,
    METHODS,
)
from remnant.methods.replay import Replay, ReplayLearner
from remnant.stream import Stream, Task


class LeakySource:
    """A source that also holds labels."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Tensor) -> Tensor:
        return index


class Watch:
    """An objective that records whether samples of the buffer can be drawn."""

    keeps_logits = normed_head = False

    def __init__(self, inner: Objective) -> None:
        self.inner, self.replayed = inner, []

    def __call__(
        self, net: nn.Module, x: Tensor, y: Tensor, draw: object, seen: Tensor, rng: torch.Generator
    ) -> Outcome:
        self.replayed.append(draw is not None)
        return self.inner(net, x, y, draw, seen, rng)  # type: ignore[arg-type]

    def sample_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        return self.inner.sample_loss(logits, y, seen)


def contents(learner: ReplayLearner) -> list[int]:
    return learner.buffer.samples().id.tolist()


def test_each_line_of_algorithm_1_is_tagged_once_and_in_order() -> None:
    lines = re.findall(r"# (\d+)$", inspect.getsource(ReplayLearner.learn), flags=re.MULTILINE)
    assert [int(line) for line in lines] == list(range(1, 13))


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
    next(events)  # rolls back, then takes a step with learning rate 0: only BatchNorm's statistics change
    now = weights(learner)
    parameters = {name for name, _ in learner.net.named_parameters()}
    assert all(torch.equal(now[name], start[name]) for name in parameters)


def test_the_statistics_of_batchnorm_are_rolled_back_too() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=2)
    start = weights(learner)
    counted = [name for name in start if name.endswith("num_batches_tracked")]
    events = learner.learn(stream.tasks[0])
    steps = sum(1 for event in events if isinstance(event, StepDone) and event.epoch == 1)
    # Two forwards per step, stream and replay, in the learning epoch; those of the forgetting one are gone.
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
            # After a rollback to no momentum, the first momentum is the gradient itself.
            for buffer, gradient in zip(buffers, gradients, strict=True):
                assert torch.equal(buffer["momentum_buffer"], gradient)


def test_the_buffer_changes_in_forgetting_epochs_only() -> None:
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


def test_replay_starts_with_the_second_step_of_a_run() -> None:
    stream = tiny_stream()
    watch = Watch(ER.objective)
    learner = tiny_learner(replace(ER, objective=watch), stream)
    for _ in learner.learn(stream.tasks[0]):
        pass
    assert watch.replayed[0] is False  # the buffer is still empty
    assert all(watch.replayed[1:])


def test_finetuning_has_no_buffer() -> None:
    stream = tiny_stream()
    learner = tiny_learner(FINETUNE, stream)
    for _ in learner.learn(stream.tasks[0]):
        pass
    assert contents(learner) == []
    assert learner.buffers() == {}


def test_the_last_epoch_of_a_task_is_not_rolled_back() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=5)
    last = {}
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, EpochDone):
            last = weights(learner)
    assert same(weights(learner), last)


def test_the_reservoir_counts_candidates_and_not_samples_of_the_stream() -> None:
    stream = tiny_stream()
    learner = tiny_learner(ER_ACE_ALPHA, stream, epochs=1)
    expected = 0
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone):
            expected += round(0.25 * event.samples)
    assert learner.selection.policy["candidates"] == expected


def test_stored_samples_had_the_lowest_losses_of_their_batch() -> None:
    stream = tiny_stream()
    learner = tiny_learner(ER_ACE_ALPHA, stream, epochs=1, buffer_size=1000)
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
            logits = frozen(learner.transform.plain(batch.x))
        loss = learner.method.objective.sample_loss(logits, batch.y, learner.seen)
        lowest = set(batch.id[loss.argsort()[: round(0.25 * len(batch))]].tolist())
        assert set(contents(learner)) - seen == lowest
        seen |= lowest
        frozen = copy.deepcopy(learner.net)


def test_measuring_losses_does_not_change_the_statistics_of_batchnorm() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=2, buffer_size=4)
    tracked = "body.1.num_batches_tracked"
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and event.epoch == 0:
            assert int(learner.net.state_dict()[tracked]) == event.step


def test_aer_abs_with_its_parts_switched_off_is_er_ace_bit_for_bit() -> None:
    stream = tiny_stream()
    reduced = replace(AER_ABS, schedule=Always(), insertion=type(AER_ABS.insertion)(alpha=0.0))
    reduced = replace(reduced, replacement=ER_ACE.replacement)
    a, b = tiny_learner(reduced, stream), tiny_learner(ER_ACE, stream)
    for task in stream.tasks:
        for _ in zip(a.learn(task), b.learn(task), strict=True):
            pass
    assert contents(a) == contents(b)
    assert same(weights(a), weights(b))


def test_dark_replay_with_weights_zero_is_finetuning_bit_for_bit() -> None:
    stream = tiny_stream()
    a = tiny_learner(replace(DER, objective=DarkReplay(0.0, 0.0)), stream)
    b = tiny_learner(FINETUNE, stream)
    for task in stream.tasks[:2]:
        for _ in zip(a.learn(task), b.learn(task), strict=True):
            pass
    assert same(weights(a), weights(b))


def test_logits_of_samples_stored_while_forgetting_come_from_the_restored_network() -> None:
    stream = tiny_stream()
    learner = tiny_learner(DER_AER_ABS, stream, epochs=2)
    learner.training = replace(learner.training, lr=0.05)
    start = copy.deepcopy(learner.net)
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, EpochDone) and event.epoch == 0:
            assert learner.buffer.logits[: len(learner.buffer)].isnan().all()
        if isinstance(event, StepDone) and event.epoch == 1 and event.step == 1:
            start.eval()
            with torch.no_grad():
                expected = start(learner.transform.plain(learner.buffer.samples().x))
            assert torch.allclose(learner.buffer.logits[: len(learner.buffer)], expected, atol=1e-6)


def test_logits_of_the_current_task_are_replaced_in_every_learning_epoch_and_then_kept() -> None:
    stream = tiny_stream()
    learner = tiny_learner(DER_AER_ABS, stream, epochs=6, buffer_size=1000)
    first: dict[int, Tensor] = {}  # logits at the first step of each learning epoch
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and event.step == 1 and Phase.REPLAY in event.phase:
            first[event.epoch] = learner.buffer.logits.clone()
    assert list(first) == [1, 3, 5]
    both = ~first[1].isnan().any(1)
    assert both.sum() > 1
    assert not torch.isclose(first[1][both], first[3][both]).all(1).any()
    for _ in learner.learn(stream.tasks[1]):
        pass
    is_past = learner.buffer.task == 0
    assert is_past.any()
    assert learner.buffer.logits[is_past].equal(first[5][is_past])


def test_plain_dark_replay_stores_the_logits_of_the_step() -> None:
    stream = tiny_stream()
    learner = tiny_learner(DER, stream, epochs=1, buffer_size=1000)
    for _ in learner.learn(stream.tasks[0]):
        pass
    assert not learner.buffer.logits[: len(learner.buffer)].isnan().any()


def advance(events: Iterator[Event], steps: int) -> None:
    for event in events:
        steps -= isinstance(event, StepDone)
        if not steps:
            return


def test_the_learning_rate_is_divided_by_ten_after_the_given_fractions_of_the_epochs() -> None:
    stream, rates = tiny_stream(), {}
    training = {"epochs": 10, "lr": 0.03, "lr_drops": (0.7, 0.9)}
    learner = tiny_learner(AER_ABS, stream, **training)
    for task in stream.tasks[:2]:
        for event in learner.learn(task):
            rates[event.task, event.epoch] = learner.optimizer.param_groups[0]["lr"]
    expected = [0.03] * 7 + [0.003] * 2 + [0.0003]
    assert list(rates.values()) == pytest.approx(2 * expected)


REPLAY = {name: method for name, method in METHODS.items() if isinstance(method, Replay)}


@pytest.mark.parametrize("name", REPLAY)
def test_every_replay_method_can_be_interrupted_at_any_step_and_resumed(name: str) -> None:
    stream, method = tiny_stream(), REPLAY[name]
    if method.consolidation.epochs:  # these are interrupted at every step in consolidation/test_loop.py
        short = {"epochs": 2} | ({"warmup": 1} if hasattr(method.consolidation, "warmup") else {})
        method = replace(method, consolidation=replace(method.consolidation, **short))
    whole, resumed = (tiny_learner(method, stream, epochs=3) for _ in range(2))
    for task in stream.tasks[:2]:
        advance(whole.learn(task), 10**6)
        for steps in (1, 2, 5, 3, 10**6):
            advance(resumed.learn(task), steps)
            state = copy.deepcopy(resumed.state_dict())
            resumed = tiny_learner(method, stream, epochs=3)
            resumed.load_state_dict(state)
    assert same(weights(whole), weights(resumed))
    assert same(whole.rng.state_dict(), resumed.rng.state_dict())
    assert whole.selection.policy == resumed.selection.policy
    assert torch.equal(whole.buffer.id, resumed.buffer.id)
    assert torch.equal(whole.selection.scores.measured, resumed.selection.scores.measured)
    assert whole.selection.scores.clock == resumed.selection.scores.clock


def test_reusing_losses_costs_fewer_forwards_than_measuring_them_for_every_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of, count = Scores.of, 0

    def counting(self: Scores, slots: Tensor, limit: int, measure: object) -> Tensor:
        def counted(old: Tensor) -> Tensor:
            nonlocal count
            count += len(old)
            return measure(old)  # type: ignore[operator, no-any-return]

        return of(self, slots, limit, counted)

    monkeypatch.setattr(Scores, "of", counting)

    def forwards(scoring: Scoring) -> int:
        nonlocal count
        count, stream = 0, tiny_stream()
        learner = tiny_learner(replace(AER_ABS, scoring=scoring), stream, epochs=4, buffer_size=8)
        for task in stream.tasks:
            advance(learner.learn(task), 10**6)
        return count

    assert 0 < forwards(Scoring(8)) < forwards(Scoring(1))


def test_predictions_do_not_depend_on_the_batch() -> None:
    stream = tiny_stream()
    learner = tiny_learner(ER, stream)
    x = stream.tasks[0].source.take(stream.tasks[0].id)
    apart = torch.cat([learner.predict(part) for part in x.split(5)])
    assert torch.allclose(learner.predict(x), apart, atol=1e-5)


def labels_reachable_from(root: object, depth: int = 6) -> list[list[int]]:
    """The values of all one-dimensional tensors and arrays that an object refers to, directly or not."""
    found, known, layer = [], {id(root)}, [root]
    for _ in range(depth):
        layer = [o for o in gc.get_referents(*layer) if id(o) not in known and not isinstance(o, type)]
        known |= {id(o) for o in layer}
        found += [o.tolist() for o in layer if isinstance(o, Tensor | np.ndarray) and o.ndim == 1]
    return found


def test_true_labels_cannot_be_reached_from_a_task() -> None:
    stream = tiny_stream(noise=0.5)
    for task in stream.tasks:
        hidden = [stream.truth.tolist(), stream.truth[task.id].tolist()]
        hidden += [test.y.tolist() for test in stream.tests]
        reached = labels_reachable_from(task)
        assert task.y.tolist() in reached  # the search finds labels that are there
        assert not [labels for labels in hidden if labels in reached]


def test_the_search_finds_true_labels_in_a_source_that_holds_them() -> None:
    stream = tiny_stream(noise=0.5)
    leaky = replace(stream.tasks[0], source=LeakySource(stream.truth.clone().numpy()))
    assert stream.truth.tolist() in labels_reachable_from(leaky)


def test_a_task_has_no_field_for_true_labels_or_test_samples() -> None:
    assert {field.name for field in fields(Task)} == {"number", "classes", "id", "y", "source", "device"}
    assert get_type_hints(TaskLearner.learn)["task"] is Task
    assert "truth" in {field.name for field in fields(Stream)}


@pytest.mark.parametrize("method", [AER_ABS, ER, DER_AER_ABS])
def test_training_does_not_depend_on_true_labels(method: Replay) -> None:
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


@pytest.mark.parametrize(("samples", "is_consolidated"), [(1, False), (2, True)])
def test_a_buffer_of_two_samples_is_consolidated(samples: int, is_consolidated: bool) -> None:
    method, stream = METHODS["er+fit"], tiny_stream()
    assert isinstance(method, Replay)
    short = replace(method, consolidation=replace(method.consolidation, epochs=1))
    learner = tiny_learner(short, stream, epochs=1, buffer_size=samples)
    list(learner.learn(stream.tasks[0]))
    assert learner.is_consolidated == is_consolidated


def test_the_trajectory_counts_the_epochs_that_train() -> None:
    stream = tiny_stream()
    learner = tiny_learner(AER_ABS, stream, epochs=4)
    list(learner.learn(stream.tasks[0]))
    statistics = learner.statistics(stream.tasks[0])
    assert statistics is not None
    assert learner.trajectory.epochs.tolist() == [2, 2]  # learning and forgetting
