"""Consolidations inside a learner: what is trained, what goes on, what is saved."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import same, tiny_config, tiny_learner, tiny_stream, weights
from torch import Tensor, nn

from remnant.consolidate import BufferFit, Consolidation, CoTeaching, DivideMix, MixMatch, PuriDivER
from remnant.consolidate.choice import Bench
from remnant.consolidate.fit import sgdr
from remnant.experiment import make_the_learner, make_the_stream
from remnant.learner import ReplayLearner
from remnant.methods import AER_ABS, DER, ER, GDUMB, METHODS, Method
from remnant.protocol import Division, EpochDone, Event, StepDone
from remnant.schedule import Alternate, Phase
from remnant.sgd import momentum_of
from remnant.stream import Stream

SHORT: dict[str, Consolidation] = {
    "buffer-fit": BufferFit(epochs=3, batch=4, momentum=0.9),
    "cutmix": BufferFit(epochs=3, batch=4, cutmix=0.7, clip=1.0),
    "from scratch": BufferFit(epochs=3, batch=4, from_scratch=True),
    "mixmatch": MixMatch(epochs=3, batch=4),
    "coteaching": CoTeaching(epochs=3, batch=4, cutmix=0.5, momentum=0.9),
    "coteaching from scratch": CoTeaching(epochs=3, batch=4, from_scratch=True),
    "dividemix": DivideMix(epochs=4, batch=4, warmup=1, ramp=2, momentum=0.9),
    "puridiver": PuriDivER(epochs=4, batch=4, warmup=1),
    "dividemix from scratch": DivideMix(epochs=4, batch=4, warmup=2, from_scratch=True),
}


def with_fit(how: Consolidation, method: Method = ER) -> Method:
    return replace(method, consolidation=how)


def finish(events: Iterator[Event]) -> list[Event]:
    return list(events)


def consolidating(events: list[Event]) -> list[StepDone]:
    return [e for e in events if isinstance(e, StepDone) and Phase.CONSOLIDATE in e.phase]


def learned(method: Method, stream: Stream, **changes: Any) -> ReplayLearner:  # noqa: ANN401
    learner = tiny_learner(method, stream, epochs=2, **changes)
    for task in stream.tasks:
        finish(learner.learn(task))
    return learner


def nets_of(learner: ReplayLearner) -> dict[str, Tensor]:
    assert learner.fit is not None
    nets = enumerate([learner.net, *learner.fit.own.values()])
    return {f"{i}.{key}": v.clone() for i, net in nets for key, v in net.state_dict().items()}


@pytest.mark.parametrize("name", SHORT)
def test_a_consolidation_can_be_cut_at_every_step_and_continued(name: str) -> None:
    stream, method = tiny_stream(), with_fit(SHORT[name], AER_ABS)
    whole = learned(method, stream)
    cut = tiny_learner(method, stream, epochs=2)
    saved = 0
    for task in stream.tasks:
        done = False
        while not done:
            done = True
            for event in cut.learn(task):
                if isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase:
                    saved, done = saved + 1, False
                    break
            state = copy.deepcopy(cut.state_dict())
            cut = tiny_learner(method, stream, epochs=2)
            cut.load_state_dict(state)
    assert saved > 20
    assert same(nets_of(whole), nets_of(cut))
    assert same(whole.rng.state_dict(), cut.rng.state_dict())
    x = stream.tests[0].source.take(stream.tests[0].id)
    assert torch.equal(whole.predict(x), cut.predict(x))


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("base", ["er", "er-ace", "der++-aer-abs", "gdumb"])
def test_any_method_can_take_any_consolidation(name: str, base: str) -> None:
    stream = tiny_stream()
    learner = learned(with_fit(SHORT[name], METHODS[base]), stream)
    assert learner.fit is not None
    assert (learner.fit.task, learner.fit.epoch) == (2, SHORT[name].epochs)
    assert all(value.isfinite().all() for value in nets_of(learner).values())


def test_training_goes_on_from_the_consolidated_weights() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["mixmatch"]), stream, epochs=2, lr=0.0)
    finish(learner.learn(stream.tasks[0]))
    after = {name: p.clone() for name, p in learner.net.named_parameters()}
    for event in learner.learn(stream.tasks[1]):  # at rate 0 the stream changes no parameter
        if isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase:
            break
        now = dict(learner.net.named_parameters())
        assert all(torch.equal(now[name], after[name]) for name in after)


@pytest.mark.parametrize("name", ["buffer-fit", "mixmatch", "coteaching"])
def test_forgetting_after_a_consolidation_is_undone_to_its_weights(name: str) -> None:
    at_start: list[dict[str, Tensor]] = []  # of each epoch

    def alternate(epoch: int, epochs: int) -> Phase:
        at_start.append(weights(learner))
        return Alternate()(epoch, epochs)

    stream = tiny_stream()
    method = replace(with_fit(SHORT[name], AER_ABS), schedule=alternate)
    learner = tiny_learner(method, stream, epochs=4, momentum=0.9)
    moments = {}
    for task in stream.tasks[:2]:
        for event in learner.learn(task):
            moments[event.task, event.epoch, event.phase] = weights(learner)
    consolidated = moments[0, SHORT[name].epochs - 1, Phase.CONSOLIDATE]
    assert not same(consolidated, moments[0, 3, Phase.LEARN])
    forgotten = moments[1, 0, Phase.FORGET]
    assert not any(
        torch.equal(forgotten[key], value) for key, value in consolidated.items() if value.numel() > 1
    )
    before, after = at_start[4:6]  # the first forgetting epoch of the second task
    assert same(before, consolidated)
    assert same(after, consolidated)


def test_a_network_from_scratch_is_tested_and_leaves_the_stream_alone() -> None:
    stream = tiny_stream()
    plain, scratch = learned(ER, stream), learned(with_fit(SHORT["from scratch"]), stream)
    assert same(weights(plain), weights(scratch))  # the stream never knew
    assert torch.equal(plain.memory.id, scratch.memory.id)
    x = stream.tests[0].source.take(stream.tests[0].id)
    assert not torch.equal(plain.predict(x), scratch.predict(x))


def test_while_the_stream_is_learned_the_streams_network_answers() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["from scratch"]), stream, epochs=2)
    x = stream.tests[0].source.take(stream.tests[0].id)
    finish(learner.learn(stream.tasks[0]))
    by_fit = learner.predict(x)
    for event in learner.learn(stream.tasks[1]):
        if isinstance(event, StepDone):
            assert torch.equal(learner.predict(x), learner._logits(x))
            assert not torch.equal(learner.predict(x), by_fit)
            break


def test_gdumb_answers_with_its_last_fit_until_the_next() -> None:
    stream = tiny_stream()
    learner = tiny_learner(replace(GDUMB, consolidation=SHORT["from scratch"]), stream, epochs=2)
    x = stream.tests[0].source.take(stream.tests[0].id)
    finish(learner.learn(stream.tasks[0]))
    fitted = learner.predict(x)
    event = next(learner.learn(stream.tasks[1]))
    assert isinstance(event, StepDone)
    assert event.phase is Phase.WRITE
    assert event.loss is None
    assert torch.equal(learner.predict(x), fitted)


def test_gdumb_goes_through_a_task_once_whatever_the_epochs() -> None:
    stream = tiny_stream()
    learner = tiny_learner(replace(GDUMB, consolidation=SHORT["from scratch"]), stream, epochs=7)
    events = finish(learner.learn(stream.tasks[0]))
    rows = sum(e.images for e in events if isinstance(e, StepDone) and e.phase is Phase.WRITE)
    assert rows == len(stream.tasks[0])
    assert same(weights(learner), weights(tiny_learner(GDUMB, stream)))  # the stream trains nothing


def test_networks_from_scratch_are_new_after_every_task() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(replace(SHORT["from scratch"], lr=1e-30)), stream, epochs=2)
    assert learner.fit is not None
    starts = [learner.fit.net.state_dict()["head.weight"].clone()]
    for task in stream.tasks[:2]:
        finish(learner.learn(task))
        starts.append(learner.fit.net.state_dict()["head.weight"].clone())
    for a, b in itertools.combinations(starts, 2):  # at this rate nothing else moves them
        assert (a - b).abs().max() > 0.01


def test_momentum_is_new_after_every_task() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["buffer-fit"]), stream, epochs=2)
    for task in stream.tasks[:2]:
        for event in learner.learn(task):
            if isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase and event.epoch == 0:
                assert learner.fit is not None
                buffers = momentum_of(learner.fit.optimizer).values()
                gradients = [p.grad for p in learner.net.parameters()]
                is_first = all(map(torch.equal, buffers, gradients))  # nothing to add up yet
                assert is_first == (event.step == 1)


def test_a_saved_division_comes_back_with_its_reasons() -> None:
    stream = tiny_stream()
    learner, other = (tiny_learner(with_fit(SHORT["dividemix"]), stream, epochs=2) for _ in range(2))
    assert learner.fit is not None
    assert other.fit is not None
    learner.fit.division = Division(torch.rand(2, 10), ("because", ""))
    other.load_state_dict(learner.state_dict())
    assert other.fit.division is not None
    assert other.fit.division.plain == ("because", "")
    assert torch.equal(other.fit.division.clean, learner.fit.division.clean)


@pytest.mark.parametrize("name", ["coteaching", "dividemix", "mixmatch"])
def test_the_streams_network_is_the_one_that_is_tested(name: str) -> None:
    stream = tiny_stream()
    learner = learned(with_fit(SHORT[name]), stream)
    assert learner.fit is not None
    assert learner.fit.net is learner.net


def test_the_memory_is_divided_and_shuffled_anew_in_every_epoch() -> None:
    divided: list[int] = []

    class Counted(MixMatch):
        def divide(self, bench: Bench, epoch: int) -> Division | None:
            divided.append(epoch)
            return super().divide(bench, epoch)

    stream = tiny_stream()
    learner = tiny_learner(with_fit(Counted(epochs=5)), stream, epochs=2)
    orders = []
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase:
            assert learner.fit is not None
            orders.append(tuple(learner.fit.order.tolist()))
    assert divided == [0, 1, 2, 3, 4]
    assert len(set(orders)) == 5


@pytest.mark.parametrize("name", ["gdumb", "gdumb+coteaching", "gdumb+dividemix"])
def test_gdumb_has_its_own_optimizer_and_starts_from_scratch(name: str) -> None:
    how = METHODS[name].consolidation
    assert isinstance(how, Consolidation)
    assert how.from_scratch
    assert (how.momentum, how.weight_decay, how.clip) == (0.9, 1e-6, 10.0)


def test_defaults_are_the_published_ones() -> None:
    assert (BufferFit().lr, BufferFit().epochs, BufferFit().momentum) == (0.05, 255, 0)
    mixmatch = MixMatch()
    assert (mixmatch.lr, mixmatch.lambda_u, mixmatch.epochs, mixmatch.batch) == (0.1, 0.01, 255, 64)
    assert (mixmatch.views, mixmatch.temperature, mixmatch.mixup) == (3, 0.5, 0.5)
    dividemix = DivideMix()
    assert (dividemix.lambda_u, dividemix.warmup, dividemix.ramp) == (25, 10, 16)
    assert (dividemix.temperature, dividemix.mixup, dividemix.batch) == (0.5, 4, 64)
    assert CoTeaching().ramp == 10


def test_every_network_has_the_layout_and_the_noise_rate_of_the_run() -> None:
    config = tiny_config(method="er+coteaching", channels_last=True, noise="symmetric:0.25")
    stream = make_the_stream(config, None)
    learner = make_the_learner(config, stream)
    assert learner.fit is not None
    for net in learner.fit.bench.nets:
        weight = net.state_dict()["body.3.weight"]
        assert weight.is_contiguous(memory_format=torch.channels_last)
    assert learner.fit.bench.noise_rate == pytest.approx(0.25, abs=0.02)


def test_the_second_network_lives_through_the_tasks_and_sees_the_memory_alone() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["coteaching"]), stream, epochs=2)
    assert learner.fit is not None
    (second,) = learner.fit.own.values()
    finish(learner.learn(stream.tasks[0]))
    before = copy.deepcopy(second.state_dict())
    for event in learner.learn(stream.tasks[1]):
        if isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase:
            break
        assert same(dict(second.state_dict()), dict(before))
    assert not same(dict(second.state_dict()), dict(before))


@pytest.mark.parametrize("name", ["coteaching", "dividemix"])
def test_both_networks_follow_the_scheduled_rate(name: str) -> None:
    stream, how = tiny_stream(), SHORT[name]
    learner = tiny_learner(with_fit(how), stream, epochs=2)
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase:
            assert learner.fit is not None
            owned = {id(p) for net in learner.fit.bench.nets for p in net.parameters()}
            for group in learner.fit.optimizer.param_groups:
                assert group["lr"] == sgdr(event.epoch, how.lr)
                owned -= {id(p) for p in group["params"]}
            assert not owned


def test_dividemix_trains_one_network_at_a_time_after_the_warm_up() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["dividemix"]), stream, epochs=2)
    changed, last = set(), nets_of(learner)
    for event in learner.learn(stream.tasks[0]):
        now = nets_of(learner)
        if isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase:
            moved = {key[0] for key in now if not torch.equal(now[key], last[key])}
            changed.add((event.epoch == 0, frozenset(moved)))
        last = now
    assert changed == {(True, frozenset("01")), (False, frozenset("0")), (False, frozenset("1"))}


def test_guesses_and_divisions_never_move_batchnorm() -> None:
    stream, how = tiny_stream(), MixMatch(epochs=2, batch=64)
    learner = tiny_learner(with_fit(how), stream, epochs=2)
    counts = []
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone):
            counts.append((event.phase, int(learner.net.state_dict()["body.1.num_batches_tracked"])))
    fits = [count for phase, count in counts if Phase.CONSOLIDATE in phase]
    before = [count for phase, count in counts if Phase.CONSOLIDATE not in phase][-1]
    assert fits == [before + 1, before + 2]  # one forward in train mode for each step


def test_a_gradient_is_clipped_for_each_network() -> None:
    stream = tiny_stream()
    norms, how = [], CoTeaching(epochs=1, batch=64, clip=1e-3, lr=1.0)
    learner = tiny_learner(with_fit(how), stream, epochs=2)
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase:
            assert learner.fit is not None
            for net in learner.fit.bench.nets:
                grads = [p.grad.norm() for p in net.parameters() if p.grad is not None]
                norms.append(float(torch.stack(grads).norm()))
    assert norms == pytest.approx([1e-3, 1e-3], rel=1e-3)


def test_the_memory_is_not_changed() -> None:
    stream = tiny_stream()
    for name in ("cutmix", "mixmatch", "dividemix"):
        learner = tiny_learner(with_fit(SHORT[name]), stream, epochs=2)
        before: list[Tensor] = []
        for event in learner.learn(stream.tasks[0]):
            if isinstance(event, EpochDone) and event.epoch == 1 and Phase.TRAIN in event.phase:
                before = [learner.memory.x.clone(), learner.memory.y.clone()]
        assert torch.equal(before[0], learner.memory.x)
        assert torch.equal(before[1], learner.memory.y)


def test_dark_replay_consolidates_too_and_keeps_its_logits() -> None:
    stream = tiny_stream()
    learner = learned(with_fit(SHORT["mixmatch"], DER), stream)
    assert not learner.memory.logits[: len(learner.memory)].isnan().any()


@pytest.mark.parametrize("capacity", [2, 3, 5])
@pytest.mark.parametrize("name", SHORT)
def test_a_memory_smaller_than_a_batch_is_enough(name: str, capacity: int) -> None:
    stream, how = tiny_stream(), replace(SHORT[name], batch=64)
    learner = learned(with_fit(how), stream, capacity=capacity)
    assert all(value.isfinite().all() for value in nets_of(learner).values())


def test_a_single_row_is_not_consolidated() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["mixmatch"]), stream, epochs=2, capacity=1)
    assert not consolidating(finish(learner.learn(stream.tasks[0])))


def test_an_epoch_ends_with_its_division() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["mixmatch"]), stream, epochs=2)
    ends = [
        e for e in learner.learn(stream.tasks[0])
        if isinstance(e, EpochDone) and Phase.CONSOLIDATE in e.phase
    ]  # fmt: skip
    assert [e.epoch for e in ends] == [0, 1, 2]
    for end in ends:
        assert isinstance(end.division, Division)
        assert end.division.clean.shape == (1, 10)


def test_planned_shares_of_an_epoch_add_up_whatever_its_steps() -> None:
    stream = tiny_stream()
    for name, how in SHORT.items():
        learner = tiny_learner(with_fit(how), stream, epochs=2)
        steps = consolidating(finish(learner.learn(stream.tasks[0])))
        assert sum(step.share for step in steps) == pytest.approx(how.epochs * 3), name  # 10 rows by 4


def test_a_diverged_second_network_is_not_saved() -> None:
    from remnant.errors import Diverged

    stream = tiny_stream()
    learner = learned(with_fit(SHORT["coteaching"]), stream)
    assert learner.fit is not None
    (second,) = learner.fit.own.values()
    nn.init.constant_(next(second.parameters()), torch.inf)
    with pytest.raises(Diverged):
        learner.state_dict()
