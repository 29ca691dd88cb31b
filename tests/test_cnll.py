"""CNLL: how rows are judged, what is minimised, what the buffers hold, and what is saved."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import reference_cnll as reference
import torch
from conftest import tiny_data, tiny_stream
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from remnant import checkpoint
from remnant.cnll import Cnll, CnllLearner
from remnant.cnll.learner import rounds
from remnant.cnll.purify import disagreement, divergence, split
from remnant.cnll.semi import Looks, TwoHeads, Views, fine_tuning_loss, warm_up_loss
from remnant.evaluate import is_clean
from remnant.memory import Memory
from remnant.nets import Small, build
from remnant.protocol import EpochDone, Event, Learner, Sorted, StepDone
from remnant.rng import Generators, derive
from remnant.schedule import Phase
from remnant.stream import Batch, Stream, make_stream

SIZES: dict[str, Any] = {"delay": 9, "clean": 6, "noisy": 5, "clean_store": 6, "noisy_store": 5}
SHORT = Cnll(
    **SIZES, clean_kept=2, noisy_kept=3, batch=4, warmup_epochs=2, finetune_epochs=3,
    warmup_lr=0.02, quiet=1, ramp=2,
)  # fmt: skip
KINDS = {
    "plain": SHORT,
    "hardened": replace(SHORT, hardened=True),
    "growing": replace(SHORT, unlimited=True),
    "modest": replace(SHORT, confidence_penalty=True),
    "delay smaller than a batch": replace(SHORT, delay=3, clean=4),
    "one batch": replace(SHORT, batch=64),
}


def cnll(stream: Stream, settings: Cnll = SHORT, epochs: int = 2, batch: int = 8) -> CnllLearner:
    def new_net(name: str) -> nn.Module:
        return build(Small(4), stream.spec, derive(3, name))

    return CnllLearner(settings, epochs, batch, stream.spec, new_net, Generators.from_seed(1))


def learned(stream: Stream, settings: Cnll = SHORT, **changes: Any) -> CnllLearner:  # noqa: ANN401
    learner = cnll(stream, settings, **changes)
    for _ in every_event(learner, stream):
        pass
    return learner


def every_event(learner: CnllLearner, stream: Stream) -> Iterator[Event]:
    for task in stream.tasks:
        yield from learner.learn(task)


def lessons(events: Iterator[Event]) -> Iterator[StepDone]:
    return (e for e in events if isinstance(e, StepDone) and e.phase is Phase.CONSOLIDATE)


def ids(memory: Memory | Batch) -> set[int]:
    rows = memory.rows() if isinstance(memory, Memory) else memory
    assert len(rows.id.unique()) == len(rows)
    return set(rows.id.tolist())


def row_numbers(stream: Stream) -> dict[bytes, int]:
    """Which row an image is."""
    x = stream.tasks[0].source.take(torch.arange(len(stream.truth)))
    numbers = {image.numpy().tobytes(): i for i, image in enumerate(x)}
    assert len(numbers) == len(x)
    return numbers


def distributions(rows: int, classes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), rows)


# --- how rows are judged


def test_divergence_of_equal_and_of_opposite_distributions() -> None:
    e1, e2 = torch.eye(2, dtype=torch.float64)[:, None]
    assert divergence(e1, e1).item() == 0
    assert divergence(e1, e2).item() == pytest.approx(math.log(2), abs=1e-15)
    # Half of 0.75 log(0.75 / 0.875) + 0.25 log(0.25 / 0.125) and of log(1 / 0.875).
    assert divergence(torch.tensor([[0.75, 0.25]]), e1).item() == pytest.approx(0.095602, abs=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_divergence_agrees_with_its_twin(seed: int, classes: int) -> None:
    p, q = distributions(4, classes, seed), distributions(4, classes, seed + 1)
    expected = [reference.jensen_shannon(a, b) for a, b in zip(p, q, strict=True)]
    found = divergence(torch.from_numpy(p), torch.from_numpy(q))
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    assert torch.equal(found, divergence(torch.from_numpy(q), torch.from_numpy(p)))


@given(st.integers(0, 10**6), st.booleans())
def test_disagreement_and_split_agree_with_their_twins(seed: int, hardened: bool) -> None:
    rng = np.random.default_rng(seed)
    classes, count = sorted(rng.permutation(6)[: rng.integers(1, 7)].tolist()), int(rng.integers(1, 40))
    logits, y = rng.normal(size=(count, 6)) * 3, rng.choice(classes, count)
    found = disagreement(torch.from_numpy(logits), torch.from_numpy(y), torch.tensor(classes), hardened)
    expected = reference.disagreements(logits, y.tolist(), classes, hardened)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    if len(set(found.tolist())) > 1 or found[0] == 0:  # the twin's mean of equal values may be rounded
        clean, noisy = split(found)
        assert (clean.tolist(), noisy.tolist()) == reference.split(found.tolist())


@pytest.mark.parametrize(("agreeing", "rows"), [(30, 50), (29, 50), (1, 7), (6, 7), (299, 500)])
def test_hardened_exactly_the_agreeing_rows_are_clean(agreeing: int, rows: int) -> None:
    y = torch.arange(rows) % 2
    agrees = torch.randperm(rows, generator=torch.Generator().manual_seed(rows)) < agreeing
    logits = torch.randn(rows, 4) + 20 * nn.functional.one_hot(torch.where(agrees, y, 1 - y) + 1, 4)
    logits[:, 3] = 99  # of another task: not asked
    clean, noisy = split(disagreement(logits, y + 1, torch.tensor([1, 2]), hardened=True))
    assert clean.tolist() == agrees.nonzero().flatten().tolist()  # ties in order of arrival
    assert sorted(clean.tolist() + noisy.tolist()) == list(range(rows))


def test_soft_a_doubtful_agreement_is_noisy() -> None:
    p = torch.tensor([0.99, 0.97, 0.55, 0.02, 0.98])  # of the given label, of two
    logits = torch.stack([p, 1 - p], 1).log()
    clean, noisy = split(disagreement(logits, torch.zeros(5, dtype=int), torch.tensor([0, 1]), False))
    # Divergences .003 .010 .189 .644 .007, whose mean is .171: the third agrees, but not enough.
    assert clean.tolist() == [0, 4, 1]
    assert noisy.tolist() == [3, 2]


@pytest.mark.parametrize("rows", [1, 2, 50, 500])
def test_where_all_agree_all_are_clean_and_where_none_does_none_is(rows: int) -> None:
    assert len(split(torch.zeros(rows, dtype=torch.float64)).clean) == rows
    assert len(split(torch.full((rows,), math.log(2), dtype=torch.float64)).clean) == 0
    assert len(split(torch.full((rows,), 0.1, dtype=torch.float64)).noisy) == rows


def test_one_class_leaves_nothing_to_disagree_about() -> None:
    apart = disagreement(torch.randn(5, 3), torch.full((5,), 1), torch.tensor([1]), hardened=False)
    assert apart.tolist() == [0] * 5


# --- settings


def test_the_weight_of_unlabelled_rows_rises_after_the_quiet_epochs() -> None:
    assert [Cnll().weight(e) for e in (0, 4.99, 5, 9)] == [0, 0, 0, 7.5]
    assert Cnll().weight(10 - 1e-9) < 30 * 5 / 16
    for epoch in (3.2, 6.1, 20.99, 40.0):
        assert Cnll().weight(epoch) == pytest.approx(reference.ramp(epoch, 30, 5, 16))


def test_with_the_papers_buffer_the_budget_is_the_papers() -> None:
    assert Cnll().capacity(500) == Cnll().budget(500) == 2500
    assert Cnll(unlimited=True).budget(500) is None


@pytest.mark.parametrize(
    "wrong", [{"delay": 1}, {"clean": -1}, {"batch": 2}, {"momentum": 1.0}, {"finetune_lr": 0.0}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=f"expected {name} .*, got {wrong[name]}"):
        Cnll(**wrong)


# --- what is minimised


class Plain(nn.Module):
    """Features and a head, without BatchNorm: what a row gives does not depend on the others."""

    def __init__(self, seed: int, classes: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = nn.Linear(5, 3, dtype=torch.float64)
            self.head = nn.Linear(3, classes, dtype=torch.float64)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x).tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def heads(seed: int, classes: int = 4) -> TwoHeads:
    return TwoHeads(Plain(seed, classes), Plain(seed + 1, classes))


def some_views(labelled: int, unlabelled: int, seed: int, classes: int = 4) -> Views:
    rng = torch.Generator().manual_seed(seed)

    def rows(count: int) -> Tensor:
        return torch.randn(2 * count, 5, generator=rng, dtype=torch.float64)

    y = torch.randint(classes, (labelled,), generator=rng)
    onehot = nn.functional.one_hot(y, classes).double()
    share = torch.rand(1, generator=rng, dtype=torch.float64)
    other = torch.randperm(2 * (labelled + unlabelled), generator=rng)
    return Views(rows(labelled), onehot, rows(unlabelled), rows(unlabelled), share, other)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 4), st.floats(0, 12))
def test_fine_tuning_loss_agrees_with_its_twin(
    seed: int, labelled: int, unlabelled: int, epoch: float
) -> None:
    net, views, how = heads(seed), some_views(labelled, unlabelled, seed), Cnll()
    seen = [True, seed % 2 == 0, True, False]
    loss = fine_tuning_loss(net, views, how, epoch, torch.tensor(seen))

    def first(row: np.ndarray) -> np.ndarray:
        return net(torch.from_numpy(row)[None])[0].detach().numpy()

    def second(row: np.ndarray) -> np.ndarray:
        return net.both(torch.from_numpy(row)[None])[1][0].detach().numpy()

    expected = reference.fine_tuning_loss(
        first, second,
        labelled=views.labelled.view(2, labelled, 5).numpy(),
        onehot=views.onehot.numpy(),
        weak=views.weak.view(2, unlabelled, 5).numpy(),
        strong=views.strong.view(2, unlabelled, 5).numpy(),
        temperature=how.temperature,
        weight=reference.ramp(epoch, 30, 5, 16),
        lam=views.share.item(),
        permutation=views.other.tolist(),
        seen=seen,
    )  # fmt: skip
    assert (loss.supervised.item(), loss.unsupervised.item()) == pytest.approx(expected, rel=1e-6)


def gradients(net: TwoHeads, loss: Tensor) -> dict[str, float]:
    net.zero_grad()
    loss.backward()
    return {n: 0.0 if p.grad is None else float(p.grad.abs().sum()) for n, p in net.named_parameters()}


def test_the_unsupervised_part_never_reaches_the_first_head() -> None:
    net, views = heads(0), some_views(3, 4, 0)
    loss = fine_tuning_loss(net, views, Cnll(), 9.0, torch.ones(4, dtype=torch.bool))
    size = gradients(net, loss.unsupervised)
    assert size["net.head.weight"] == 0
    assert size["net.head.bias"] == 0
    assert min(size["second.weight"], size["second.bias"], size["net.body.weight"]) > 0


def test_the_supervised_part_never_reaches_the_second_head() -> None:
    net, views = heads(0), some_views(3, 4, 0)
    loss = fine_tuning_loss(net, views, Cnll(), 9.0, torch.ones(4, dtype=torch.bool))
    size = gradients(net, loss.supervised)
    assert size["second.weight"] == size["second.bias"] == 0
    assert min(size["net.head.weight"], size["net.body.weight"]) > 0


def test_labels_are_guessed_from_weak_views_alone() -> None:
    net, views, seen = heads(0), some_views(2, 3, 0), torch.ones(4, dtype=torch.bool)
    unmixed = replace(views, share=torch.ones(1, dtype=torch.float64))
    moved = replace(unmixed, weak=unmixed.weak + 1)
    before, after = (fine_tuning_loss(net, v, Cnll(), 9.0, seen) for v in (unmixed, moved))
    assert before.supervised == after.supervised
    assert before.unsupervised != after.unsupervised
    with torch.no_grad():
        p = net(unmixed.weak).softmax(1)
        guess = ((p[:3] + p[3:]) / 2) ** 2
        guess /= guess.sum(1, keepdim=True)
        second = net.both(unmixed.strong)[1].softmax(1)
    expected = 0.1 * 7.5 * ((second - torch.cat([guess, guess])) ** 2).mean()
    quiet = fine_tuning_loss(net, unmixed, Cnll(), 5.0, seen)
    assert (before.unsupervised - quiet.unsupervised).item() == pytest.approx(expected.item())


def test_warm_up_is_cross_entropy_and_may_penalise_certainty() -> None:
    net, x, y = heads(0), torch.randn(3, 5, dtype=torch.float64), torch.tensor([0, 2, 1])
    onehot = nn.functional.one_hot(y, 4).double()
    plain = nn.functional.cross_entropy(net(x), y)
    entropy = torch.distributions.Categorical(logits=net(x)).entropy().mean()
    assert warm_up_loss(net, x, onehot, False).item() == pytest.approx(plain.item())
    assert warm_up_loss(net, x, onehot, True).item() == pytest.approx((plain - entropy).item())


def test_strong_views_are_strongly_augmented_and_weak_ones_are_not() -> None:
    view = tiny_stream().spec.view
    grey, onehot = torch.full((40, 1, 6, 6), 200, dtype=torch.uint8), torch.eye(40)
    views = Looks(view, torch.Generator().manual_seed(0)).views(grey[:2], onehot[:2], grey, 4.0)
    known = view.plain(torch.tensor([0, 200], dtype=torch.uint8).view(2, 1, 1, 1)).flatten()
    assert torch.isin(views.weak, known).all()  # a shift, and black that comes in
    assert not torch.isin(views.strong, known).all()
    counts = [len(v) for v in (views.labelled, views.weak, views.strong, views.other)]
    assert counts == [4, 80, 80, 84]
    assert len(views.share) == 1


# --- what the buffers hold


def test_a_learner_as_the_runner_knows_them() -> None:
    learner: Learner = cnll(tiny_stream())
    assert list(learner.memories()) == ["clean_store", "noisy_store", "clean", "noisy", "delay"]


@pytest.mark.parametrize("name", KINDS)
def test_buffers_never_exceed_their_sizes(name: str) -> None:
    stream, settings = tiny_stream(), KINDS[name]
    learner, most = cnll(stream, settings), dict.fromkeys(SIZES, 0)
    for _ in every_event(learner, stream):
        for buffer, memory in learner.memories().items():
            limited = not (settings.unlimited and buffer.endswith("_store"))
            assert len(memory) <= (getattr(settings, buffer) if limited else len(stream.truth))
            most[buffer] = max(most[buffer], len(memory))
    assert most["delay"] == settings.delay
    assert min(most.values()) > 0


def test_between_passes_only_the_stores_hold_rows() -> None:
    stream = tiny_stream()
    learner = cnll(stream)
    for event in every_event(learner, stream):
        if isinstance(event, EpochDone):
            assert [len(learner.buffers[name]) for name in ("delay", "clean", "noisy")] == [0, 0, 0]
            assert len(learner.buffers["clean_store"]) > 0


@pytest.mark.parametrize("hardened", [False, True])
def test_rows_are_judged_as_the_settings_say(hardened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, asked = tiny_stream(), set()

    def watch(logits: Tensor, y: Tensor, classes: Tensor, hard: bool) -> Tensor:
        asked.add(hard)
        return disagreement(logits, y, classes, hard)

    monkeypatch.setattr("remnant.cnll.learner.disagreement", watch)
    learned(stream, replace(SHORT, hardened=hardened), epochs=1)
    assert asked == {hardened}


def test_the_plan_knows_that_stores_fill_up_and_some_have_no_end() -> None:
    sized = Cnll().sized(100)
    few, many = (sized.plan([200], epochs, 32)["fine-tuning"].steps / epochs for epochs in (1, 20))
    endless = replace(sized, unlimited=True).plan([200], 20, 32)["fine-tuning"].steps / 20
    assert few < many < endless
    assert few == 30  # of 200 rows 100 are clean, beside 2 x 25 stored ones: 3 steps, 10 times
    assert many == pytest.approx(40, rel=0.02)  # beside 100, from the second epoch on


def test_every_row_that_waits_is_judged_once() -> None:
    stream = tiny_stream()
    settings = replace(SHORT, delay=7, clean=100, noisy=100)
    learner, judged = cnll(stream, settings, epochs=1, batch=5), 0
    task = stream.tasks[0]
    for event in learner.learn(task):
        if isinstance(event, StepDone) and event.phase is Phase.WRITE:
            parts = [ids(learner.buffers[name]) for name in ("delay", "clean", "noisy")]
            stored = set(task.id[learner.order[: learner.taken]].tolist())
            assert set.union(*parts) == stored
            assert sum(map(len, parts)) == len(stored)
            judged = len(parts[1]) + len(parts[2])
    assert judged >= len(task) - settings.delay


def test_the_surest_rows_are_offered_to_the_stores() -> None:
    stream = tiny_stream()
    learner = cnll(
        stream, replace(SHORT, delay=20, clean=100, noisy=100, clean_store=50, noisy_store=50)
    )
    task = stream.tasks[0]
    learner._store(task.take(torch.arange(20)))
    waiting = learner.buffers["delay"].rows()
    apart = disagreement(learner.predict(waiting.x), waiting.y, torch.tensor(task.classes), False)
    learner._divide(torch.tensor(task.classes))
    clean, noisy = reference.split(apart.tolist())
    assert ids(learner.buffers["clean"]) == set(waiting.id[clean].tolist())
    assert ids(learner.buffers["noisy"]) == set(waiting.id[noisy].tolist())
    assert learner.buffers["clean_store"].rows().id.tolist() == waiting.id[clean[:2]].tolist()
    assert learner.buffers["noisy_store"].rows().id.tolist() == waiting.id[noisy[:3]].tolist()


def test_a_step_learns_labels_of_clean_rows_and_images_of_noisy_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, inner, steps = tiny_stream(), Looks.views, []
    numbers = row_numbers(stream)
    learner = cnll(stream)

    def watched(looks: Looks, x: Tensor, onehot: Tensor, unlabelled: Tensor, mixup: float) -> Views:
        rows = [numbers[image.numpy().tobytes()] for image in x]
        others = [numbers[image.numpy().tobytes()] for image in unlabelled]
        held = {name: ids(memory) for name, memory in learner.buffers.items()}
        assert set(rows) <= held["clean"] | held["clean_store"]
        assert set(others) <= held["noisy"] | held["noisy_store"]
        assert not set(rows) & set(others)
        assert torch.equal(onehot.argmax(1), stream.observed[rows])
        steps.append((rows, others))
        return inner(looks, x, onehot, unlabelled, mixup)

    monkeypatch.setattr(Looks, "views", watched)
    for _ in every_event(learner, stream):
        pass
    assert len(steps) > 50
    assert all(len(others) <= len(rows) + 1 for rows, others in steps)
    assert sum(len(others) for _, others in steps) > 100


def test_labels_of_noisy_rows_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tiny_stream()
    as_they_are = learned(stream)
    divide = CnllLearner._divide

    def divide_and_lie(learner: CnllLearner, classes: Tensor) -> None:
        divide(learner, classes)
        for name in ("noisy", "noisy_store"):
            learner.buffers[name].y.fill_(-5)

    monkeypatch.setattr(CnllLearner, "_divide", divide_and_lie)
    assert_same_weights(as_they_are, learned(stream))


def assert_same_weights(a: CnllLearner, b: CnllLearner) -> None:
    mine, yours = a.net.state_dict(), b.net.state_dict()
    assert all(torch.equal(mine[name], yours[name]) for name in mine)


def test_a_row_counts_as_what_it_was_last_judged_to_be() -> None:
    stream = tiny_stream()
    learner = cnll(stream, replace(KINDS["growing"], clean=100, noisy=100), epochs=4)
    last: dict[int, str] = {}
    changed = 0
    for event in every_event(learner, stream):
        if isinstance(event, Sorted):
            for name in ("clean", "noisy"):
                judged = ids(learner.buffers[name]) & ids(learner.buffers["delay"])
                changed += sum(last.get(id, name) != name for id in judged)
                last |= dict.fromkeys(judged, name)
            for name in ("clean", "noisy"):
                assert {last[id] for id in ids(learner.buffers[f"{name}_store"])} <= {name}
        labelled, unlabelled = learner.pools()
        assert not ids(labelled) & ids(unlabelled)
        assert len(labelled) == len(ids(labelled))
    assert changed > 5


def test_a_store_without_a_size_keeps_every_row_it_is_offered() -> None:
    stream = tiny_stream()
    learner = cnll(stream, KINDS["growing"], epochs=1)
    offered: set[int] = set()
    for event in every_event(learner, stream):
        held = ids(learner.buffers["clean_store"])
        assert offered <= held
        offered = held
        if isinstance(event, EpochDone):
            tasks = learner.buffers["clean_store"].task[: len(held)]
            assert tasks.unique().tolist() == list(range(event.task + 1))
    assert len(offered) > SIZES["clean_store"]


def test_rounds_are_even() -> None:
    rng = torch.Generator().manual_seed(0)
    drawn = rounds(3, 7, rng)
    assert sorted(drawn[:3].tolist()) == sorted(drawn[3:6].tolist()) == [0, 1, 2]
    assert len(drawn) == 7
    assert len(rounds(0, 0, rng)) == len(rounds(5, 0, rng)) == 0


def test_clean_rows_are_purer_than_the_stream_and_noisy_ones_less_pure() -> None:
    stream = tiny_stream(noise=0.3)
    settings = replace(
        SHORT, delay=24, clean=24, noisy=24, unlimited=True, clean_kept=24, noisy_kept=24,
        batch=8, warmup_epochs=20, warmup_lr=0.02,
    )  # fmt: skip
    learner = learned(stream, settings, epochs=1)
    right = (stream.truth == stream.observed).double().mean()
    stores = (learner.buffers[name] for name in ("clean_store", "noisy_store"))
    clean, noisy = (is_clean(memory, stream).double().mean() for memory in stores)
    assert noisy + 0.2 < right < clean - 0.1


# --- edges


def norms_of(learner: CnllLearner) -> list[int]:
    """The number of rows in each batch that BatchNorm learns from, as they come."""
    seen: list[int] = []

    def look(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if module.training:
            seen.append(len(inputs[0]))

    for module in learner.net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_pre_hook(look)
    return seen


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize(("batch", "clean"), [(3, 1), (3, 5), (64, 1), (64, 5)])
def test_a_single_row_never_reaches_batchnorm(left: int, batch: int, clean: int) -> None:
    stream = tiny_stream()
    rows = len(stream.tasks[0])
    delay = next(d for d in range(4, rows) if rows % d == left)
    learner = cnll(stream, replace(SHORT, delay=delay, clean=clean, noisy=1, batch=batch), epochs=1)
    seen = norms_of(learner)
    for _ in every_event(learner, stream):
        pass
    assert min(seen) >= 2
    assert all(value.isfinite().all() for value in learner.net.state_dict().values())


def test_a_last_row_that_waits_alone_is_judged_without_a_warm_up() -> None:
    stream = tiny_stream()
    task = stream.tasks[0]
    few = replace(task, id=task.id[:10], y=task.y[:10])
    learner = cnll(stream, replace(SHORT, clean=100, noisy=100), epochs=1)  # nine wait, then one
    seen, last = norms_of(learner), 0
    for event in learner.learn(few):
        last = max(last, len(learner.buffers["clean"]) + len(learner.buffers["noisy"]))
        assert not isinstance(event, StepDone) or event.images > 0
    assert last == 10
    assert min(seen) >= 2


@pytest.mark.parametrize("hardened", [False, True])
def test_a_class_with_one_row_and_a_task_of_two(hardened: bool) -> None:
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
    """Every label agrees with its prediction."""

    def none(logits: Tensor, *_: object) -> Tensor:
        return torch.zeros(len(logits), dtype=torch.float64)

    monkeypatch.setattr("remnant.cnll.learner.disagreement", none)


@pytest.mark.usefixtures("agreed")
def test_without_noisy_rows_the_labelled_ones_are_learned_alone() -> None:
    stream = tiny_stream()
    learner = cnll(stream)
    tuned = [e for e in every_event(learner, stream) if learner.lesson == "fine-tuning"]
    assert len(tuned) > 50
    assert len(learner.buffers["noisy_store"]) == 0
    assert len(learner.buffers["clean_store"]) == SIZES["clean_store"]


def test_without_clean_rows_there_is_nothing_to_fine_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_equal(logits: Tensor, *_: object) -> Tensor:
        return torch.full((len(logits),), 0.3, dtype=torch.float64)

    monkeypatch.setattr("remnant.cnll.learner.disagreement", all_equal)
    stream = tiny_stream()
    learner = cnll(stream)
    assert {learner.lesson for _ in lessons(every_event(learner, stream))} == {"warm-up"}
    assert (len(learner.buffers["clean_store"]), len(learner.buffers["noisy"])) == (0, 0)


# --- steps, rates and heads


def test_events_tell_of_every_stored_batch_and_every_gradient_step() -> None:
    stream = tiny_stream()
    learner = cnll(stream, epochs=3)
    task = stream.tasks[0]
    events = list(learner.learn(task))
    stored = [e for e in events if isinstance(e, StepDone) and e.phase is Phase.WRITE]
    steps = math.ceil(len(task) / 8)
    assert [(e.epoch, e.step, e.steps) for e in stored] == [
        (epoch, step + 1, steps) for epoch in range(3) for step in range(steps)
    ]
    assert sum(e.images for e in stored) == 3 * len(task)
    assert all(e.loss is None for e in stored)
    taught = list(lessons(iter(events)))
    assert all(e.loss is not None and math.isfinite(e.loss) for e in taught)
    assert len(taught) == learner.net.state_dict()["net.body.1.num_batches_tracked"]  # no guess counts
    assert [e.epoch for e in events if isinstance(e, EpochDone)] == [0, 1, 2]
    assert not list(learner.learn(task))


def test_the_warm_up_keeps_its_own_rate_and_every_lesson_begins_at_rest() -> None:
    stream, settings = tiny_stream(), replace(SHORT, weight_decay=0.0)
    learner, met = cnll(stream, settings), set()
    for event in lessons(every_event(learner, stream)):
        (group,) = learner.optimizer.param_groups
        is_warm_up = learner.lesson == "warm-up"
        rate = settings.warmup_lr if is_warm_up else settings.finetune_lr
        assert group["lr"] == rate
        met.add((learner.lesson, event.epoch))
        if (event.epoch, event.step) == (0, 1):
            for p in learner.net.parameters():
                if p.grad is not None:
                    assert torch.equal(learner.optimizer.state[p]["momentum_buffer"], p.grad)
    expected = {("warm-up", e) for e in range(2)} | {("fine-tuning", e) for e in range(3)}
    assert met == expected


def test_every_delay_is_warmed_up_on() -> None:
    stream = tiny_stream()
    task = stream.tasks[0]
    learner = cnll(stream, replace(SHORT, clean=100), epochs=1)
    begun = [e for e in lessons(learner.learn(task)) if (e.epoch, e.step) == (0, 1)]
    assert len(task) % SHORT.delay > 1
    assert len(begun) == math.ceil(len(task) / SHORT.delay) + 1  # and one fine-tuning


def test_fine_tuning_counts_fractions_of_its_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, weight, asked = tiny_stream(), Cnll.weight, []
    learner = cnll(stream, epochs=1)

    def watched(settings: Cnll, epoch: float) -> float:
        asked.append(epoch)
        return weight(settings, epoch)

    monkeypatch.setattr(Cnll, "weight", watched)
    met = [
        event.epoch + (event.step - 1) / event.steps
        for event in lessons(learner.learn(stream.tasks[0]))
        if learner.lesson == "fine-tuning"
    ]
    assert asked == met
    assert any(epoch % 1 for epoch in asked)


def test_a_step_has_no_more_unlabelled_rows_than_there_are() -> None:
    stream = tiny_stream()
    learner = cnll(stream, replace(SHORT, noisy=1, noisy_store=1, batch=64), epochs=1)
    found = set()
    for event in lessons(every_event(learner, stream)):
        if learner.lesson == "fine-tuning":
            assert len(learner.others) <= event.steps * len(learner.pools()[1])
            found.add(len(learner.others))
    assert max(found) == 2


def test_only_fine_tuning_teaches_the_second_head() -> None:
    stream = tiny_stream()
    learner = cnll(stream)
    before, moved = learner.net.second.weight.clone(), set()
    for _ in lessons(every_event(learner, stream)):
        if not torch.equal(before, learner.net.second.weight):
            moved.add(learner.lesson)
        before = learner.net.second.weight.clone()
    assert moved == {"fine-tuning"}


def test_the_first_head_answers() -> None:
    stream = tiny_stream()
    learner = learned(stream, epochs=1)
    x = stream.tests[0].source.take(stream.tests[0].id)
    learner.net.eval()
    first, second = learner.net.both(stream.spec.view.plain(x))
    assert torch.allclose(learner.predict(x), first, atol=1e-5)
    assert not torch.allclose(first, second, atol=1e-2)


def test_two_learners_of_one_seed_agree_and_heads_begin_apart() -> None:
    stream = tiny_stream()
    assert_same_weights(learned(stream), learned(stream))
    fresh = cnll(stream).net
    assert not torch.equal(fresh.second.weight, fresh.state_dict()["net.head.weight"])


@pytest.mark.parametrize("name", KINDS)
def test_a_learner_can_be_cut_at_every_step_and_continued_to_the_same_bytes(name: str) -> None:
    stream, settings = tiny_stream(), KINDS[name]
    stream = replace(stream, tasks=stream.tasks[:2])
    whole, cut = learned(stream, settings), cnll(stream, settings)
    saved = {Phase.WRITE: 0, Phase.CONSOLIDATE: 0}
    for task in stream.tasks:
        done = False
        while not done:
            done = True
            for event in cut.learn(task):
                if isinstance(event, StepDone):
                    saved[event.phase], done = saved[event.phase] + 1, False
                    break
            state = copy.deepcopy(cut.state_dict())
            cut = cnll(stream, settings)
            cut.load_state_dict(checkpoint.unpack(checkpoint.pack(state)))
    assert saved[Phase.WRITE] == 2 * sum(math.ceil(len(task) / 8) for task in stream.tasks)
    assert saved[Phase.CONSOLIDATE] > 30
    assert checkpoint.pack(whole.state_dict()) == checkpoint.pack(cut.state_dict())
