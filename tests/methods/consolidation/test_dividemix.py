import math
from dataclasses import replace

import pytest
import reference_consolidation as reference
import torch
from consolidation_context import clone, make_context, reference_net

from remnant.methods.consolidation import DivideMix, MixMatch
from remnant.methods.consolidation.base import StepBatch
from remnant.methods.consolidation.division import Division
from remnant.transforms.mixing import beta


def test_the_weight_of_unlabelled_samples_rises_after_the_warm_up() -> None:
    assert [DivideMix().weight(e) for e in (0, 10, 18, 26, 27)] == [0, 0, 12.5, 25, 25]
    assert DivideMix().weight(13) == reference.unlabelled_weight(13, 10)


def compare_with_reference(seed: int, k: int) -> None:
    context = make_context(7, seed)
    samples = torch.randperm(7, generator=torch.Generator().manual_seed(seed))[:5]
    clean = torch.rand(2, 7, generator=torch.Generator().manual_seed(seed + 9), dtype=torch.float64)
    clean[k][samples[0]] = 0.9  # at least one labelled sample
    rng, division = clone(context.rng), Division(clean, ("", ""))
    dividemix = DivideMix(lambda_u=3.0, warmup=0, ramp=2)
    loss = dividemix.loss(context, StepBatch((k,), samples), division, epoch=1)

    labelled, unlabelled = samples[clean[k][samples] > 0.5], samples[clean[k][samples] <= 0.5]
    x = context.buffer.x
    labelled_views = [context.transform.augmented(x[labelled], rng) for _ in range(2)]
    unlabelled_views = [context.transform.augmented(x[unlabelled], rng) for _ in range(2)]
    lam = beta(4.0, 1, rng)
    order = torch.randperm(2 * len(samples), generator=rng)
    expected = reference.dividemix_loss(
        reference_net(context.nets[k]), reference_net(context.nets[1 - k]),
        torch.stack(labelled_views).numpy(), context.onehot(labelled).numpy(),
        clean[k][labelled].tolist(), torch.stack(unlabelled_views).numpy(), 0.5, float(lam),
        order.tolist(), 1.5, context.seen.tolist(),
    )  # fmt: skip
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_the_loss_matches_the_reference() -> None:
    for seed in range(2):
        for k in range(2):
            compare_with_reference(seed, k)


@pytest.mark.slow
def test_the_loss_matches_the_reference_for_more_seeds() -> None:
    for seed in range(2, 6):
        for k in range(2):
            compare_with_reference(seed, k)


def test_the_losses_of_one_network_divide_the_buffer_for_the_other() -> None:
    context = make_context(30)
    division = DivideMix(warmup=0).divide(context, 0)
    swapped = DivideMix(warmup=0).divide(replace(context, nets=context.nets[::-1]), 0)
    assert division is not None
    assert swapped is not None
    assert torch.equal(division.clean[0], swapped.clean[1])
    by_second = MixMatch().divide(replace(context, nets=context.nets[1:]), 0)
    assert by_second is not None
    assert torch.equal(division.clean[0], by_second.clean[0])
    # New labels are guessed by both networks together.
    guess = context.guess(context.nets, [context.buffer.x])
    assert torch.equal(division.predicted, guess.argmax(1))
    assert torch.equal(by_second.predicted, context.nets[1](context.buffer.x).argmax(1))


def test_the_warm_up_has_no_division_and_trains_both_networks_together() -> None:
    context, dividemix = make_context(30), DivideMix(warmup=2)
    assert dividemix.divide(context, 1) is None
    assert dividemix.divide(context, 2) is not None
    assert [step.nets for step in dividemix.batches(torch.arange(30), None)] == [(0, 1)]


def test_the_confidence_penalty_subtracts_the_entropy() -> None:
    context = make_context(6)
    step, rng = StepBatch((0, 1), torch.arange(6)), clone(context.rng)
    plain = DivideMix().loss(context, step, None, 0)
    context.rng.set_state(rng.get_state())
    penalised = DivideMix(confidence_penalty=True).loss(context, step, None, 0)
    x = context.transform.augmented(context.buffer.x, rng)
    entropy = sum(torch.special.entr(net(x).softmax(1)).sum(1).mean() for net in context.nets)
    assert (plain - penalised).item() == pytest.approx(entropy.item())


def test_labelled_and_unlabelled_samples_are_spread_evenly_over_the_batches() -> None:
    clean = torch.ones(2, 100)
    clean[0, :40] = 0.0
    batches = DivideMix(batch=16).batches(torch.randperm(100), Division(clean, ("", "")))
    first = [step.samples for step in batches if step.nets == (0,)]
    assert [int((clean[0][samples] > 0.5).sum()) for samples in first] == [15] * 4
    assert [int((clean[0][samples] < 0.5).sum()) for samples in first] == [10] * 4
    assert torch.cat(first).sort().values.tolist() == list(range(100))
    assert [step.nets for step in batches] == [(0,)] * 4 + [(1,)] * 7  # one network after the other


@pytest.mark.parametrize("trusted", [1, 7, 40, 1000, 1999])
def test_a_step_has_at_most_one_batch_of_labelled_and_one_of_unlabelled_samples(trusted: int) -> None:
    clean = torch.zeros(2, 2000)
    clean[:, :trusted] = 1.0
    batches = DivideMix().batches(torch.randperm(2000), Division(clean, ("", "")))
    for k in range(2):
        steps = [step.samples for step in batches if step.nets == (k,)]
        assert len(steps) == math.ceil(max(trusted, 2000 - trusted) / 64)
        for samples in steps:
            assert 1 <= int((samples < trusted).sum()) <= 64
            assert int((samples >= trusted).sum()) <= 64
            assert len(samples.unique()) == len(samples)
        times = torch.bincount(torch.cat(steps), minlength=2000)
        assert (times[trusted:] == 1).all()
        assert times[:trusted].max() - times[:trusted].min() <= 1
        assert (times == 1).all() == (trusted >= len(steps))  # repeated only if there are too few
