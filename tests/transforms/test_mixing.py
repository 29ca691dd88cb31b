import pytest
import reference_consolidation as reference
import torch

from remnant.transforms.mixing import CutMixed, beta, cutmix, mixup


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_patch_comes_from_the_other_image_and_its_fraction_is_exact() -> None:
    x = torch.arange(6.0).view(6, 1, 1, 1).expand(6, 3, 9, 7).contiguous()
    before, fractions = x.clone(), set()
    for seed in range(200):
        batch = cutmix(x, 1.0, rng(seed))
        own = batch.x == torch.arange(6.0).view(6, 1, 1, 1)
        other = batch.x == batch.other.float().view(6, 1, 1, 1)
        assert (own | other).all()
        for i, partner in enumerate(batch.other.tolist()):
            if partner != i:
                assert own[i].float().mean().item() == pytest.approx(batch.own_fraction)
        fractions.add(batch.own_fraction)
    assert torch.equal(x, before)  # the input is not modified
    assert len(fractions) > 20


def test_the_patch_is_that_of_the_reference_implementation() -> None:
    x = torch.zeros(2, 1, 11, 8)
    x[1] = 1
    for seed in range(30):
        _, own, down, right = torch.rand(4, generator=rng(seed)).tolist()
        box = reference.cutmix_box(11, 8, own, down, right)
        batch = cutmix(x, 1.0, rng(seed))
        assert batch.own_fraction == pytest.approx(reference.cutmix_own_fraction(box, 11, 8))
        if batch.other.tolist() == [1, 0]:
            top, bottom, left, end = box
            assert batch.x[0, 0, top:bottom, left:end].eq(1).all()
            assert int(batch.x[0].sum()) == (bottom - top) * (end - left)


def test_cutmix_is_applied_with_the_given_probability() -> None:
    x = torch.zeros(2, 1, 8, 8)
    assert all(cutmix(x, 0.0, rng(seed)).own_fraction == 1 for seed in range(50))
    mixed = sum(cutmix(x, 0.5, rng(seed)).own_fraction < 1 for seed in range(400))
    assert 130 < mixed < 230  # a few of the patches are smaller than a pixel


def test_losses_are_weighted_by_the_fraction_of_pixels() -> None:
    batch = CutMixed(torch.empty(0), torch.empty(0), 0.75)
    assert batch.blend(torch.tensor(4.0), torch.tensor(8.0)) == 5


@pytest.mark.parametrize("shape", [(4,), (4, 5), (4, 6, 6), (4, 3, 8, 6, 2)])
def test_cutmix_requires_images_unless_its_probability_is_zero(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    for seed in range(10):  # whether or not a patch would be drawn
        with pytest.raises(ValueError, match=r"expects images \(B, K, H, W\), got the shape \(4"):
            cutmix(x, 0.5, rng(seed))
        assert torch.equal(cutmix(x, 0.0, rng(seed)).x, x)


def test_mixup_gives_each_sample_the_larger_weight() -> None:
    x, target = torch.tensor([[0.0], [10.0]]), torch.eye(2)
    mixed, label = mixup(x, target, torch.tensor([0.2, 0.7]), torch.tensor([1, 0]))
    assert mixed.flatten().tolist() == pytest.approx([2.0, 7.0])  # 0.2 is used as 0.8
    assert label.flatten().tolist() == pytest.approx([0.8, 0.2, 0.3, 0.7])
    one, _ = mixup(x, target, torch.tensor([0.9]), torch.tensor([1, 0]))
    assert one.flatten().tolist() == pytest.approx([1.0, 9.0])


@pytest.mark.parametrize("parameter", [0.5, 4.0])
def test_weights_follow_the_beta_distribution(parameter: float) -> None:
    from scipy.stats import beta as distribution, kstest

    drawn = beta(parameter, 4000, rng()).numpy()
    assert kstest(drawn, distribution(parameter, parameter).cdf).pvalue > 1e-3
