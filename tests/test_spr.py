"""Self-purified replay: what is trained when, what is kept, and that it can be cut anywhere."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import same, tiny_stream
from torch import Tensor, nn

from remnant.checkpoint import pack, unpack
from remnant.errors import Diverged
from remnant.nets import Small, build
from remnant.protocol import EpochDone, Event, Learner, StepDone
from remnant.rng import Generators, derive
from remnant.schedule import Phase
from remnant.spr import Spr, SprLearner
from remnant.spr import learner as spr
from remnant.spr.settings import annealed
from remnant.spr.trainee import Trainee
from remnant.stream import Stream

TINY = Spr(
    delay=20, purified=10, expert_steps=3, base_steps=2, batch=12, lr=1e-2, features=6,
    finetune_epochs=2, finetune_batch=4, finetune_drop=3,
)  # fmt: skip


def tiny_spr(stream: Stream, epochs: int = 2, **changes: Any) -> SprLearner:  # noqa: ANN401
    spec = stream.spec

    def new_net(name: str) -> nn.Module:
        return build(Small(4), spec, derive(3, name))

    spread = {name: epochs * getattr(TINY, name) for name in ("expert_steps", "base_steps")}
    settings: dict[str, Any] = spread | changes
    return SprLearner(replace(TINY, **settings), epochs, 8, spec, new_net, Generators.from_seed(1))


def weights(trainee: Trainee) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in trainee.net.state_dict().items()}


def flat(state: dict[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in state.items():
        found |= flat(value, f"{path}/{name}") if isinstance(value, dict) else {f"{path}/{name}": value}
    return found


def finish(events: Iterator[Event]) -> list[Event]:
    return list(events)


def steps(events: list[Event], phase: Phase) -> list[StepDone]:
    return [e for e in events if isinstance(e, StepDone) and e.phase is phase]


def in_a_fill(learner: SprLearner, event: Event) -> bool:
    """Whether the event is a step of the expert or the base."""
    return isinstance(event, StepDone) and learner.fill_step > 0


def everything(learner: SprLearner) -> bytes:
    return pack(learner.state_dict())


@pytest.mark.parametrize("changes", [{}, {"delay": 7}, {"delay": 48}, {"batch": 100, "purified": 4}])
def test_it_can_be_cut_at_every_step_and_ends_with_the_same_bytes(changes: dict[str, int]) -> None:
    stream = tiny_stream()
    whole, cut, saved = tiny_spr(stream, **changes), tiny_spr(stream, **changes), 0
    for task in stream.tasks[:2]:
        finish(whole.learn(task))
        done = False
        while not done:
            done = True
            for event in cut.learn(task):
                if isinstance(event, StepDone):
                    saved, done = saved + 1, False
                    break
            state = unpack(everything(cut))
            cut = tiny_spr(stream, **changes)
            cut.load_state_dict(state)
    assert saved > 20
    a, b = flat(whole.state_dict()), flat(cut.state_dict())
    assert a.keys() == b.keys()
    for name in a:
        is_tensor = isinstance(a[name], Tensor)
        equal = (
            torch.equal(a[name].nan_to_num(), b[name].nan_to_num()) if is_tensor else a[name] == b[name]
        )
        assert equal, name
    assert everything(whole) == everything(cut)
    x = stream.tests[0].source.take(stream.tests[0].id)
    assert torch.equal(whole.predict(x), cut.predict(x))


def test_events_of_a_run_that_was_cut_are_those_of_one_that_was_not() -> None:
    stream = tiny_stream()
    whole, cut = tiny_spr(stream), tiny_spr(stream)
    expected = [e for e in finish(whole.learn(stream.tasks[0])) if isinstance(e, StepDone)]
    found: list[StepDone] = []
    while len(found) < len(expected):
        found.append(next(e for e in cut.learn(stream.tasks[0]) if isinstance(e, StepDone)))
        state = unpack(everything(cut))
        cut = tiny_spr(stream)
        cut.load_state_dict(state)
    assert found == expected


def test_two_runs_give_the_same_bytes() -> None:
    stream = tiny_stream()
    a, b = tiny_spr(stream), tiny_spr(stream)
    for task in stream.tasks[:2]:
        finish(a.learn(task))
        finish(b.learn(task))
    assert everything(a) == everything(b)


def test_it_is_a_learner_with_two_memories() -> None:
    learner: Learner = tiny_spr(tiny_stream())
    assert list(learner.memories()) == ["purified", "delayed"]
    assert [memory.capacity for memory in learner.memories().values()] == [10, 20]


@pytest.mark.parametrize("delay", [5, 20, 24, 1000])
def test_every_row_is_judged_once_in_every_epoch(delay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, epochs=3, delay=delay, expert_steps=3, base_steps=3)
    judged: list[list[int]] = []
    judge = spr.clean_probability

    def watch(z: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        judged.append(learner.delayed.rows().id.tolist())
        return judge(z, y, rng)

    monkeypatch.setattr(spr, "clean_probability", watch)
    for task in stream.tasks:
        judged.clear()
        stored = steps(finish(learner.learn(task)), Phase.WRITE)
        fills = len(judged) // 3
        assert fills == math.ceil(len(task) / delay)
        for epoch in range(3):
            part = judged[epoch * fills : (epoch + 1) * fills]
            assert sorted(id for rows in part for id in rows) == sorted(task.id.tolist())
            assert max(map(len, part)) - min(map(len, part)) <= 1  # no small rest
        assert sum(e.images for e in stored) == 3 * len(task)
        assert all(e.loss is None for e in stored)
        assert len(learner.delayed) == 0


def test_a_fill_trains_the_expert_first_and_then_the_base() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    moved, before = [], (weights(learner.expert), weights(learner.base))
    for event in learner.learn(stream.tasks[0]):
        now = weights(learner.expert), weights(learner.base)
        if in_a_fill(learner, event):
            assert isinstance(event, StepDone)
            at = learner.fill_step
            kind = ("expert", at, 3) if at <= 3 else ("base", at - 3, 2)
            assert (event.work, event.step, event.steps) == kind
            moved.append([not same(a, b) for a, b in zip(before, now, strict=True)])
        before = now
    expected = [[True, False]] * 3 + [[False, True]] * 2
    assert moved == expected * learner.fill
    assert learner.fill > 1


def test_the_expert_is_new_at_each_fill_and_the_base_lives_on() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, lr=1e-30)  # nothing but BatchNorm moves
    first: list[dict[str, Tensor]] = []
    bases = []
    for task in stream.tasks[:2]:
        for event in learner.learn(task):
            if in_a_fill(learner, event) and learner.fill_step == 1:
                first.append({n: p.detach().clone() for n, p in learner.expert.net.named_parameters()})
                bases.append({n: p.detach().clone() for n, p in learner.base.net.named_parameters()})
    assert len(first) >= 4
    for name in ("body.0.weight", "head.0.weight", "head.2.weight"):
        assert len({expert[name].numpy().tobytes() for expert in first}) == len(first)
        assert len({base[name].numpy().tobytes() for base in bases}) == 1


def test_moments_of_the_expert_are_new_and_those_of_the_base_live_on() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    for event in learner.learn(stream.tasks[0]):
        if in_a_fill(learner, event):
            taken = [
                float(state["step"])
                for trainee in (learner.expert, learner.base)
                for state in list(trainee.optimizer.state_dict()["state"].values())[:1]
            ]
            expert, base = min(learner.fill_step, 3), 2 * learner.fill + max(0, learner.fill_step - 3)
            assert taken == [expert, base][: 1 + (base > 0)]


def test_a_budget_is_spread_over_the_epochs_and_never_to_nothing() -> None:
    assert Spr(expert_steps=7, base_steps=1).per_fill(3) == (3, 1)


def test_views_are_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    learner = tiny_spr(tiny_stream())

    def look(net: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if net.training:
            seen.append(inputs[0])

    for trainee in (learner.expert, learner.base):
        trainee.net.register_forward_pre_hook(look)
    monkeypatch.setattr(learner, "_contrastive", lambda name: learner.expert)
    finish(learner.learn(tiny_stream().tasks[0]))
    assert min(float(x.min()) for x in seen) < -0.5  # a grey of 0 is (0 - mean) / deviation


def test_rates_begin_anew_at_each_fill() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, expert_steps=28, base_steps=24)  # in two epochs
    rates: list[list[float]] = []
    for event in learner.learn(stream.tasks[0]):
        if in_a_fill(learner, event):
            trainee = learner.expert if learner.fill_step <= 14 else learner.base
            if learner.fill_step == 1:
                rates.append([])
            rates[-1].append(trainee.optimizer.param_groups[0]["lr"])
    expected = [annealed(k, 14, 1e-2) for k in range(14)] + [annealed(k, 12, 1e-2) for k in range(12)]
    assert len(rates) > 1
    assert all(fill == pytest.approx(expected) for fill in rates)


def test_a_rate_never_rises_and_ends_low() -> None:
    rates = [annealed(step, 160, 3e-4) for step in range(160)]
    assert rates[:11] == [3e-4] * 11
    assert sorted(rates, reverse=True) == rates
    assert 0 < rates[-1] < 3e-7
    assert [annealed(step, 4, 1.0) for step in range(4)] == [1, 1, 1, 1]


def test_labels_never_reach_the_contrastive_loss() -> None:
    stream, other = tiny_stream(), tiny_stream()
    changed = replace(other.tasks[0], y=other.tasks[0].y.flip(0).roll(5))
    a, b = tiny_spr(stream), tiny_spr(other)
    assert not torch.equal(stream.tasks[0].y, changed.y)
    for one, two in zip(a.learn(stream.tasks[0]), b.learn(changed), strict=False):
        assert one == two  # with its loss
        assert same(weights(a.expert), weights(b.expert))
        assert same(weights(a.base), weights(b.base))
        if a.fill_step == 5:
            break
    assert not torch.equal(a.delayed.y, b.delayed.y)


def test_the_base_sees_half_of_the_purified_memory_once_that_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, epochs=6, purified=4, batch=6)
    seen: list[Tensor] = []

    def watch(x: Tensor, flip: bool, rng: torch.Generator) -> Tensor:
        assert not flip  # digits and tiny images are not mirrored
        seen.append(x)
        return x.float() / 255

    monkeypatch.setattr(spr, "strong_view", watch)
    kinds = set()
    for event in learner.learn(stream.tasks[0]):
        if not in_a_fill(learner, event):
            continue
        assert torch.equal(seen[-1], seen[-2])  # two views of the same images
        delayed = {row.numpy().tobytes() for row in learner.delayed.x}
        purified = {row.numpy().tobytes() for row in learner.purified.rows().x}
        images = [row.numpy().tobytes() for row in seen[-1]]
        assert len(images) == 6
        if learner.fill_step <= 3 or len(learner.purified) < 4:
            assert set(images) <= delayed
            kinds.add("delayed")
        else:
            assert set(images[:3]) <= delayed
            assert set(images[3:]) <= purified
            kinds.add("both")
    assert kinds == {"delayed", "both"}


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_rows_are_kept_as_probably_as_they_are_clean(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def certain(z: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        return torch.full((len(y),), p, dtype=torch.float64)

    monkeypatch.setattr(spr, "clean_probability", certain)
    stream = tiny_stream()
    learner = tiny_spr(stream, epochs=16, expert_steps=1, base_steps=1)
    finish(learner.learn(stream.tasks[0]))
    share = int(learner.offered.sum()) / (16 * len(stream.tasks[0]))
    assert share == pytest.approx(p, abs=0.08 * (0 < p < 1))
    assert (learner.purified.loss[: len(learner.purified)] == 1 - p).all()


def test_the_purified_memory_keeps_how_doubtful_its_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tiny_stream()
    judged: dict[int, set[float]] = {}
    learner = tiny_spr(stream)
    judge = spr.clean_probability

    def watch(z: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        assert z.shape == (len(learner.delayed), 6)
        assert not z.requires_grad
        clean = judge(z, y, rng)
        for row, p in zip(learner.delayed.rows().id.tolist(), clean.tolist(), strict=True):
            judged.setdefault(row, set()).add(p)
        return clean

    monkeypatch.setattr(spr, "clean_probability", watch)
    for task in stream.tasks:
        finish(learner.learn(task))
    rows = learner.purified.rows()
    assert len(rows) == 10
    assert len(set(rows.id.tolist())) == 10
    for row, loss in zip(rows.id.tolist(), learner.purified.loss.tolist(), strict=True):
        assert any(1 - p == pytest.approx(loss) for p in judged[row])


def test_the_purified_memory_holds_what_the_stream_said() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    for task in stream.tasks:
        finish(learner.learn(task))
    rows = learner.purified.rows()
    assert torch.equal(rows.y, stream.observed[rows.id])
    assert torch.equal(rows.x, stream.tasks[0].source.take(rows.id))


def test_judging_never_moves_batchnorm() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    finish(learner.learn(stream.tasks[0]))
    assert int(learner.expert.net.state_dict()["body.1.num_batches_tracked"]) == 3
    assert int(learner.base.net.state_dict()["body.1.num_batches_tracked"]) == 2 * learner.fill


def test_the_classifier_begins_with_the_features_of_the_base_and_leaves_it_alone() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, finetune_lr=1e-30)
    events = learner.learn(stream.tasks[0])
    for event in events:
        if isinstance(event, EpochDone) and event.epoch == 1:
            break
    base = weights(learner.base)
    finish(events)
    assert same(weights(learner.base), base)
    made = dict(learner.classifier.net.named_parameters())
    assert made["head.weight"].shape == (6, 32)
    for name, parameter in learner.base.net.named_parameters():
        if not name.startswith("head."):
            assert torch.equal(made[name], parameter)


def test_a_classifier_is_made_after_every_task_and_answers_until_the_next() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    x = stream.tests[0].source.take(stream.tests[0].id)
    finish(learner.learn(stream.tasks[0]))
    first = learner.predict(x)
    for event in learner.learn(stream.tasks[1]):
        if isinstance(event, EpochDone) and event.epoch == 1:
            break
        assert torch.equal(learner.predict(x), first)
    finish(learner.learn(stream.tasks[1]))
    assert not torch.equal(learner.predict(x), first)


def test_fine_tuning_goes_through_the_purified_memory_at_falling_rates() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, finetune_epochs=3)
    rates, rows, largest = [], 0, []
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and learner.tune_step:
            rates.append(learner.classifier.optimizer.param_groups[0]["lr"])
            rows += event.images
            gradients = [
                p.grad.abs().max() for p in learner.classifier.net.parameters() if p.grad is not None
            ]
            largest.append(float(max(gradients)))
    assert rows == 3 * 10
    assert rates == pytest.approx([2e-3] * 3 + [2e-4] * 3 + [2e-5] * 3)
    assert max(largest) <= 0.5


def test_a_finished_task_is_not_learned_again() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    finish(learner.learn(stream.tasks[0]))
    before = everything(learner)
    assert finish(learner.learn(stream.tasks[0])) == []
    assert everything(learner) == before


def test_training_with_poisoned_truth_gives_the_same_bytes() -> None:
    honest, poisoned = tiny_stream(), tiny_stream()
    poisoned.truth.fill_(0)
    learners = []
    for stream in (honest, poisoned):
        learners.append(tiny_spr(stream))
        finish(learners[-1].learn(stream.tasks[0]))
    assert everything(learners[0]) == everything(learners[1])


def test_a_diverged_network_is_not_saved() -> None:
    learner = tiny_spr(tiny_stream())
    nn.init.constant_(next(learner.base.net.parameters()), torch.nan)
    with pytest.raises(Diverged):
        learner.state_dict()


def test_contrastive_training_lowers_its_loss() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, epochs=1, expert_steps=150, batch=20, lr=1e-3)
    losses = [
        event.loss
        for event in learner.learn(stream.tasks[0])
        if in_a_fill(learner, event) and isinstance(event, StepDone) and event.step <= 150
    ]
    assert sum(filter(None, losses[-20:])) < sum(filter(None, losses[:20]))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_adam_saved_after_any_step_goes_on_as_if_it_had_not_been(layout: torch.memory_format) -> None:
    def trainee() -> Trainee:
        net = build(Small(4), tiny_stream().spec, 0)
        return Trainee(net.to(memory_format=layout))  # type: ignore[call-overload]

    x = torch.randn(5, 1, 6, 6)
    whole, cut = trainee(), trainee()
    for k in range(6):
        for one in (whole, cut):
            one.step(one.net(x).square().mean(), 0.1 / (k + 1), clip=0.5)
        state = unpack(pack(cut.state_dict()))
        cut = trainee()
        cut.load_state_dict(state)
    assert pack(whole.state_dict()) == pack(cut.state_dict())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"delay": 1}, "expected delay >= 2, or 0, got 1"),
        ({"batch": 3}, "expected batch >= 4"),
        ({"lr": 0.0}, "expected lr > 0"),
        ({"expert_steps": 0, "clip": -1.0}, "expected expert_steps >= 1, got 0; expected clip >= 0"),
        ({"finetune_batch": 2}, "expected finetune_batch >= 3"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Spr(**settings)
