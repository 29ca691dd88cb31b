from dataclasses import replace

import numpy as np
import pytest
import reference_consolidation as reference
import torch
from conftest import tiny_learner, tiny_stream
from consolidation_context import clone, make_context
from torch import Tensor, nn

from remnant.methods.consolidation import PuriDivER
from remnant.methods.consolidation.base import StepBatch
from remnant.methods.consolidation.division import Division
from remnant.methods.consolidation.puridiver import GROUP_TOO_SMALL
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import StepDone
from remnant.methods.registry import PURIDIVER, PURIDIVER_ME
from remnant.nets import NormedHead
from remnant.transforms.image import ImageTransform


class SampleNumbers(ImageTransform):
    """Replaces sample i by the number i."""

    def plain(self, x: Tensor) -> Tensor:
        return torch.arange(len(x))


class FixedLogits(nn.Module):
    """Returns the given logits of sample i for the input i."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, index: Tensor) -> Tensor:
        return self.logits[index]


def divide(logits: Tensor) -> Division:
    """Divide the buffer of `make_context` with a network that returns these logits."""
    context = make_context(len(logits), nets=1)
    transform = SampleNumbers((0.0,), (1.0,))
    context = replace(context, nets=(FixedLogits(logits),), transform=transform)
    division = PuriDivER(warmup=0).divide(context, 0)
    assert division is not None
    return division


def probabilities(net: nn.Module, x: Tensor) -> np.ndarray:
    return np.array([reference.softmax(logits) for logits in net(x).detach().numpy()])


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_matches_its_definition(seed: int) -> None:
    context = make_context(9, seed, nets=1)
    net, transform, x, y = context.nets[0], context.transform, context.buffer.x, context.buffer.y
    clean = torch.tensor([[0.9, 0.8, 0.7, 0.1, 0.2, 0.3, 0.4, 0.1, 0.2]], dtype=torch.float64)
    relabel = torch.tensor([False] * 3 + [True] * 4 + [False] * 2)
    rng, division = clone(context.rng), Division(clean, ("",), relabel)
    loss = PuriDivER(cutmix=0.0).loss(context, StepBatch((0,), torch.arange(9)), division, epoch=50)

    trusted = transform.strong(x[:3], rng)
    torch.rand(4, generator=rng), torch.randperm(3, generator=rng)  # drawn by CutMix, not used
    weak, strong = transform.augmented(x[3:7], rng), transform.strong(x[3:7], rng)
    one, other = transform.augmented(x[7:], rng), transform.strong(x[7:], rng)
    first = np.mean([-np.log(p[c]) for p, c in zip(probabilities(net, trusted), y[:3], strict=True)])
    second = 0.0
    guess = probabilities(net, weak)
    for i, p in enumerate(probabilities(net, strong)):
        label = reference.refine(float(clean[0, 3 + i]), np.eye(4)[int(y[3 + i])], guess[i])
        second += -float(label @ np.log(p)) / 4
    third = float((net(one) - net(other)).square().mean().detach())
    assert loss.item() == pytest.approx((3 * first + 4 * second + 2 * third) / 9)


def test_a_new_label_has_no_gradient() -> None:
    context = make_context(6, nets=1)
    net, transform, x = context.nets[0], context.transform, context.buffer.x
    clean = torch.tensor([[0.9] + [0.3] * 5], dtype=torch.float64)
    rng, division = clone(context.rng), Division(clean, ("",), torch.arange(6) > 0)
    loss = PuriDivER(cutmix=0.0).loss(context, StepBatch((0,), torch.arange(6)), division, epoch=50)
    found = torch.autograd.grad(loss, list(net.parameters()))
    trusted = transform.strong(x[:1], rng)
    torch.rand(4, generator=rng), torch.randperm(1, generator=rng)
    weak, strong = transform.augmented(x[1:], rng), transform.strong(x[1:], rng)
    with torch.no_grad():
        label = 0.3 * context.onehot(torch.arange(1, 6)) + 0.7 * net(weak).softmax(1)
    own = nn.functional.cross_entropy(net(trusted), context.buffer.y[:1])
    expected = (own - (label * net(strong).log_softmax(1)).sum()) / 6
    for a, b in zip(found, torch.autograd.grad(expected, list(net.parameters())), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_confident_predictions_relabel_samples_and_uncertain_ones_drop_the_label() -> None:
    y, logits = make_context(40, nets=1).buffer.y, torch.zeros(40, 4, dtype=torch.float64)
    logits[torch.arange(20), y[:20]] = torch.linspace(6, 7, 20).double()  # agrees with the label
    wrong = (y + 1) % 4
    logits[torch.arange(20, 30), wrong[20:30]] = torch.linspace(6, 7, 10).double()  # confident
    for other in (wrong, (y + 2) % 4):  # uncertain between two classes
        logits[torch.arange(30, 40), other[30:]] = torch.linspace(6, 6.2, 10).double()
    division = divide(logits)
    assert (division.clean[0] > 0.5).tolist() == [True] * 20 + [False] * 20
    assert division.relabel is not None
    assert division.relabel.tolist() == [False] * 20 + [True] * 10 + [False] * 10
    assert division.predicted is not None
    assert division.predicted[20:30].tolist() == wrong[20:30].tolist()


def test_a_group_of_two_samples_is_too_small() -> None:
    y, logits = make_context(40, nets=1).buffer.y, torch.zeros(40, 4, dtype=torch.float64)
    logits[torch.arange(20), y[:20]] = torch.linspace(6, 7, 20).double()
    logits[torch.arange(20, 40), (y[20:] + 1) % 4] = torch.linspace(6, 7, 20).double()
    logits[38:, :] = logits[38:, :].roll(1, 1) + logits[38:, :]  # two predictions are uncertain
    logits[torch.arange(38, 40), y[38:]] = 0
    assert divide(logits).fallback == (GROUP_TOO_SMALL,)


def test_too_few_untrusted_samples_are_a_reason_to_use_all_labels() -> None:
    y, logits = make_context(30, nets=1).buffer.y, torch.zeros(30, 4, dtype=torch.float64)
    logits[torch.arange(30), y] = torch.linspace(6, 7, 30).double()
    logits[:2] = -logits[:2]
    assert divide(logits).fallback == ("untrusted samples: fewer than 3 samples",)


def test_every_sample_is_in_one_batch_and_groups_are_spread_evenly() -> None:
    clean = torch.zeros(1, 100)
    clean[0, :60] = 1.0
    relabel = torch.arange(100) >= 80
    batches = PuriDivER(batch=16).batches(torch.randperm(100), Division(clean, ("",), relabel))
    assert torch.cat([step.samples for step in batches]).sort().values.tolist() == list(range(100))
    for step in batches:
        assert int((step.samples < 60).sum()) == 15
        assert int((step.samples >= 80).sum()) == 5


@pytest.mark.parametrize(("trusted", "relabelled"), [(1, 1), (1, 999), (30, 900), (999, 1)])
def test_a_step_has_at_most_one_batch_of_each_group(trusted: int, relabelled: int) -> None:
    clean = torch.zeros(1, 1000)
    clean[0, :trusted] = 1.0
    relabel = (torch.arange(1000) >= trusted) & (torch.arange(1000) < trusted + relabelled)
    batches = PuriDivER().batches(torch.randperm(1000), Division(clean, ("",), relabel))
    groups = [clean[0] > 0.5, relabel, (clean[0] <= 0.5) & ~relabel]
    for step in batches:
        counts = [int(group[step.samples].sum()) for group in groups]
        assert max(counts) <= 16
        assert counts[0] >= 1
        assert len(step.samples) > 1
    times = torch.bincount(torch.cat([step.samples for step in batches]), minlength=1000)
    assert (times[~groups[0]] == 1).all()
    assert (times[groups[0]] >= 1).all()


def test_a_single_trusted_sample_gives_finite_losses() -> None:
    context, puridiver = make_context(60, nets=1), PuriDivER(cutmix=0.0)
    clean = torch.zeros(1, 60, dtype=torch.float64)
    clean[0, 7] = 0.9
    division = Division(clean, ("",), torch.arange(60) >= 40)
    batches = puridiver.batches(torch.randperm(60), division)
    assert len(batches) == 3
    assert all(puridiver.loss(context, step, division, 50).isfinite() for step in batches)


def test_puridiver_me_keeps_its_buffer_after_the_first_epoch_of_a_task() -> None:
    stream = tiny_stream()
    method = replace(PURIDIVER_ME, consolidation=PuriDivER(epochs=2, warmup=1))
    learner = tiny_learner(method, stream, epochs=4)
    for task in stream.tasks:
        after_first: list[int] = []
        for event in learner.learn(task):
            if isinstance(event, StepDone) and event.phase is Phase.STANDARD:
                after_first = learner.buffer.id.tolist()
            elif after_first:
                assert learner.buffer.id.tolist() == after_first


def test_puridiver_has_a_normed_head_and_a_balanced_buffer() -> None:
    stream = tiny_stream()
    method = replace(PURIDIVER, consolidation=PuriDivER(epochs=1, warmup=0))
    learner = tiny_learner(method, stream, epochs=2)
    assert isinstance(learner.net.head, NormedHead)
    assert learner.net.head.weight.shape == (6, 32)
    assert learner.net.head.linear.bias is None
    for task in stream.tasks:
        for _ in learner.learn(task):
            pass
    assert len(learner.buffer) == 10
    counts = torch.bincount(learner.buffer.samples().y, minlength=6)
    assert counts.max() - counts.min() <= 1
