import pytest
import reference_consolidation as reference
import torch
from consolidation_context import clone, make_context, reference_net

from remnant.methods.consolidation import MixMatch
from remnant.methods.consolidation.base import StepBatch
from remnant.methods.consolidation.division import Division
from remnant.transforms.mixing import beta


def compare_with_reference(seed: int) -> None:
    context = make_context(7, seed)
    samples = torch.randperm(7, generator=torch.Generator().manual_seed(seed))[:5]
    clean = torch.rand(1, 7, generator=torch.Generator().manual_seed(seed + 9), dtype=torch.float64)
    rng, division = clone(context.rng), Division(clean, ("",))
    loss = MixMatch(lambda_u=0.7).loss(context, StepBatch((0,), samples), division, epoch=0)

    trusted, untrusted = samples[clean[0][samples] > 0.5], samples[clean[0][samples] <= 0.5]
    views = [context.transform.augmented(context.buffer.x[untrusted], rng) for _ in range(3)]
    trusted_x = context.transform.augmented(context.buffer.x[trusted], rng)
    lam = beta(0.5, len(trusted) + 3 * len(untrusted), rng)
    order = torch.randperm(len(lam), generator=rng)
    expected = reference.mixmatch_loss(
        reference_net(context.nets[0]), trusted_x.numpy(), context.onehot(trusted).numpy(),
        torch.stack(views).numpy(), context.onehot(untrusted).numpy(), clean[0][untrusted].tolist(),
        0.5, lam.tolist(), order.tolist(), 0.7,
    )  # fmt: skip
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_the_loss_matches_the_reference() -> None:
    for seed in range(3):
        compare_with_reference(seed)


@pytest.mark.slow
def test_the_loss_matches_the_reference_for_more_seeds() -> None:
    for seed in range(3, 6):
        compare_with_reference(seed)


@pytest.mark.parametrize("clean", [0.0, 1.0])
@pytest.mark.parametrize("samples", [2, 3, 9])
def test_a_batch_without_trusted_or_without_untrusted_samples_has_a_finite_loss(
    clean: float, samples: int
) -> None:
    context = make_context(samples)
    division = Division(torch.full((2, samples), clean), ("", ""))
    loss = MixMatch().loss(context, StepBatch((0,), torch.arange(samples)), division, 5)
    assert loss.isfinite()
    loss.backward()
