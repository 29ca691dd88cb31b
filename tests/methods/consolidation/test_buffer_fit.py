import numpy as np
import pytest
import torch
from consolidation_context import clone, losses_of, make_context

from remnant.methods.consolidation import BufferFit, buffer_fit
from remnant.methods.consolidation.base import StepBatch
from remnant.transforms.mixing import CutMixed


def test_the_loss_is_the_cross_entropy_on_an_augmented_view() -> None:
    context = make_context(6, nets=1)
    rng, samples = clone(context.rng), torch.tensor([4, 1, 3])
    loss = BufferFit().loss(context, StepBatch((0,), samples), None, epoch=0)
    x = context.transform.augmented(context.buffer.x[samples], rng)
    (losses,) = losses_of(context, x, context.buffer.y[samples])
    assert loss.item() == pytest.approx(np.mean(losses))


def test_cutmix_weights_both_labels_by_area(monkeypatch: pytest.MonkeyPatch) -> None:
    context, other = make_context(6), torch.tensor([1, 2, 3, 4, 5, 0])
    monkeypatch.setattr(buffer_fit, "cutmix", lambda x, probability, rng: CutMixed(x, other, 0.25))
    rng = clone(context.rng)
    loss = BufferFit().loss(context, StepBatch((0,), torch.arange(6)), None, epoch=0)
    x, y = context.transform.augmented(context.buffer.x, rng), context.buffer.y
    own, pasted = losses_of(context, x, y)[0], losses_of(context, x, y[other])[0]
    assert loss.item() == pytest.approx(0.25 * np.mean(own) + 0.75 * np.mean(pasted))
