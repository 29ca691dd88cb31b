import numpy as np
import pytest
import reference_consolidation as reference
import torch
from consolidation_context import clone, losses_of, make_context
from hypothesis import given, strategies as st

from remnant.methods.consolidation import CoTeaching, coteaching
from remnant.methods.consolidation.base import StepBatch
from remnant.methods.consolidation.coteaching import cross_selected
from remnant.transforms.mixing import CutMixed


def test_the_number_of_kept_samples_falls_during_the_ramp() -> None:
    kept = [CoTeaching(forget_rate=0.4).kept(100, epoch, 0.0) for epoch in (0, 1, 9, 10, 11)]
    assert kept == [100, 96, 64, 60, 60]
    assert CoTeaching(forget_rate=0.4).kept(32, 10, 0.0) == 20


@given(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]), st.integers(0, 12), st.integers(2, 128))
def test_the_number_of_kept_samples_matches_the_reference(rate: float, epoch: int, samples: int) -> None:
    expected = reference.kept_count(epoch, rate, samples)
    assert CoTeaching(forget_rate=rate).kept(samples, epoch, 0.9) == expected
    assert CoTeaching().kept(samples, epoch, rate) == expected  # by default the noise rate


def test_each_network_is_trained_on_the_samples_selected_by_the_other() -> None:
    first = torch.tensor([0.0, 9.0], requires_grad=True)
    second = torch.tensor([9.0, 0.0], requires_grad=True)
    cross_selected(first, second, 1).backward()
    assert first.grad is not None
    assert second.grad is not None
    assert first.grad.tolist() == [0, 1]
    assert second.grad.tolist() == [1, 0]


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_cross_selected_losses_match_the_reference(seed: int, keep: int) -> None:
    first, second = torch.rand(2, 6, generator=torch.Generator().manual_seed(seed))
    expected = sum(reference.coteaching_loss(first.tolist(), second.tolist(), keep))
    assert float(cross_selected(first, second, keep)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("epoch", [0, 5, 40])
def test_the_loss_matches_the_reference(epoch: int) -> None:
    context = make_context(10)
    rng = clone(context.rng)
    loss = CoTeaching().loss(context, StepBatch((0, 1), torch.arange(10)), None, epoch)
    x = context.transform.augmented(context.buffer.x, rng)
    keep = reference.kept_count(epoch, 0.4, 10)  # the noise rate of the context
    expected = sum(reference.coteaching_loss(*losses_of(context, x, context.buffer.y), keep))
    assert loss.item() == pytest.approx(expected)


def test_cutmix_weights_both_labels_by_area(monkeypatch: pytest.MonkeyPatch) -> None:
    context, other = make_context(6), torch.tensor([1, 2, 3, 4, 5, 0])
    monkeypatch.setattr(coteaching, "cutmix", lambda x, probability, rng: CutMixed(x, other, 0.25))
    rng = clone(context.rng)
    loss = CoTeaching().loss(context, StepBatch((0, 1), torch.arange(6)), None, epoch=0)
    x, y = context.transform.augmented(context.buffer.x, rng), context.buffer.y
    own, pasted = losses_of(context, x, y), losses_of(context, x, y[other])
    expected = sum(0.25 * np.mean(own[k]) + 0.75 * np.mean(pasted[k]) for k in range(2))
    assert loss.item() == pytest.approx(expected)
