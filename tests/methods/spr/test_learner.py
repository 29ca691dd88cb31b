"""SPR: what is trained when, what is stored, and that training can be interrupted at every step."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import same, tiny_net, tiny_setup, tiny_stream
from torch import Tensor, nn

from remnant.engine.learning_rate import cosine
from remnant.engine.optimizer import AdamTrainer
from remnant.errors import Diverged
from remnant.experiment.checkpoint import pack, unpack
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import EpochDone, Event, StepDone, TaskLearner
from remnant.methods.spr import Spr, learner as spr
from remnant.methods.spr.learner import SprLearner
from remnant.rng import Generators
from remnant.stream import Stream

TINY = Spr(
    delay=20, purified=10, expert_steps=3, base_steps=2, batch=12, lr=1e-2, features=6,
    finetune_epochs=2, finetune_batch=4, finetune_drop=3,
)  # fmt: skip


def tiny_spr(stream: Stream, epochs: int = 2, **changes: Any) -> SprLearner:  # noqa: ANN401
    """A learner with three steps of the expert and two of the base network per fill."""
    steps = {name: epochs * getattr(TINY, name) for name in ("expert_steps", "base_steps")}
    settings = replace(TINY, **(steps | changes))
    setup = tiny_setup(stream, epochs=epochs)
    return SprLearner(settings, setup, tiny_net(stream), Generators.from_seed(1))


def weights(trainer: AdamTrainer) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in trainer.net.state_dict().items()}


def flat(state: dict[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in state.items():
        found |= flat(value, f"{path}/{name}") if isinstance(value, dict) else {f"{path}/{name}": value}
    return found


def steps(events: list[Event], phase: Phase) -> list[StepDone]:
    return [e for e in events if isinstance(e, StepDone) and e.phase is phase]


def contrastive(event: Event) -> int:
    """The number of a step of expert or base network within its fill of 3 + 2 steps; 0 for other events."""
    if not isinstance(event, StepDone) or event.work not in ("expert", "base"):
        return 0
    return event.step + 3 * (event.work == "base")


def everything(learner: SprLearner) -> bytes:
    return pack(learner.state_dict())


@pytest.mark.parametrize("changes", [{}, {"delay": 7}, {"delay": 48}, {"batch": 100, "purified": 4}])
@pytest.mark.slow
def test_a_learner_interrupted_at_every_step_ends_with_the_same_bytes(changes: dict[str, int]) -> None:
    stream = tiny_stream()
    whole, resumed, saved = tiny_spr(stream, **changes), tiny_spr(stream, **changes), 0
    for task in stream.tasks[:2]:
        list(whole.learn(task))
        done = False
        while not done:
            done = True
            for event in resumed.learn(task):
                if isinstance(event, StepDone):
                    saved, done = saved + 1, False
                    break
            state = unpack(everything(resumed))
            resumed = tiny_spr(stream, **changes)
            resumed.load_state_dict(state)
    assert saved > 20
    a, b = flat(whole.state_dict()), flat(resumed.state_dict())
    assert a.keys() == b.keys()
    for name in a:
        is_tensor = isinstance(a[name], Tensor)
        equal = torch.equal(a[name].nan_to_num(), b[name].nan_to_num()) if is_tensor else a[name] == b[name]
        assert equal, name
    assert everything(whole) == everything(resumed)
    x = stream.tests[0].source.take(stream.tests[0].id)
    assert torch.equal(whole.predict(x), resumed.predict(x))


def test_interruptions_do_not_change_the_events() -> None:
    stream = tiny_stream()
    whole, resumed = tiny_spr(stream), tiny_spr(stream)
    expected = [e for e in whole.learn(stream.tasks[0]) if isinstance(e, StepDone)]
    found: list[StepDone] = []
    while len(found) < len(expected):
        found.append(next(e for e in resumed.learn(stream.tasks[0]) if isinstance(e, StepDone)))
        state = unpack(everything(resumed))
        resumed = tiny_spr(stream)
        resumed.load_state_dict(state)
    assert found == expected


def test_two_learners_of_one_seed_give_the_same_bytes() -> None:
    stream = tiny_stream()
    a, b = tiny_spr(stream), tiny_spr(stream)
    for task in stream.tasks[:2]:
        list(a.learn(task))
        list(b.learn(task))
    assert everything(a) == everything(b)


def test_a_learner_has_two_buffers() -> None:
    learner: TaskLearner = tiny_spr(tiny_stream())
    assert list(learner.buffers()) == ["purified", "delayed"]
    assert [buffer.capacity for buffer in learner.buffers().values()] == [10, 20]


@pytest.mark.parametrize("delay", [5, 20, 24, 1000])
def test_every_sample_is_filtered_once_in_every_epoch(delay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, epochs=3, delay=delay, expert_steps=3, base_steps=3)
    filtered: list[list[int]] = []
    estimate = spr.clean_probability

    def watch(z: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        filtered.append(learner.delayed.samples().id.tolist())
        return estimate(z, y, rng)

    monkeypatch.setattr(spr, "clean_probability", watch)
    for task in stream.tasks:
        filtered.clear()
        stored = steps(list(learner.learn(task)), Phase.WRITE)
        fills = len(filtered) // 3
        assert fills == math.ceil(len(task) / delay)
        for epoch in range(3):
            part = filtered[epoch * fills : (epoch + 1) * fills]
            assert sorted(id for ids in part for id in ids) == sorted(task.id.tolist())
            assert max(map(len, part)) - min(map(len, part)) <= 1  # all fills are of almost the same size
        assert sum(e.samples for e in stored) == 3 * len(task)
        assert all(e.loss is None for e in stored)
        assert len(learner.delayed) == 0


def test_a_fill_trains_the_expert_first_and_then_the_base_network() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    changed, places, before = [], [], (weights(learner.expert), weights(learner.base))
    for event in learner.learn(stream.tasks[0]):
        now = weights(learner.expert), weights(learner.base)
        if isinstance(event, StepDone) and contrastive(event):
            places.append((event.work, event.step, event.steps))
            changed.append([not same(a, b) for a, b in zip(before, now, strict=True)])
        before = now
    assert places == [
        ("expert", 1, 3), ("expert", 2, 3), ("expert", 3, 3), ("base", 1, 2), ("base", 2, 2)
    ] * learner.fills  # fmt: skip
    assert changed == ([[True, False]] * 3 + [[False, True]] * 2) * learner.fills
    assert learner.fills > 1


def test_each_fill_has_a_new_expert_and_the_base_network_is_kept() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, lr=1e-30)  # only the statistics of BatchNorm change
    first: list[dict[str, Tensor]] = []
    bases = []
    for task in stream.tasks[:2]:
        for event in learner.learn(task):
            if contrastive(event) == 1:
                first.append({n: p.detach().clone() for n, p in learner.expert.net.named_parameters()})
                bases.append({n: p.detach().clone() for n, p in learner.base.net.named_parameters()})
    assert len(first) >= 4
    for name in ("body.0.weight", "head.0.weight", "head.2.weight"):
        assert len({expert[name].numpy().tobytes() for expert in first}) == len(first)
        assert len({base[name].numpy().tobytes() for base in bases}) == 1


def test_moments_of_the_expert_are_reset_and_those_of_the_base_network_are_kept() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    for event in learner.learn(stream.tasks[0]):
        if step := contrastive(event):
            taken = [
                float(state["step"])
                for trainer in (learner.expert, learner.base)
                for state in list(trainer.optimizer.state_dict()["state"].values())[:1]
            ]
            expert, base = min(step, 3), 2 * learner.fills + max(0, step - 3)
            assert taken == [expert, base][: 1 + (base > 0)]


def test_augmented_views_are_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    learner = tiny_spr(tiny_stream())

    def look(net: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if net.training:
            seen.append(inputs[0])

    for trainer in (learner.expert, learner.base):
        trainer.net.register_forward_pre_hook(look)
    monkeypatch.setattr(learner, "_contrastive", lambda name: learner.expert)
    list(learner.learn(tiny_stream().tasks[0]))
    assert min(float(x.min()) for x in seen) < -0.5  # black, after normalisation


def test_learning_rates_restart_at_each_fill() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, expert_steps=28, base_steps=24)  # in two epochs
    rates: list[list[float]] = []
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and contrastive(event):
            trainer = learner.expert if event.work == "expert" else learner.base
            if contrastive(event) == 1:
                rates.append([])
            rates[-1].append(trainer.optimizer.param_groups[0]["lr"])
    expected = [cosine(k, 14, 1e-2) for k in range(14)] + [cosine(k, 12, 1e-2) for k in range(12)]
    assert len(rates) > 1
    assert all(fill == pytest.approx(expected) for fill in rates)


def test_contrastive_training_does_not_depend_on_labels() -> None:
    stream, other = tiny_stream(), tiny_stream()
    changed = replace(other.tasks[0], y=other.tasks[0].y.flip(0).roll(5))
    a, b = tiny_spr(stream), tiny_spr(other)
    assert not torch.equal(stream.tasks[0].y, changed.y)
    for one, two in zip(a.learn(stream.tasks[0]), b.learn(changed), strict=False):
        assert one == two  # with its loss
        assert same(weights(a.expert), weights(b.expert))
        assert same(weights(a.base), weights(b.base))
        if contrastive(one) == 5:
            break
    assert not torch.equal(a.delayed.y, b.delayed.y)


def test_half_of_a_base_batch_is_purified_once_that_buffer_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, epochs=6, purified=4, batch=6)
    seen: list[Tensor] = []

    def watch(x: Tensor, flip: bool, rng: torch.Generator) -> Tensor:
        assert not flip  # the tiny images are not mirrored
        seen.append(x)
        return x.float() / 255

    monkeypatch.setattr(spr, "strong_view", watch)
    kinds = set()
    for event in learner.learn(stream.tasks[0]):
        if not contrastive(event):
            continue
        assert torch.equal(seen[-1], seen[-2])  # two views of the same images
        delayed = {image.numpy().tobytes() for image in learner.delayed.x}
        purified = {image.numpy().tobytes() for image in learner.purified.samples().x}
        images = [image.numpy().tobytes() for image in seen[-1]]
        assert len(images) == 6
        if contrastive(event) <= 3 or len(learner.purified) < 4:
            assert set(images) <= delayed
            kinds.add("delayed")
        else:
            assert set(images[:3]) <= delayed
            assert set(images[3:]) <= purified
            kinds.add("both")
    assert kinds == {"delayed", "both"}


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_samples_are_kept_with_the_probability_that_they_are_clean(
    p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def certain(z: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        return torch.full((len(y),), p, dtype=torch.float64)

    monkeypatch.setattr(spr, "clean_probability", certain)
    stream = tiny_stream()
    learner = tiny_spr(stream, epochs=16, expert_steps=1, base_steps=1)
    list(learner.learn(stream.tasks[0]))
    fraction = int(learner.offered.sum()) / (16 * len(stream.tasks[0]))
    assert fraction == pytest.approx(p, abs=0.08 * (0 < p < 1))
    assert (learner.doubt[: len(learner.purified)] == 1 - p).all()


def test_the_purified_buffer_stores_the_doubt_of_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tiny_stream()
    estimated: dict[int, set[float]] = {}
    learner = tiny_spr(stream)
    estimate = spr.clean_probability

    def watch(z: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
        assert z.shape == (len(learner.delayed), 6)
        assert not z.requires_grad
        clean = estimate(z, y, rng)
        for id, p in zip(learner.delayed.samples().id.tolist(), clean.tolist(), strict=True):
            estimated.setdefault(id, set()).add(p)
        return clean

    monkeypatch.setattr(spr, "clean_probability", watch)
    for task in stream.tasks:
        list(learner.learn(task))
    samples = learner.purified.samples()
    assert len(samples) == 10
    assert len(set(samples.id.tolist())) == 10
    for id, doubt in zip(samples.id.tolist(), learner.doubt.tolist(), strict=True):
        assert any(1 - p == pytest.approx(doubt) for p in estimated[id])


def test_the_purified_buffer_holds_samples_of_the_stream_unchanged() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    for task in stream.tasks:
        list(learner.learn(task))
    samples = learner.purified.samples()
    assert torch.equal(samples.y, stream.observed[samples.id])
    assert torch.equal(samples.x, stream.tasks[0].source.take(samples.id))


def test_filtering_does_not_change_the_statistics_of_batchnorm() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    list(learner.learn(stream.tasks[0]))
    assert int(learner.expert.net.state_dict()["body.1.num_batches_tracked"]) == 3
    assert int(learner.base.net.state_dict()["body.1.num_batches_tracked"]) == 2 * learner.fills


def test_the_classifier_starts_from_the_features_of_the_base_network_without_changing_it() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, finetune_lr=1e-30)
    events = learner.learn(stream.tasks[0])
    for event in events:
        if isinstance(event, EpochDone) and event.epoch == 1:
            break
    base = weights(learner.base)
    list(events)
    assert same(weights(learner.base), base)
    made = dict(learner.classifier.net.named_parameters())
    assert made["head.weight"].shape == (6, 32)
    for name, parameter in learner.base.net.named_parameters():
        if not name.startswith("head."):
            assert torch.equal(made[name], parameter)


def test_a_new_classifier_is_trained_after_every_task_and_predicts_until_the_next() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    x = stream.tests[0].source.take(stream.tests[0].id)
    list(learner.learn(stream.tasks[0]))
    first = learner.predict(x)
    for event in learner.learn(stream.tasks[1]):
        if isinstance(event, EpochDone) and event.epoch == 1:
            break
        assert torch.equal(learner.predict(x), first)
    list(learner.learn(stream.tasks[1]))
    assert not torch.equal(learner.predict(x), first)


def test_fine_tuning_passes_over_the_purified_buffer_with_falling_learning_rates() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream, finetune_epochs=3)
    rates, samples, largest = [], 0, []
    for event in learner.learn(stream.tasks[0]):
        if isinstance(event, StepDone) and event.work == "classifier":
            rates.append(learner.classifier.optimizer.param_groups[0]["lr"])
            samples += event.samples
            gradients = [
                p.grad.abs().max() for p in learner.classifier.net.parameters() if p.grad is not None
            ]
            largest.append(float(max(gradients)))
    assert samples == 3 * 10
    assert rates == pytest.approx([2e-3] * 3 + [2e-4] * 3 + [2e-5] * 3)
    assert max(largest) <= 0.5


def test_a_finished_task_is_not_learned_again() -> None:
    stream = tiny_stream()
    learner = tiny_spr(stream)
    list(learner.learn(stream.tasks[0]))
    before = everything(learner)
    assert list(learner.learn(stream.tasks[0])) == []
    assert everything(learner) == before


def test_training_does_not_depend_on_true_labels() -> None:
    honest, poisoned = tiny_stream(), tiny_stream()
    poisoned.truth.fill_(0)
    learners = []
    for stream in (honest, poisoned):
        learners.append(tiny_spr(stream))
        list(learners[-1].learn(stream.tasks[0]))
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
        if isinstance(event, StepDone) and event.work == "expert"
    ]
    assert sum(filter(None, losses[-20:])) < sum(filter(None, losses[:20]))
