"""What each consolidation minimises: hand-worked values, the literal twin, and the edges."""

import itertools
import math
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import reference_consolidation as reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from remnant.augment import Pasted, View, beta
from remnant.component import build, settings
from remnant.consolidate import (
    CONSOLIDATIONS,
    BufferFit,
    Consolidation,
    CoTeaching,
    DivideMix,
    MixMatch,
    PuriDivER,
    buffer_fit,
    coteaching,
)
from remnant.consolidate.choice import Bench, Part, plain_loss, side_by_side
from remnant.consolidate.coteaching import crossed
from remnant.consolidate.fit import sgdr
from remnant.consolidate.labels import refine, sharpen, soft_cross_entropy, squared_error, uniformity
from remnant.memory import Memory
from remnant.protocol import NOBODY, Division
from remnant.stream import Batch

CLASSES, FEATURES = 4, 5
KINDS = [BufferFit(), CoTeaching(), MixMatch(), DivideMix(warmup=1)]


class Jitter(View):
    """A view that shakes each row, so that no two views are alike."""

    def plain(self, x: Tensor) -> Tensor:
        return x

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        return x + torch.randn(x.shape, generator=rng, dtype=x.dtype)


def linear(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(FEATURES, CLASSES, dtype=torch.float64)


def bench_of(rows: int, seed: int = 0, nets: int = 2, classes: int = CLASSES) -> Bench:
    rng = torch.Generator().manual_seed(seed)
    memory = Memory(rows, (FEATURES,), dtype=torch.float64)
    x = torch.randn(rows, FEATURES, generator=rng, dtype=torch.float64)
    y = torch.randint(classes, (rows,), generator=rng)
    unknown = torch.zeros(rows, dtype=torch.float64)
    batch = Batch(x, y, torch.arange(rows))
    memory.put(torch.arange(rows), batch, 0, unknown, torch.empty(rows, 0))
    view = Jitter((0.0,), (1.0,))
    seen = torch.tensor([True, True, True, False])
    return Bench(tuple(linear(seed + k) for k in range(nets)), memory, view, rng, seen, 0.4)


def twin_of(net: nn.Module) -> reference.Net:
    weight, bias = (p.detach().numpy() for p in net.parameters())
    return lambda row: weight @ row + bias


def cloned(rng: torch.Generator) -> torch.Generator:
    return torch.Generator().set_state(rng.get_state())


@given(st.integers(0, 600), st.floats(1e-4, 1.0))
def test_the_rate_is_its_twin(epoch: int, lr: float) -> None:
    assert sgdr(epoch, lr) == pytest.approx(reference.sgdr_rate(epoch, lr), rel=1e-12)


def test_the_rate_restarts_where_it_should_and_ends_low() -> None:
    restarts = [e for e in range(1, 256) if sgdr(e, 0.05) > sgdr(e - 1, 0.05)]
    assert restarts == [3, 7, 15, 31, 63, 127, 255]  # epoch 1 restarts too, from the top to the top
    assert sgdr(0, 0.05) == sgdr(1, 0.05) == pytest.approx(0.05)
    assert sgdr(254, 0.05) == pytest.approx(0.0005, rel=0.02)


def test_sharpening_by_hand() -> None:
    three = sharpen(torch.tensor([[0.5, 0.3, 0.2]]), 0.5)
    assert three[0].tolist() == pytest.approx([0.6579, 0.2368, 0.1053], abs=5e-5)
    two = sharpen(torch.tensor([[0.2, 0.8]]), 0.5)
    assert two[0].tolist() == pytest.approx([0.0588, 0.9412], abs=5e-5)


def test_sharpening_survives_certainty() -> None:
    p = torch.tensor([[1.0, 0.0, 0.0], [1e-30, 1e-30, 1.0]])
    assert torch.allclose(sharpen(p, 0.1), torch.tensor([[1.0, 0, 0], [0, 0, 1]]))


def test_refining_by_hand() -> None:
    clean, onehot = torch.tensor([0.25]), torch.tensor([[1.0, 0.0]])
    assert refine(clean, onehot, torch.tensor([[0.2, 0.8]]))[0].tolist() == pytest.approx([0.4, 0.6])
    sharp = sharpen(torch.tensor([[0.2, 0.8]]), 0.5)
    found = refine(clean, onehot, sharp)[0].tolist()
    assert found == pytest.approx([0.2941, 0.7059], abs=5e-5)
    assert sum(found) == pytest.approx(1)


def test_soft_losses_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)]], dtype=torch.float64)  # probabilities 1/4, 3/4
    target = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    expected = -0.5 * math.log(0.25) - 0.5 * math.log(0.75)
    assert float(soft_cross_entropy(logits, target)) == pytest.approx(expected)
    assert float(squared_error(logits, target)) == pytest.approx(0.0625)
    assert float(soft_cross_entropy(logits[:0], target[:0])) == 0
    assert float(squared_error(logits[:0], target[:0])) == 0


def test_the_penalty_is_zero_only_for_a_uniform_mean_over_the_classes_seen() -> None:
    seen = torch.tensor([True, True, False])
    certain = torch.tensor([[50.0, 0.0, 0.0], [0.0, 50.0, 0.0]])  # one row each: uniform on the mean
    assert float(uniformity(certain, seen)) == pytest.approx(0, abs=1e-6)
    assert float(uniformity(certain[:1].repeat(2, 1), seen)) > 1
    # An even mean over all three classes puts a third of the mass where nothing was seen.
    assert float(uniformity(torch.zeros(2, 3), seen)) == pytest.approx(math.log(1.5), abs=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_the_penalty_is_its_twin_to_the_last_digits(seed: int, rows: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, 5, generator=rng, dtype=torch.float64)
    seen = torch.tensor([True, False, True, True, False])
    mean = np.mean([reference.softmax(row) for row in logits.numpy()], axis=0)
    expected = reference.uniform_penalty(mean.tolist(), seen.tolist())
    assert float(uniformity(logits, seen)) == pytest.approx(expected, abs=1e-12)
    assert uniformity(logits.float(), seen).dtype == torch.float32


def test_the_remembered_share_by_hand() -> None:
    kept = [CoTeaching(forget_rate=0.4).kept(100, epoch, 0.0) for epoch in (0, 1, 9, 10, 11)]
    assert kept == [100, 96, 64, 60, 60]
    assert CoTeaching(forget_rate=0.4).kept(32, 10, 0.0) == 20


@given(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]), st.integers(0, 12), st.integers(2, 128))
def test_the_remembered_share_is_its_twin(rate: float, epoch: int, rows: int) -> None:
    expected = reference.keep_count(epoch, rate, rows)
    assert CoTeaching(forget_rate=rate).kept(rows, epoch, 0.9) == expected
    assert CoTeaching().kept(rows, epoch, rate) == expected  # the known share of wrong labels


def test_networks_choose_rows_for_each_other() -> None:
    first = torch.tensor([0.0, 9.0], requires_grad=True)
    second = torch.tensor([9.0, 0.0], requires_grad=True)
    crossed(first, second, 1).backward()
    assert first.grad is not None
    assert second.grad is not None
    assert first.grad.tolist() == [0, 1]  # what the other finds easy
    assert second.grad.tolist() == [1, 0]


def losses_of(bench: Bench, x: Tensor, y: Tensor) -> list[list[float]]:
    return [nn.functional.cross_entropy(net(x), y, reduction="none").tolist() for net in bench.nets]


@pytest.mark.parametrize("epoch", [0, 5, 40])
def test_co_teaching_learns_from_as_many_rows_as_the_epoch_allows(epoch: int) -> None:
    bench, part = bench_of(10), Part((0, 1), torch.arange(10))
    rng = cloned(bench.rng)
    loss = CoTeaching().loss(bench, part, None, epoch)
    x = bench.view.augmented(bench.memory.x, rng)
    keep = reference.keep_count(epoch, 0.4, 10)  # the known share of wrong labels
    expected = sum(reference.coteaching_loss(*losses_of(bench, x, bench.memory.y), keep))
    assert loss.item() == pytest.approx(expected)


@pytest.mark.parametrize(("module", "how"), [(coteaching, CoTeaching()), (buffer_fit, BufferFit())])
def test_a_pasted_patch_brings_its_label(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, how: Consolidation
) -> None:
    bench, other = bench_of(6), torch.tensor([1, 2, 3, 4, 5, 0])
    monkeypatch.setattr(module, "cutmix", lambda x, probability, rng: Pasted(x, other, 0.25))
    rng = cloned(bench.rng)
    loss = how.loss(bench, Part((0, 1), torch.arange(6)), None, epoch=0)
    x, y = bench.view.augmented(bench.memory.x, rng), bench.memory.y
    own, pasted = losses_of(bench, x, y), losses_of(bench, x, y[other])
    nets = range(how.networks)
    assert loss.item() == pytest.approx(
        sum(0.25 * np.mean(own[k]) + 0.75 * np.mean(pasted[k]) for k in nets)
    )


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_crossed_losses_are_their_twin(seed: int, keep: int) -> None:
    first, second = torch.rand(2, 6, generator=torch.Generator().manual_seed(seed))
    expected = sum(reference.coteaching_loss(first.tolist(), second.tolist(), keep))
    assert float(crossed(first, second, keep)) == pytest.approx(expected, rel=1e-5)


def test_the_weight_of_unlabelled_rows_by_hand() -> None:
    assert [DivideMix().weight(e) for e in (0, 10, 18, 26, 27)] == [0, 0, 12.5, 25, 25]
    assert DivideMix().weight(13) == reference.unlabelled_weight(13, 10)


@pytest.mark.parametrize("seed", range(6))
def test_the_mixmatch_loss_is_its_twin(seed: int) -> None:
    bench, how = bench_of(7, seed), MixMatch(lambda_u=0.7)
    rows = torch.randperm(7, generator=torch.Generator().manual_seed(seed))[:5]
    clean = torch.rand(1, 7, generator=torch.Generator().manual_seed(seed + 9), dtype=torch.float64)
    rng = cloned(bench.rng)
    loss = how.loss(bench, Part((0,), rows), Division(clean, ("",)), epoch=0)

    pure, unsure = rows[clean[0][rows] > 0.5], rows[clean[0][rows] <= 0.5]
    views = [bench.view.augmented(bench.memory.x[unsure], rng) for _ in range(3)]
    pure_x = bench.view.augmented(bench.memory.x[pure], rng)
    lam = beta(0.5, len(pure) + 3 * len(unsure), rng)
    order = torch.randperm(len(lam), generator=rng)
    expected = reference.mixmatch_loss(
        twin_of(bench.nets[0]), pure_x.numpy(), bench.onehot(pure).numpy(),
        torch.stack(views).numpy(), bench.onehot(unsure).numpy(), clean[0][unsure].tolist(), 0.5,
        lam.tolist(), order.tolist(), 0.7,
    )  # fmt: skip
    assert loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [0, 1])
def test_the_dividemix_loss_is_its_twin(seed: int, k: int) -> None:
    bench, how = bench_of(7, seed), DivideMix(lambda_u=3.0, warmup=0, ramp=2)
    rows = torch.randperm(7, generator=torch.Generator().manual_seed(seed))[:5]
    clean = torch.rand(2, 7, generator=torch.Generator().manual_seed(seed + 9), dtype=torch.float64)
    clean[k][rows[0]] = 0.9  # one labelled row at least
    rng = cloned(bench.rng)
    loss = how.loss(bench, Part((k,), rows), Division(clean, ("", "")), epoch=1)

    labelled, unlabelled = rows[clean[k][rows] > 0.5], rows[clean[k][rows] <= 0.5]
    near = [bench.view.augmented(bench.memory.x[labelled], rng) for _ in range(2)]
    far = [bench.view.augmented(bench.memory.x[unlabelled], rng) for _ in range(2)]
    lam = beta(4.0, 1, rng)
    order = torch.randperm(2 * len(rows), generator=rng)
    expected = reference.dividemix_loss(
        twin_of(bench.nets[k]), twin_of(bench.nets[1 - k]), torch.stack(near).numpy(),
        bench.onehot(labelled).numpy(), clean[k][labelled].tolist(), torch.stack(far).numpy(), 0.5,
        float(lam), order.tolist(), 1.5, bench.seen.tolist(),
    )  # fmt: skip
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_a_guess_averages_views_of_its_own_image_only() -> None:
    bench = bench_of(2)
    net = bench.nets[0]
    views = [torch.randn(2, FEATURES, dtype=torch.float64) for _ in range(3)]
    guess = bench.guess([net], views)
    for image in range(2):
        own = torch.stack([net(view[image]).softmax(0) for view in views]).mean(0)
        assert torch.allclose(guess[image], own.detach())
    changed = [view.clone() for view in views]
    for view in changed:
        view[1] += 5
    assert torch.equal(bench.guess([net], changed)[0], guess[0])
    assert not torch.equal(bench.guess([net], changed)[1], guess[1])


def test_a_guess_is_a_distribution_though_logits_are_not() -> None:
    bench = bench_of(3)
    guess = bench.guess(bench.nets, [bench.augmented(torch.arange(3)) for _ in range(2)])
    assert (guess >= 0).all()
    assert torch.allclose(guess.sum(1), torch.ones(3, dtype=torch.float64))


def test_each_network_is_divided_by_the_other() -> None:
    bench = bench_of(30)
    division = DivideMix(warmup=0).divide(bench, 0)
    swapped = DivideMix(warmup=0).divide(replace(bench, nets=bench.nets[::-1]), 0)
    assert division is not None
    assert swapped is not None
    assert torch.equal(division.clean[0], swapped.clean[1])
    own = MixMatch().divide(replace(bench, nets=bench.nets[1:]), 0)
    assert own is not None
    assert torch.equal(division.clean[0], own.clean[0])  # by the losses of the second network


def test_the_warm_up_is_not_divided() -> None:
    bench, how = bench_of(30), DivideMix(warmup=2)
    assert how.divide(bench, 1) is None
    assert how.divide(bench, 2) is not None
    assert [part.nets for part in how.parts(torch.arange(30), None)] == [(0, 1)]


def test_a_confidence_penalty_is_cross_entropy_less_entropy() -> None:
    bench = bench_of(6)
    part, rng = Part((0, 1), torch.arange(6)), cloned(bench.rng)
    plain = DivideMix().loss(bench, part, None, 0)
    bench.rng.set_state(rng.get_state())
    penalised = DivideMix(confidence_penalty=True).loss(bench, part, None, 0)
    x = bench.view.augmented(bench.memory.x, rng)
    entropy = sum(torch.special.entr(net(x).softmax(1)).sum(1).mean() for net in bench.nets)
    assert (plain - penalised).item() == pytest.approx(entropy.item())


def test_labelled_rows_of_dividemix_come_in_full_batches_with_a_part_of_the_rest() -> None:
    clean = torch.ones(2, 100)
    clean[0, :40] = 0.0
    division = Division(clean, ("", ""))
    parts = DivideMix(batch=16).parts(torch.randperm(100), division)
    first = [part.rows for part in parts if part.nets == (0,)]
    assert [int((clean[0][rows] > 0.5).sum()) for rows in first] == [15] * 4
    assert [int((clean[0][rows] < 0.5).sum()) for rows in first] == [10] * 4
    assert torch.cat(first).sort().values.tolist() == list(range(100))
    assert [part.nets for part in parts] == [(0,)] * 4 + [(1,)] * 7  # one network after the other


@given(st.integers(1, 60), st.lists(st.integers(0, 200), min_size=1, max_size=2), st.integers(3, 20))
def test_groups_side_by_side_are_their_twin(first: int, others: list[int], size: int) -> None:
    edges = np.cumsum([0, first, *others])
    groups = [torch.arange(a, b) for a, b in itertools.pairwise(edges)]
    found = [rows.tolist() for rows in side_by_side(groups, size)]
    assert found == reference.steps_of_groups([rows.tolist() for rows in groups], size)


@pytest.mark.parametrize("trusted", [1, 7, 40, 1000, 1999])
def test_no_step_of_dividemix_is_larger_than_two_batches(trusted: int) -> None:
    clean = torch.zeros(2, 2000)
    clean[:, :trusted] = 1.0
    parts = DivideMix().parts(torch.randperm(2000), Division(clean, ("", "")))
    for k in range(2):
        rows = [part.rows for part in parts if part.nets == (k,)]
        assert len(rows) == math.ceil(max(trusted, 2000 - trusted) / 64)
        for step in rows:
            assert 1 <= int((step < trusted).sum()) <= 64
            assert int((step >= trusted).sum()) <= 64
            assert len(step.unique()) == len(step)
        times = torch.bincount(torch.cat(rows), minlength=2000)
        assert (times[trusted:] == 1).all()
        assert times[:trusted].max() - times[:trusted].min() <= 1
        assert (times == 1).all() == (trusted >= len(rows))  # only too few labelled rows come again


def test_without_a_division_labels_are_taken_as_they_are() -> None:
    for how in (MixMatch(), DivideMix()):
        bench = bench_of(6)
        division, part = Division(torch.ones(2, 6), ("equal", "equal")), Part((0,), torch.arange(6))
        rng = cloned(bench.rng)
        loss = how.loss(bench, part, division, 50)
        bench.rng.set_state(rng.get_state())
        assert torch.equal(loss, plain_loss(bench, part))


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("rows", [2, 3, 9])
def test_an_empty_pure_or_uncertain_part_is_no_problem(share: float, rows: int) -> None:
    bench = bench_of(rows)
    division = Division(torch.full((2, rows), share), ("", ""))
    loss = MixMatch().loss(bench, Part((0,), torch.arange(rows)), division, 5)
    assert loss.isfinite()
    loss.backward()


def test_nobody_to_be_trusted_is_a_reason_for_plain_cross_entropy() -> None:
    low = torch.full((5,), 0.2)
    assert Division.of([low, torch.tensor([0.9, 0.1, 0.1, 0.1, 0.1])]).plain == (NOBODY, "")
    assert Division.of(["too few"]).plain == ("too few",)


@pytest.mark.parametrize("how", KINDS, ids=lambda how: type(how).__name__)
@pytest.mark.parametrize(("rows", "classes"), [(2, 2), (3, 1), (1 + 64, 4), (5, 4)])
def test_every_batch_of_every_memory_gives_a_finite_loss(
    how: Consolidation, rows: int, classes: int
) -> None:
    bench = bench_of(rows, classes=classes)
    for epoch in range(3):
        division = how.divide(bench, epoch)
        parts = how.parts(torch.randperm(rows), division)
        for part in parts:
            assert len(part.rows) > 1
            assert how.loss(bench, part, division, epoch).isfinite()
        for k in range(how.networks):
            seen = torch.cat([part.rows for part in parts if k in part.nets])
            assert seen.sort().values.tolist() == list(range(rows))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lr": 0.0}, "expected lr > 0, got 0.0"),
        ({"epochs": 0, "batch": 2}, "expected epochs >= 1, got 0; expected batch >= 3, got 2"),
        ({"momentum": 1.0}, "expected momentum in"),
        ({"clip": -1.0}, "expected clip >= 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BufferFit(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (CoTeaching, {"forget_rate": 1.0}),
        (CoTeaching, {"forget_rate": -0.5}),
        (BufferFit, {"cutmix": 1.5}),
        (MixMatch, {"views": 0}),
        (MixMatch, {"temperature": 0.0}),
        (DivideMix, {"mixup": 0.0}),
        (DivideMix, {"warmup": -1}),
    ],
)
def test_each_kind_refuses_its_own_nonsense(
    kind: type[Consolidation], settings: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match=f"expected {next(iter(settings))}"):
        kind(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("name", CONSOLIDATIONS)
def test_no_setting_may_be_infinite(name: str, value: float) -> None:
    numbers = {k: v for k, v in settings(CONSOLIDATIONS[name]).items() if isinstance(v, float)}
    assert bool(numbers) == (name != "none")
    for key in numbers:
        with pytest.raises(ValueError, match=f"expected {key} .*, got {value}"):
            build("consolidation", CONSOLIDATIONS, {"name": name, key: value})


@pytest.mark.parametrize("kind", [DivideMix, PuriDivER])
def test_a_warm_up_that_never_ends_is_refused(kind: type[DivideMix | PuriDivER]) -> None:
    assert kind(epochs=11).warmup == 10
    with pytest.raises(ValueError, match=r"^expected epochs > warmup \(10\), got 10$"):
        kind(epochs=10)
    with pytest.raises(ValueError, match=r"epochs > warmup \(255\), got 255"):
        kind(warmup=255)
    assert kind(epochs=1, warmup=0).epochs == 1


def test_the_losses_of_the_memory_are_those_of_an_evaluated_network() -> None:
    bench = bench_of(9)
    net = bench.nets[0].train()
    expected = reference.softmax
    logits = net(bench.memory.x).detach().numpy()
    wanted = [-np.log(expected(row)[y]) for row, y in zip(logits, bench.memory.y, strict=True)]
    assert bench.losses(net).tolist() == pytest.approx(wanted)
    assert not net.training
