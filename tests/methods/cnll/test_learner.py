"""CNLL: what the buffers hold, what is trained when, and that training can be interrupted at every step."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import reference_cnll as reference
import torch
from conftest import tiny_data, tiny_net, tiny_setup, tiny_stream
from torch import Tensor, nn

from remnant.buffer.buffer import Buffer
from remnant.experiment import checkpoint
from remnant.experiment.evaluate import is_clean
from remnant.methods.cnll import Cnll
from remnant.methods.cnll.learner import CnllLearner, rounds
from remnant.methods.cnll.purify import disagreement
from remnant.methods.cnll.semi import Augmenter, Views
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import EpochDone, Event, SamplesSplit, StepDone, TaskLearner
from remnant.rng import Generators
from remnant.stream import Batch, Stream, Task, make_stream

SIZES: dict[str, Any] = {"delay": 9, "clean": 6, "noisy": 5, "clean_store": 6, "noisy_store": 5}
SHORT = Cnll(
    **SIZES, clean_kept=2, noisy_kept=3, batch=4, warmup_epochs=2, finetune_epochs=3,
    warmup_lr=0.02, quiet=1, ramp=2,
)  # fmt: skip
KINDS = {
    "plain": SHORT,
    "hardened": replace(SHORT, hardened=True),
    "unlimited": replace(SHORT, unlimited=True),
    "confidence penalty": replace(SHORT, confidence_penalty=True),
    "delay smaller than a batch": replace(SHORT, delay=3, clean=4),
    "one batch": replace(SHORT, batch=64),
}


def cnll(stream: Stream, settings: Cnll = SHORT, epochs: int = 2, batch: int = 8) -> CnllLearner:
    setup = tiny_setup(stream, epochs=epochs, batch=batch)
    return CnllLearner(settings, setup, tiny_net(stream), Generators.from_seed(1))


def learned(stream: Stream, settings: Cnll = SHORT, **changes: Any) -> CnllLearner:  # noqa: ANN401
    learner = cnll(stream, settings, **changes)
    for _ in every_event(learner, stream):
        pass
    return learner


def every_event(learner: CnllLearner, stream: Stream) -> Iterator[Event]:
    for task in stream.tasks:
        yield from learner.learn(task)


def training_steps(events: Iterator[Event]) -> Iterator[StepDone]:
    """The steps of warm-up and fine-tuning."""
    return (e for e in events if isinstance(e, StepDone) and e.phase is Phase.CONSOLIDATE)


def ids(buffer: Buffer | Batch) -> set[int]:
    samples = buffer.samples() if isinstance(buffer, Buffer) else buffer
    assert len(samples.id.unique()) == len(samples)
    return set(samples.id.tolist())


def ids_by_image(stream: Stream) -> dict[bytes, int]:
    """The id of the sample with each image."""
    x = stream.tasks[0].source.take(torch.arange(len(stream.truth)))
    numbers = {image.numpy().tobytes(): i for i, image in enumerate(x)}
    assert len(numbers) == len(x)
    return numbers


def test_a_learner_has_five_buffers() -> None:
    learner: TaskLearner = cnll(tiny_stream())
    assert list(learner.buffers()) == ["clean_store", "noisy_store", "clean", "noisy", "delay"]


@pytest.mark.parametrize("name", KINDS)
def test_buffers_never_exceed_their_sizes(name: str) -> None:
    stream, settings = tiny_stream(), KINDS[name]
    learner, most = cnll(stream, settings), dict.fromkeys(SIZES, 0)
    for _ in every_event(learner, stream):
        for buffer_name, buffer in learner.buffers().items():
            is_limited = not (settings.unlimited and buffer_name.endswith("_store"))
            assert len(buffer) <= (getattr(settings, buffer_name) if is_limited else len(stream.truth))
            most[buffer_name] = max(most[buffer_name], len(buffer))
    assert most["delay"] == settings.delay
    assert min(most.values()) > 0


def test_between_epochs_only_the_replay_stores_hold_samples() -> None:
    stream = tiny_stream()
    learner = cnll(stream)
    for event in every_event(learner, stream):
        if isinstance(event, EpochDone):
            assert [len(learner.stores[name]) for name in ("delay", "clean", "noisy")] == [0, 0, 0]
            assert len(learner.stores["clean_store"]) > 0


@pytest.mark.parametrize("hardened", [False, True])
def test_the_setting_hardened_decides_how_samples_are_split(
    hardened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, asked = tiny_stream(), set()

    def watch(logits: Tensor, y: Tensor, classes: Tensor, hard: bool) -> Tensor:
        asked.add(hard)
        return disagreement(logits, y, classes, hard)

    monkeypatch.setattr("remnant.methods.cnll.learner.disagreement", watch)
    learned(stream, replace(SHORT, hardened=hardened), epochs=1)
    assert asked == {hardened}


def test_every_delayed_sample_is_split_once() -> None:
    stream = tiny_stream()
    settings = replace(SHORT, delay=7, clean=100, noisy=100)
    learner, split = cnll(stream, settings, epochs=1, batch=5), 0
    task, taken = stream.tasks[0], 0
    for event in learner.learn(task):
        if isinstance(event, StepDone) and event.phase is Phase.WRITE:
            taken += event.samples
            parts = [ids(learner.stores[name]) for name in ("delay", "clean", "noisy")]
            stored = set(task.id[learner.stream.order[:taken]].tolist())
            assert set.union(*parts) == stored
            assert sum(map(len, parts)) == len(stored)
            split = len(parts[1]) + len(parts[2])
    assert split >= len(task) - settings.delay


def test_the_most_confident_samples_are_offered_to_the_stores() -> None:
    stream = tiny_stream()
    settings = replace(SHORT, delay=20, clean=100, noisy=100, clean_store=50, noisy_store=50)
    learner, task = cnll(stream, settings), stream.tasks[0]
    assert list(learner._store(task, torch.arange(20))) == []
    waiting = learner.stores["delay"].samples()
    distance = disagreement(learner.predict(waiting.x), waiting.y, torch.tensor(task.classes), False)
    learner._split(task)
    clean, noisy = reference.split(distance.tolist())
    assert ids(learner.stores["clean"]) == set(waiting.id[clean].tolist())
    assert ids(learner.stores["noisy"]) == set(waiting.id[noisy].tolist())
    assert learner.stores["clean_store"].samples().id.tolist() == waiting.id[clean[:2]].tolist()
    assert learner.stores["noisy_store"].samples().id.tolist() == waiting.id[noisy[:3]].tolist()


def test_a_step_uses_labels_of_clean_samples_and_images_of_noisy_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, inner, steps = tiny_stream(), Augmenter.views, []
    numbers = ids_by_image(stream)
    learner = cnll(stream)

    def watched(augmenter: Augmenter, x: Tensor, onehot: Tensor, unlabelled: Tensor, mixup: float) -> Views:
        labelled = [numbers[image.numpy().tobytes()] for image in x]
        others = [numbers[image.numpy().tobytes()] for image in unlabelled]
        held = {name: ids(buffer) for name, buffer in learner.stores.items()}
        assert set(labelled) <= held["clean"] | held["clean_store"]
        assert set(others) <= held["noisy"] | held["noisy_store"]
        assert not set(labelled) & set(others)
        assert torch.equal(onehot.argmax(1), stream.observed[labelled])
        steps.append((labelled, others))
        return inner(augmenter, x, onehot, unlabelled, mixup)

    monkeypatch.setattr(Augmenter, "views", watched)
    for _ in every_event(learner, stream):
        pass
    assert len(steps) > 50
    assert all(len(others) <= len(labelled) + 1 for labelled, others in steps)
    assert sum(len(others) for _, others in steps) > 100


def test_labels_of_noisy_samples_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tiny_stream()
    expected = learned(stream)
    split = CnllLearner._split

    def split_and_overwrite(learner: CnllLearner, task: Task) -> None:
        split(learner, task)
        for name in ("noisy", "noisy_store"):
            learner.stores[name].y.fill_(-5)

    monkeypatch.setattr(CnllLearner, "_split", split_and_overwrite)
    assert_same_weights(expected, learned(stream))


def assert_same_weights(a: CnllLearner, b: CnllLearner) -> None:
    mine, yours = a.net.state_dict(), b.net.state_dict()
    assert all(torch.equal(mine[name], yours[name]) for name in mine)


def test_a_sample_belongs_to_the_side_of_its_last_split() -> None:
    stream = tiny_stream()
    learner = cnll(stream, replace(KINDS["unlimited"], clean=100, noisy=100), epochs=4)
    last: dict[int, str] = {}
    changed = 0
    for event in every_event(learner, stream):
        if isinstance(event, SamplesSplit):
            for name in ("clean", "noisy"):
                assigned = ids(learner.stores[name]) & ids(learner.stores["delay"])
                changed += sum(last.get(id, name) != name for id in assigned)
                last |= dict.fromkeys(assigned, name)
            for name in ("clean", "noisy"):
                assert {last[id] for id in ids(learner.stores[f"{name}_store"])} <= {name}
        labelled, unlabelled = learner.pools()
        assert not ids(labelled) & ids(unlabelled)
        assert len(labelled) == len(ids(labelled))
    assert changed > 5


def test_an_unlimited_store_keeps_every_sample_that_it_is_offered() -> None:
    stream = tiny_stream()
    learner = cnll(stream, KINDS["unlimited"], epochs=1)
    offered: set[int] = set()
    for event in every_event(learner, stream):
        held = ids(learner.stores["clean_store"])
        assert offered <= held
        offered = held
        if isinstance(event, EpochDone):
            tasks = learner.stores["clean_store"].task[: len(held)]
            assert tasks.unique().tolist() == list(range(event.task + 1))
    assert len(offered) > SIZES["clean_store"]


def test_rounds_draw_each_number_equally_often() -> None:
    rng = torch.Generator().manual_seed(0)
    drawn = rounds(3, 7, rng)
    assert sorted(drawn[:3].tolist()) == sorted(drawn[3:6].tolist()) == [0, 1, 2]
    assert len(drawn) == 7
    assert rounds(1, 3, rng).tolist() == [0, 0, 0]
    assert len(rounds(0, 0, rng)) == len(rounds(5, 0, rng)) == 0


def test_the_clean_store_is_purer_than_the_stream_and_the_noisy_store_is_less_pure() -> None:
    stream = tiny_stream(noise=0.3)
    settings = replace(
        SHORT, delay=24, clean=24, noisy=24, unlimited=True, clean_kept=24, noisy_kept=24,
        batch=8, warmup_epochs=20, warmup_lr=0.02,
    )  # fmt: skip
    learner = learned(stream, settings, epochs=1)
    stream_purity = (stream.truth == stream.observed).double().mean()
    stores = (learner.stores[name] for name in ("clean_store", "noisy_store"))
    clean, noisy = (is_clean(buffer, stream).double().mean() for buffer in stores)
    assert noisy + 0.2 < stream_purity < clean - 0.1


def norms_of(learner: CnllLearner) -> list[int]:
    """The sizes of the batches that update BatchNorm, filled in during training."""
    seen: list[int] = []

    def record(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if module.training:
            seen.append(len(inputs[0]))

    for module in learner.net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_pre_hook(record)
    return seen


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize(("batch", "clean"), [(3, 1), (3, 5), (64, 1), (64, 5)])
def test_batchnorm_never_gets_a_batch_of_one_sample(left: int, batch: int, clean: int) -> None:
    stream = tiny_stream()
    samples = len(stream.tasks[0])
    delay = next(d for d in range(4, samples) if samples % d == left)
    learner = cnll(stream, replace(SHORT, delay=delay, clean=clean, noisy=1, batch=batch), epochs=1)
    seen = norms_of(learner)
    for _ in every_event(learner, stream):
        pass
    assert min(seen) >= 2
    assert all(value.isfinite().all() for value in learner.net.state_dict().values())


def test_a_single_last_sample_is_split_without_a_warm_up() -> None:
    stream = tiny_stream()
    task = stream.tasks[0]
    few = replace(task, id=task.id[:10], y=task.y[:10])
    learner = cnll(stream, replace(SHORT, clean=100, noisy=100), epochs=1)  # nine are delayed, then one
    seen, last = norms_of(learner), 0
    for event in learner.learn(few):
        last = max(last, len(learner.stores["clean"]) + len(learner.stores["noisy"]))
        assert not isinstance(event, StepDone) or event.samples > 0
    assert last == 10
    assert min(seen) >= 2


@pytest.mark.parametrize("hardened", [False, True])
def test_a_class_of_one_sample_and_a_task_of_two_samples_are_allowed(hardened: bool) -> None:
    data = tiny_data()
    observed = np.array(data.y)
    observed[(data.y == 0) & (np.arange(len(data.y)) > 0)] = 2
    stream = make_stream(data, observed, range(6), [3, 3], 0.0, np.random.default_rng(0))
    assert int((stream.tasks[0].y == 0).sum()) == 1
    task = replace(stream.tasks[1], number=0, id=stream.tasks[1].id[:2], y=stream.tasks[1].y[:2])
    learner = cnll(stream, replace(SHORT, hardened=hardened))
    assert [type(event) for event in learner.learn(task)].count(EpochDone) == 2
    for _ in learner.learn(replace(stream.tasks[0], number=1)):
        pass
    assert learner.predict(stream.tests[0].source.take(stream.tests[0].id)).isfinite().all()


@pytest.fixture
def agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every label agree with its prediction."""

    def none(logits: Tensor, *_: object) -> Tensor:
        return torch.zeros(len(logits), dtype=torch.float64)

    monkeypatch.setattr("remnant.methods.cnll.learner.disagreement", none)


@pytest.mark.usefixtures("agreed")
def test_without_noisy_samples_fine_tuning_uses_labelled_ones_alone() -> None:
    stream = tiny_stream()
    learner = cnll(stream)
    tuned = [e for e in training_steps(every_event(learner, stream)) if e.work == "fine-tuning"]
    assert len(tuned) > 50
    assert len(learner.stores["noisy_store"]) == 0
    assert len(learner.stores["clean_store"]) == SIZES["clean_store"]


def test_without_clean_samples_there_is_no_fine_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_equal(logits: Tensor, *_: object) -> Tensor:
        return torch.full((len(logits),), 0.3, dtype=torch.float64)

    monkeypatch.setattr("remnant.methods.cnll.learner.disagreement", all_equal)
    stream = tiny_stream()
    learner = cnll(stream)
    assert {event.work for event in training_steps(every_event(learner, stream))} == {"warm-up"}
    assert (len(learner.stores["clean_store"]), len(learner.stores["noisy"])) == (0, 0)


def test_there_is_an_event_for_every_stored_batch_and_every_gradient_step() -> None:
    stream = tiny_stream()
    learner = cnll(stream, epochs=3)
    task = stream.tasks[0]
    events = list(learner.learn(task))
    stored = [e for e in events if isinstance(e, StepDone) and e.phase is Phase.WRITE]
    steps = math.ceil(len(task) / 8)
    assert [(e.epoch, e.step, e.steps) for e in stored] == [
        (epoch, step + 1, steps) for epoch in range(3) for step in range(steps)
    ]
    assert sum(e.samples for e in stored) == 3 * len(task)
    assert all(e.loss is None for e in stored)
    trained = list(training_steps(iter(events)))
    assert all(e.loss is not None and math.isfinite(e.loss) for e in trained)
    assert (
        len(trained) == learner.net.state_dict()["net.body.1.num_batches_tracked"]
    )  # guessing labels does not count
    assert [e.epoch for e in events if isinstance(e, EpochDone)] == [0, 1, 2]
    assert not list(learner.learn(task))


def test_warm_up_and_fine_tuning_have_their_own_learning_rates_and_start_without_momentum() -> None:
    stream, settings = tiny_stream(), replace(SHORT, weight_decay=0.0)
    learner, met = cnll(stream, settings), set()
    for event in training_steps(every_event(learner, stream)):
        (group,) = learner.optimizer.param_groups
        is_warm_up = event.work == "warm-up"
        rate = settings.warmup_lr if is_warm_up else settings.finetune_lr
        assert group["lr"] == rate
        met.add((event.work, event.epoch))
        if (event.epoch, event.step) == (0, 1):
            for p in learner.net.parameters():
                if p.grad is not None:
                    assert torch.equal(learner.optimizer.state[p]["momentum_buffer"], p.grad)
    expected = {("warm-up", e) for e in range(2)} | {("fine-tuning", e) for e in range(3)}
    assert met == expected


def test_there_is_a_warm_up_for_every_full_delay_buffer() -> None:
    stream = tiny_stream()
    task = stream.tasks[0]
    learner = cnll(stream, replace(SHORT, clean=100), epochs=1)
    begun = [e for e in training_steps(learner.learn(task)) if (e.epoch, e.step) == (0, 1)]
    assert len(task) % SHORT.delay > 1
    assert len(begun) == math.ceil(len(task) / SHORT.delay) + 1  # and one fine-tuning


def test_fine_tuning_counts_fractions_of_its_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, weight, asked = tiny_stream(), Cnll.unlabelled_weight, []
    learner = cnll(stream, epochs=1)

    def watched(settings: Cnll, epoch: float) -> float:
        asked.append(epoch)
        return weight(settings, epoch)

    monkeypatch.setattr(Cnll, "unlabelled_weight", watched)
    met = [
        event.epoch + (event.step - 1) / event.steps
        for event in training_steps(learner.learn(stream.tasks[0]))
        if event.work == "fine-tuning"
    ]
    assert asked == met
    assert any(epoch % 1 for epoch in asked)


def test_a_step_has_at_most_as_many_unlabelled_samples_as_there_are() -> None:
    stream = tiny_stream()
    learner = cnll(stream, replace(SHORT, noisy=1, noisy_store=1, batch=64), epochs=1)
    found = set()
    for event in training_steps(every_event(learner, stream)):
        if event.work == "fine-tuning":
            assert len(learner.unlabelled) <= event.steps * len(learner.pools()[1])
            found.add(len(learner.unlabelled))
    assert max(found) == 2


def test_only_fine_tuning_trains_the_second_head() -> None:
    stream = tiny_stream()
    learner = cnll(stream)
    before, changed = learner.net.second.weight.clone(), set()
    for event in training_steps(every_event(learner, stream)):
        if not torch.equal(before, learner.net.second.weight):
            changed.add(event.work)
        before = learner.net.second.weight.clone()
    assert changed == {"fine-tuning"}


def test_predictions_are_those_of_the_first_head() -> None:
    stream = tiny_stream()
    learner = learned(stream, epochs=1)
    x = stream.tests[0].source.take(stream.tests[0].id)
    learner.net.eval()
    first, second = learner.net.both(stream.spec.transform.plain(x))
    assert torch.allclose(learner.predict(x), first, atol=1e-5)
    assert not torch.allclose(first, second, atol=1e-2)


@pytest.mark.slow
def test_two_learners_of_one_seed_are_equal_and_their_two_heads_differ() -> None:
    stream = tiny_stream()
    assert_same_weights(learned(stream), learned(stream))
    fresh = cnll(stream).net
    assert not torch.equal(fresh.second.weight, fresh.state_dict()["net.head.weight"])


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ("plain", "unlimited") else [pytest.mark.slow]) for n in KINDS],
)
def test_a_learner_interrupted_at_every_step_ends_with_the_same_bytes(name: str) -> None:
    stream, settings = tiny_stream(), KINDS[name]
    stream = replace(stream, tasks=stream.tasks[:2])
    whole, resumed = learned(stream, settings), cnll(stream, settings)
    saved = {Phase.WRITE: 0, Phase.CONSOLIDATE: 0}
    for task in stream.tasks:
        done = False
        while not done:
            done = True
            for event in resumed.learn(task):
                if isinstance(event, StepDone):
                    saved[event.phase], done = saved[event.phase] + 1, False
                    break
            state = copy.deepcopy(resumed.state_dict())
            resumed = cnll(stream, settings)
            resumed.load_state_dict(checkpoint.unpack(checkpoint.pack(state)))
    assert saved[Phase.WRITE] == 2 * sum(math.ceil(len(task) / 8) for task in stream.tasks)
    assert saved[Phase.CONSOLIDATE] > 30
    assert checkpoint.pack(whole.state_dict()) == checkpoint.pack(resumed.state_dict())
