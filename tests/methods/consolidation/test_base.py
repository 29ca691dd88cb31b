import math
from dataclasses import replace

import numpy as np
import pytest
import reference_consolidation as reference
import torch
from consolidation_context import FEATURES, clone, make_context

from remnant.config.components import build
from remnant.methods.consolidation import (
    CONSOLIDATIONS,
    BufferFit,
    Consolidation,
    CoTeaching,
    DivideMix,
    MixMatch,
    PuriDivER,
)
from remnant.methods.consolidation.base import StepBatch
from remnant.methods.consolidation.division import Division
from remnant.settings import describe_setting, settings

SHORT = [
    BufferFit(),
    CoTeaching(),
    MixMatch(),
    DivideMix(warmup=1),
    PuriDivER(warmup=1, cutmix=0.0),
]


def test_a_guess_averages_the_views_of_the_same_image_only() -> None:
    context = make_context(2)
    net = context.nets[0]
    views = [torch.randn(2, FEATURES, dtype=torch.float64) for _ in range(3)]
    guess = context.guess([net], views)
    for image in range(2):
        own = torch.stack([net(view[image]).softmax(0) for view in views]).mean(0)
        assert torch.allclose(guess[image], own.detach())
    changed = [view.clone() for view in views]
    for view in changed:
        view[1] += 5
    assert torch.equal(context.guess([net], changed)[0], guess[0])
    assert not torch.equal(context.guess([net], changed)[1], guess[1])


def test_a_guess_is_a_distribution() -> None:
    context = make_context(3)
    guess = context.guess(context.nets, [context.augmented(torch.arange(3)) for _ in range(2)])
    assert (guess >= 0).all()
    assert torch.allclose(guess.sum(1), torch.ones(3, dtype=torch.float64))


def test_losses_of_the_buffer_are_computed_in_eval_mode() -> None:
    context = make_context(9)
    net = context.nets[0].train()
    logits, labels = net(context.buffer.x).detach().numpy(), context.buffer.y
    expected = [-np.log(reference.softmax(z)[y]) for z, y in zip(logits, labels, strict=True)]
    assert context.losses(context.logits(net)).tolist() == pytest.approx(expected)
    assert not net.training


def test_networks_without_a_division_are_trained_with_cross_entropy_on_all_labels() -> None:
    for consolidation in (MixMatch(), DivideMix()):
        context = make_context(6)
        division = Division(torch.ones(2, 6), ("equal", "equal"))
        step, rng = StepBatch((0,), torch.arange(6)), clone(context.rng)
        again = replace(context, rng=clone(context.rng))
        loss = consolidation.loss(context, step, division, 50)
        x = context.transform.augmented(context.buffer.x, rng)
        expected = torch.nn.functional.cross_entropy(context.nets[0](x), context.buffer.y)
        assert torch.equal(loss, expected)
        assert torch.equal(loss, again.cross_entropy_loss(step))


@pytest.mark.parametrize("consolidation", SHORT, ids=lambda consolidation: type(consolidation).__name__)
@pytest.mark.parametrize(("samples", "classes"), [(2, 2), (3, 1), (1 + 64, 4), (5, 4)])
def test_batches_cover_the_buffer_and_losses_are_finite(
    consolidation: Consolidation, samples: int, classes: int
) -> None:
    context = make_context(samples, classes=classes)
    for epoch in range(3):
        division = consolidation.divide(context, epoch)
        batches = consolidation.batches(torch.randperm(samples), division)
        for step in batches:
            assert len(step.samples) > 1
            assert consolidation.loss(context, step, division, epoch).isfinite()
        for k in range(consolidation.networks):
            used = torch.cat([step.samples for step in batches if k in step.nets])
            assert used.sort().values.tolist() == list(range(samples))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lr": 0.0}, "expected lr > 0, got 0.0"),
        ({"epochs": 0, "batch": 2}, "expected epochs >= 1, got 0; expected batch >= 3, got 2"),
        ({"momentum": 1.0}, "expected momentum in"),
        ({"nesterov": True}, "expected nesterov false if momentum is 0, got True"),
        ({"clip": -1.0}, "expected clip >= 0"),
    ],
)
def test_settings_out_of_range_are_errors(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BufferFit(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (CoTeaching, "forget_rate", 1.0),
        (CoTeaching, "forget_rate", -0.5),
        (BufferFit, "cutmix", 1.5),
        (MixMatch, "views", 0),
        (MixMatch, "temperature", 0.0),
        (DivideMix, "mixup", 0.0),
        (DivideMix, "warmup", -1),
        (PuriDivER, "cutmix", 1.5),
    ],
)
def test_settings_of_each_consolidation_are_checked(
    kind: type[Consolidation], name: str, value: float
) -> None:
    with pytest.raises(ValueError, match=f"expected {name}"):
        kind(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CONSOLIDATIONS)
def test_settings_that_are_not_finite_are_errors(name: str) -> None:
    numbers = {k: v for k, v in settings(CONSOLIDATIONS[name]).items() if isinstance(v, float)}
    assert bool(numbers) == (name != "none")
    for key in numbers:
        for value in (math.inf, -math.inf, math.nan):
            with pytest.raises(ValueError, match=f"expected {key} .*, got {value}"):
                build(CONSOLIDATIONS, {"name": name, key: value})


@pytest.mark.parametrize("name", CONSOLIDATIONS)
def test_every_setting_has_a_description(name: str) -> None:
    consolidation = CONSOLIDATIONS[name]
    assert all(describe_setting(consolidation, key) for key in settings(consolidation))


@pytest.mark.parametrize("kind", [DivideMix, PuriDivER])
def test_a_warm_up_as_long_as_the_training_is_an_error(kind: type[DivideMix | PuriDivER]) -> None:
    assert kind(epochs=11).warmup == 10
    with pytest.raises(ValueError, match=r"^expected epochs > warmup \(10\), got 10$"):
        kind(epochs=10)
    with pytest.raises(ValueError, match=r"epochs > warmup \(255\), got 255"):
        kind(warmup=255)
    assert kind(epochs=1, warmup=0).epochs == 1
