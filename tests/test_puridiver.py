"""PuriDivER's learning: the memory alone, in three groups; and the method as a whole."""

from dataclasses import replace

import numpy as np
import pytest
import reference_consolidation as reference
import torch
from conftest import tiny_learner, tiny_stream
from test_consolidate import Jitter, bench_of, cloned
from torch import Tensor, nn

from remnant.augment import View
from remnant.consolidate import PuriDivER
from remnant.consolidate.choice import Bench, Part
from remnant.consolidate.puridiver import LOPSIDED
from remnant.methods import PURIDIVER, PURIDIVER_ME
from remnant.nets import NormedHead
from remnant.protocol import Division, StepDone
from remnant.schedule import Phase


class Shaken(Jitter):
    """Weak views shake a row a little, strong ones more."""

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        return x + 3 * torch.randn(x.shape, generator=rng, dtype=x.dtype)


def shaken(bench: Bench) -> Bench:
    return replace(bench, view=Shaken((0.0,), (1.0,)))


def probabilities(net: nn.Module, x: Tensor) -> np.ndarray:
    return np.array([reference.softmax(row) for row in net(x).detach().numpy()])


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_by_the_definitions(seed: int) -> None:
    bench = shaken(bench_of(9, seed, nets=1))
    net, rows = bench.nets[0], torch.arange(9)
    clean = torch.tensor([[0.9, 0.8, 0.7, 0.1, 0.2, 0.3, 0.4, 0.1, 0.2]], dtype=torch.float64)
    relabel = torch.tensor([False] * 3 + [True] * 4 + [False] * 2)
    rng = cloned(bench.rng)
    how = PuriDivER(cutmix=0.0)
    loss = how.loss(bench, Part((0,), rows), Division(clean, ("",), relabel), epoch=50)

    trusted = bench.view.strong(bench.memory.x[:3], rng)
    torch.rand(4, generator=rng), torch.randperm(3, generator=rng)  # CutMix's own, not used
    weak = bench.view.augmented(bench.memory.x[3:7], rng)
    strong = bench.view.strong(bench.memory.x[3:7], rng)
    one = bench.view.augmented(bench.memory.x[7:], rng)
    other = bench.view.strong(bench.memory.x[7:], rng)
    y = bench.memory.y
    first = np.mean([-np.log(p[c]) for p, c in zip(probabilities(net, trusted), y[:3], strict=True)])
    second = 0.0
    said = probabilities(net, weak)
    for i, p in enumerate(probabilities(net, strong)):
        label = reference.refine(float(clean[0, 3 + i]), np.eye(4)[int(y[3 + i])], said[i])
        second += -float(label @ np.log(p)) / 4
    third = float((net(one) - net(other)).square().mean().detach())
    assert loss.item() == pytest.approx((3 * first + 4 * second + 2 * third) / 9)


def test_a_mended_label_is_no_way_for_gradients() -> None:
    bench = shaken(bench_of(6, nets=1))
    net, rng = bench.nets[0], cloned(bench.rng)
    clean = torch.tensor([[0.9] + [0.3] * 5], dtype=torch.float64)
    division = Division(clean, ("",), torch.arange(6) > 0)
    loss = PuriDivER(cutmix=0.0).loss(bench, Part((0,), torch.arange(6)), division, epoch=50)
    given = torch.autograd.grad(loss, list(net.parameters()))
    trusted = bench.view.strong(bench.memory.x[:1], rng)
    torch.rand(4, generator=rng), torch.randperm(1, generator=rng)
    weak, strong = (look(bench.memory.x[1:], rng) for look in (bench.view.augmented, bench.view.strong))
    with torch.no_grad():
        label = 0.3 * bench.onehot(torch.arange(1, 6)) + 0.7 * net(weak).softmax(1)
    own = nn.functional.cross_entropy(net(trusted), bench.memory.y[:1])
    wanted = (own - (label * net(strong).log_softmax(1)).sum()) / 6
    for a, b in zip(given, torch.autograd.grad(wanted, list(net.parameters())), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_sure_network_mends_labels_and_an_unsure_one_leaves_them_out() -> None:
    bench = bench_of(40, nets=1)
    logits = torch.zeros(40, 4, dtype=torch.float64)
    y = bench.memory.y
    logits[torch.arange(20), y[:20]] = torch.linspace(6, 7, 20).double()  # agrees with the label
    wrong = (y + 1) % 4
    logits[torch.arange(20, 30), wrong[20:30]] = torch.linspace(6, 7, 10).double()  # sure, disagrees
    for other in (wrong, (y + 2) % 4):  # as wrong, but torn between two classes
        logits[torch.arange(30, 40), other[30:]] = torch.linspace(6, 6.2, 10).double()
    net = Answers(logits)
    division = PuriDivER(warmup=0).divide(replace(bench, nets=(net,), view=Numbered((0.0,), (1.0,))), 0)
    assert division is not None
    assert (division.clean[0] > 0.5).tolist() == [True] * 20 + [False] * 20
    assert division.relabel is not None
    assert division.relabel.tolist() == [False] * 20 + [True] * 10 + [False] * 10


def test_a_group_of_two_is_too_small() -> None:
    bench = bench_of(40, nets=1)
    y, logits = bench.memory.y, torch.zeros(40, 4, dtype=torch.float64)
    logits[torch.arange(20), y[:20]] = torch.linspace(6, 7, 20).double()
    logits[torch.arange(20, 40), (y[20:] + 1) % 4] = torch.linspace(6, 7, 20).double()
    logits[38:, :] = logits[38:, :].roll(1, 1) + logits[38:, :]  # two are torn
    logits[torch.arange(38, 40), y[38:]] = 0
    how, view = PuriDivER(warmup=0), Numbered((0.0,), (1.0,))
    division = how.divide(replace(bench, nets=(Answers(logits),), view=view), 0)
    assert division is not None
    assert division.plain == (LOPSIDED,)


class Numbered(View):
    """Shows row i as the number i."""

    def plain(self, x: Tensor) -> Tensor:
        return torch.arange(len(x))


class Answers(nn.Module):
    """Says what it was told."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, rows: Tensor) -> Tensor:
        return self.logits[rows]


def test_too_few_doubted_rows_are_a_reason_for_plain_cross_entropy() -> None:
    bench = bench_of(30, nets=1)
    logits = torch.zeros(30, 4, dtype=torch.float64)
    logits[torch.arange(30), bench.memory.y] = torch.linspace(6, 7, 30).double()
    logits[:2] = -logits[:2]
    view = Numbered((0.0,), (1.0,))
    division = PuriDivER(warmup=0).divide(replace(bench, nets=(Answers(logits),), view=view), 0)
    assert division is not None
    assert division.plain == ("of the doubted rows: fewer than 3 rows",)


def test_every_row_is_in_one_batch_and_groups_are_spread_evenly() -> None:
    clean = torch.zeros(1, 100)
    clean[0, :60] = 1.0
    relabel = torch.arange(100) >= 80
    parts = PuriDivER(batch=16).parts(torch.randperm(100), Division(clean, ("",), relabel))
    assert torch.cat([p.rows for p in parts]).sort().values.tolist() == list(range(100))
    for part in parts:
        assert int((part.rows < 60).sum()) == 15
        assert int((part.rows >= 80).sum()) == 5


@pytest.mark.parametrize(("trusted", "mended"), [(1, 1), (1, 999), (30, 900), (999, 1)])
def test_no_step_has_more_than_a_batch_of_any_group(trusted: int, mended: int) -> None:
    clean = torch.zeros(1, 1000)
    clean[0, :trusted] = 1.0
    relabel = (torch.arange(1000) >= trusted) & (torch.arange(1000) < trusted + mended)
    parts = PuriDivER().parts(torch.randperm(1000), Division(clean, ("",), relabel))
    groups = [clean[0] > 0.5, relabel, (clean[0] <= 0.5) & ~relabel]
    for part in parts:
        counts = [int(group[part.rows].sum()) for group in groups]
        assert max(counts) <= 16
        assert counts[0] >= 1
        assert len(part.rows) > 1
    times = torch.bincount(torch.cat([part.rows for part in parts]), minlength=1000)
    assert (times[~groups[0]] == 1).all()
    assert (times[groups[0]] >= 1).all()


def test_one_trusted_row_among_many_gives_finite_losses() -> None:
    bench, how = shaken(bench_of(60, nets=1)), PuriDivER(cutmix=0.0)
    clean = torch.zeros(1, 60, dtype=torch.float64)
    clean[0, 7] = 0.9
    division = Division(clean, ("",), torch.arange(60) >= 40)
    parts = how.parts(torch.randperm(60), division)
    assert len(parts) == 3
    assert all(how.loss(bench, part, division, 50).isfinite() for part in parts)


def test_the_memory_of_me_is_frozen_after_the_first_epoch_of_a_task() -> None:
    stream = tiny_stream()
    method = replace(PURIDIVER_ME, consolidation=PuriDivER(epochs=2, warmup=1))
    learner = tiny_learner(method, stream, epochs=4)
    for task in stream.tasks:
        after_first: list[int] = []
        for event in learner.learn(task):
            if isinstance(event, StepDone) and event.phase is Phase.STANDARD:
                after_first = learner.memory.id.tolist()
            elif after_first:
                assert learner.memory.id.tolist() == after_first


def test_puridiver_brings_its_head() -> None:
    stream = tiny_stream()
    learner = tiny_learner(
        replace(PURIDIVER, consolidation=PuriDivER(epochs=1, warmup=0)), stream, epochs=2
    )
    assert isinstance(learner.net.head, NormedHead)
    assert learner.net.head.weight.shape == (6, 32)
    assert learner.net.head.linear.bias is None
    for task in stream.tasks:
        for _ in learner.learn(task):
            pass
    assert len(learner.memory) == 10
    counts = torch.bincount(learner.memory.rows().y, minlength=6)
    assert counts.max() - counts.min() <= 1
