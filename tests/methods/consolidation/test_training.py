"""Consolidation inside a learner: what is trained, what is evaluated, what is saved."""

import copy
import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import same, tiny_config, tiny_learner, tiny_stream, weights
from torch import Tensor, nn

from remnant.engine.inference import predict
from remnant.engine.learning_rate import warm_restarts
from remnant.engine.optimizer import momentum_of
from remnant.errors import Diverged
from remnant.experiment.build import build_learner, build_stream
from remnant.methods.consolidation import (
    BufferFit,
    Consolidation,
    ConsolidationContext,
    CoTeaching,
    DivideMix,
    MixMatch,
    PuriDivER,
)
from remnant.methods.consolidation.division import Division
from remnant.methods.consolidation.training import ConsolidationLoop
from remnant.methods.epoch_schedule import Alternate, Phase
from remnant.methods.protocol import EpochDone, Event, StepDone
from remnant.methods.registry import AER_ABS, DER, ER, GDUMB, METHODS
from remnant.methods.replay import Replay, ReplayLearner
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


def with_fit(how: Consolidation, method: Replay = ER) -> Replay:
    return replace(method, consolidation=how)


def fit_of(learner: ReplayLearner) -> ConsolidationLoop:
    assert learner.consolidation is not None
    return learner.consolidation


def is_consolidation(event: Event) -> bool:
    return isinstance(event, StepDone) and Phase.CONSOLIDATE in event.phase


def learned(method: Replay, stream: Stream, **changes: Any) -> ReplayLearner:  # noqa: ANN401
    learner = tiny_learner(method, stream, epochs=2, **changes)
    for task in stream.tasks:
        list(learner.learn(task))
    return learner


def nets_of(learner: ReplayLearner) -> dict[str, Tensor]:
    nets = enumerate([learner.net, *fit_of(learner).own.values()])
    return {f"{i}.{key}": v.clone() for i, net in nets for key, v in net.state_dict().items()}


@pytest.mark.parametrize("name", SHORT)
def test_a_consolidation_can_be_interrupted_at_every_step_and_resumed(name: str) -> None:
    stream, method = tiny_stream(), with_fit(SHORT[name], AER_ABS)
    whole = learned(method, stream)
    resumed = tiny_learner(method, stream, epochs=2)
    saved = 0
    for task in stream.tasks:
        done = False
        while not done:
            done = True
            for event in resumed.learn(task):
                if is_consolidation(event):
                    saved, done = saved + 1, False
                    break
            state = copy.deepcopy(resumed.state_dict())
            resumed = tiny_learner(method, stream, epochs=2)
            resumed.load_state_dict(state)
    assert saved > 20
    assert same(nets_of(whole), nets_of(resumed))
    assert same(whole.rng.state_dict(), resumed.rng.state_dict())
    x = stream.tests[0].source.take(stream.tests[0].id)
    assert torch.equal(whole.predict(x), resumed.predict(x))


@pytest.mark.parametrize("base", ["er", "er-ace", "der++-aer-abs", "gdumb"])
@pytest.mark.slow
def test_any_replay_method_can_have_any_consolidation(base: str) -> None:
    stream, method = tiny_stream(), METHODS[base]
    assert isinstance(method, Replay)
    for name, how in SHORT.items():
        learner = learned(with_fit(how, method), stream)
        assert (fit_of(learner).loop.key, fit_of(learner).loop.epoch) == (2, how.epochs), name
        assert all(value.isfinite().all() for value in nets_of(learner).values()), name


def test_the_next_task_continues_from_the_consolidated_weights() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["mixmatch"]), stream, epochs=2, lr=0.0)
    list(learner.learn(stream.tasks[0]))
    after = {name: p.clone() for name, p in learner.net.named_parameters()}
    for event in learner.learn(stream.tasks[1]):  # with learning rate 0 the stream changes no parameter
        if is_consolidation(event):
            break
        now = dict(learner.net.named_parameters())
        assert all(torch.equal(now[name], after[name]) for name in after)


@pytest.mark.parametrize("name", ["buffer-fit", "mixmatch", "coteaching"])
def test_forgetting_after_a_consolidation_is_rolled_back_to_its_weights(name: str) -> None:
    at_start: list[dict[str, Tensor]] = []  # of each epoch

    def alternate(epoch: int, epochs: int) -> Phase:
        at_start.append(weights(learner))
        return Alternate()(epoch, epochs)

    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT[name], AER_ABS), stream, epochs=4, momentum=0.9)
    learner.method = replace(learner.method, schedule=alternate)
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


def test_a_network_from_scratch_is_evaluated_and_does_not_affect_the_stream() -> None:
    stream = tiny_stream()
    plain, scratch = learned(ER, stream), learned(with_fit(SHORT["from scratch"]), stream)
    assert same(weights(plain), weights(scratch))
    assert torch.equal(plain.buffer.id, scratch.buffer.id)
    x = stream.tests[0].source.take(stream.tests[0].id)
    assert not torch.equal(plain.predict(x), scratch.predict(x))


def test_during_training_on_the_stream_the_network_of_the_stream_predicts() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["from scratch"]), stream, epochs=2)
    x = stream.tests[0].source.take(stream.tests[0].id)
    list(learner.learn(stream.tasks[0]))
    by_fit = learner.predict(x)
    for event in learner.learn(stream.tasks[1]):
        if isinstance(event, StepDone):
            assert torch.equal(learner.predict(x), predict(learner.net, x, learner.transform.plain))
            assert not torch.equal(learner.predict(x), by_fit)
            break


def test_gdumb_predicts_with_its_last_network_until_the_next() -> None:
    stream = tiny_stream()
    learner = tiny_learner(replace(GDUMB, consolidation=SHORT["from scratch"]), stream, epochs=2)
    x = stream.tests[0].source.take(stream.tests[0].id)
    list(learner.learn(stream.tasks[0]))
    fitted = learner.predict(x)
    event = next(learner.learn(stream.tasks[1]))
    assert isinstance(event, StepDone)
    assert event.phase is Phase.WRITE
    assert event.loss is None
    assert torch.equal(learner.predict(x), fitted)


def test_gdumb_passes_once_over_a_task_for_any_number_of_epochs() -> None:
    stream = tiny_stream()
    learner = tiny_learner(replace(GDUMB, consolidation=SHORT["from scratch"]), stream, epochs=7)
    events = list(learner.learn(stream.tasks[0]))
    samples = sum(e.samples for e in events if isinstance(e, StepDone) and e.phase is Phase.WRITE)
    assert samples == len(stream.tasks[0])
    assert same(weights(learner), weights(tiny_learner(GDUMB, stream)))  # not trained on the stream


def test_networks_from_scratch_are_initialised_after_every_task() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(replace(SHORT["from scratch"], lr=1e-30)), stream, epochs=2)
    starts = [fit_of(learner).net.state_dict()["head.weight"].clone()]
    for task in stream.tasks[:2]:
        list(learner.learn(task))
        starts.append(fit_of(learner).net.state_dict()["head.weight"].clone())
    for a, b in itertools.combinations(starts, 2):  # the learning rate is too small to change them
        assert (a - b).abs().max() > 0.01


def test_momentum_is_reset_after_every_task() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["buffer-fit"]), stream, epochs=2)
    for task in stream.tasks[:2]:
        for event in learner.learn(task):
            if is_consolidation(event) and event.epoch == 0:
                buffers = momentum_of(fit_of(learner).optimizer).values()
                gradients = [p.grad for p in learner.net.parameters()]
                is_first = all(map(torch.equal, buffers, gradients))  # no momentum before it
                assert is_first == (event.step == 1)


def test_a_saved_division_is_restored_with_its_reasons() -> None:
    stream = tiny_stream()
    learner, other = (tiny_learner(with_fit(SHORT["dividemix"]), stream, epochs=2) for _ in range(2))
    fit_of(learner).division = Division(torch.rand(2, 10), ("because", ""), predicted=torch.arange(10))
    other.load_state_dict(learner.state_dict())
    assert fit_of(other).division is not None
    assert fit_of(other).division.fallback == ("because", "")
    assert torch.equal(fit_of(other).division.clean, fit_of(learner).division.clean)
    assert torch.equal(fit_of(other).division.predicted, torch.arange(10))


@pytest.mark.parametrize("name", ["coteaching", "dividemix", "mixmatch"])
def test_the_network_of_the_stream_is_evaluated(name: str) -> None:
    stream = tiny_stream()
    learner = learned(with_fit(SHORT[name]), stream)
    assert fit_of(learner).net is learner.net


def test_the_buffer_is_divided_and_shuffled_again_in_every_epoch() -> None:
    divided: list[int] = []

    class Counted(MixMatch):
        def divide(self, context: ConsolidationContext, epoch: int) -> Division | None:
            divided.append(epoch)
            return super().divide(context, epoch)

    stream = tiny_stream()
    learner = tiny_learner(with_fit(Counted(epochs=5)), stream, epochs=2)
    orders = []
    for event in learner.learn(stream.tasks[0]):
        if is_consolidation(event):
            orders.append(tuple(fit_of(learner).loop.order.tolist()))
    assert divided == [0, 1, 2, 3, 4]
    assert len(set(orders)) == 5


@pytest.mark.parametrize("name", ["gdumb", "gdumb+coteaching", "gdumb+dividemix"])
def test_gdumb_trains_from_scratch_with_its_own_optimizer_settings(name: str) -> None:
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


def test_every_network_has_the_memory_layout_of_the_run_and_the_noise_rate_is_known() -> None:
    config = tiny_config(method="er+coteaching", channels_last=True, noise="symmetric:0.25")
    stream = build_stream(config, None)
    learner = build_learner(config, stream)
    for net in fit_of(learner).context.nets:
        weight = net.state_dict()["body.3.weight"]
        assert weight.is_contiguous(memory_format=torch.channels_last)
    assert fit_of(learner).context.noise_rate == pytest.approx(0.25, abs=0.02)


def test_the_second_network_is_kept_between_tasks_and_trained_on_the_buffer_only() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["coteaching"]), stream, epochs=2)
    (second,) = fit_of(learner).own.values()
    list(learner.learn(stream.tasks[0]))
    before = copy.deepcopy(second.state_dict())
    for event in learner.learn(stream.tasks[1]):
        if is_consolidation(event):
            break
        assert same(dict(second.state_dict()), dict(before))
    assert not same(dict(second.state_dict()), dict(before))


@pytest.mark.parametrize("name", ["coteaching", "dividemix"])
def test_both_networks_have_the_scheduled_learning_rate(name: str) -> None:
    stream, how = tiny_stream(), SHORT[name]
    learner = tiny_learner(with_fit(how), stream, epochs=2)
    for event in learner.learn(stream.tasks[0]):
        if is_consolidation(event):
            owned = {id(p) for net in fit_of(learner).context.nets for p in net.parameters()}
            for group in fit_of(learner).optimizer.param_groups:
                assert group["lr"] == warm_restarts(event.epoch, how.lr)
                owned -= {id(p) for p in group["params"]}
            assert not owned


def test_dividemix_trains_one_network_at_a_time_after_the_warm_up() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["dividemix"]), stream, epochs=2)
    changed, last = set(), nets_of(learner)
    for event in learner.learn(stream.tasks[0]):
        now = nets_of(learner)
        if is_consolidation(event):
            moved = {key[0] for key in now if not torch.equal(now[key], last[key])}
            changed.add((event.epoch == 0, frozenset(moved)))
        last = now
    assert changed == {(True, frozenset("01")), (False, frozenset("0")), (False, frozenset("1"))}


def test_guessing_and_dividing_do_not_change_the_statistics_of_batchnorm() -> None:
    stream, how = tiny_stream(), MixMatch(epochs=2, batch=64)
    learner = tiny_learner(with_fit(how), stream, epochs=2)
    counts = []
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone):
            counts.append((event.phase, int(learner.net.state_dict()["body.1.num_batches_tracked"])))
    fits = [count for phase, count in counts if Phase.CONSOLIDATE in phase]
    before = [count for phase, count in counts if Phase.CONSOLIDATE not in phase][-1]
    assert fits == [before + 1, before + 2]  # one forward in train mode per step


def test_the_gradient_of_each_network_is_clipped() -> None:
    stream = tiny_stream()
    norms, how = [], CoTeaching(epochs=1, batch=64, clip=1e-3, lr=1.0)
    learner = tiny_learner(with_fit(how), stream, epochs=2)
    for event in learner.learn(stream.tasks[0]):
        if is_consolidation(event):
            for net in fit_of(learner).context.nets:
                grads = [p.grad.norm() for p in net.parameters() if p.grad is not None]
                norms.append(float(torch.stack(grads).norm()))
    assert norms == pytest.approx([1e-3, 1e-3], rel=1e-3)


def test_consolidation_does_not_change_the_buffer() -> None:
    stream = tiny_stream()
    for name in ("cutmix", "mixmatch", "dividemix"):
        learner = tiny_learner(with_fit(SHORT[name]), stream, epochs=2)
        before: list[Tensor] = []
        for event in learner.learn(stream.tasks[0]):
            if isinstance(event, EpochDone) and event.epoch == 1 and Phase.TRAIN in event.phase:
                before = [learner.buffer.x.clone(), learner.buffer.y.clone()]
        assert torch.equal(before[0], learner.buffer.x)
        assert torch.equal(before[1], learner.buffer.y)


def test_dark_replay_with_consolidation_stores_all_logits() -> None:
    stream = tiny_stream()
    learner = learned(with_fit(SHORT["mixmatch"], DER), stream)
    assert not learner.buffer.logits[: len(learner.buffer)].isnan().any()


@pytest.mark.parametrize("name", SHORT)
def test_a_buffer_smaller_than_a_batch_is_enough(name: str) -> None:
    stream, how = tiny_stream(), replace(SHORT[name], batch=64)
    for buffer_size in (2, 3, 5):
        learner = learned(with_fit(how), stream, buffer_size=buffer_size)
        assert all(value.isfinite().all() for value in nets_of(learner).values()), buffer_size


def test_a_buffer_of_one_sample_is_not_consolidated() -> None:
    stream = tiny_stream()
    learner = tiny_learner(with_fit(SHORT["mixmatch"]), stream, epochs=2, buffer_size=1)
    assert not any(map(is_consolidation, learner.learn(stream.tasks[0])))


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


def test_planned_steps_of_an_epoch_add_up_for_any_number_of_batches() -> None:
    stream = tiny_stream()
    for name, how in SHORT.items():
        learner = tiny_learner(with_fit(how), stream, epochs=2)
        steps = filter(is_consolidation, learner.learn(stream.tasks[0]))
        planned = how.epochs * 3  # 10 samples in batches of 4
        assert sum(step.planned for step in steps) == pytest.approx(planned), name


def test_a_diverged_second_network_is_not_saved() -> None:
    stream = tiny_stream()
    learner = learned(with_fit(SHORT["coteaching"]), stream)
    (second,) = fit_of(learner).own.values()
    nn.init.constant_(next(second.parameters()), torch.inf)
    with pytest.raises(Diverged):
        learner.state_dict()
