import pytest
import reference_consolidation as reference
import torch
import torch.nn.functional as F

from remnant.augment import Pasted, View, beta, crop_and_flip, cutmix, mixup


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 6) -> torch.Tensor:
    return torch.randint(1, 255, (count, 3, 8, 8), generator=rng(9)).to(torch.uint8)


def test_each_image_is_a_crop_of_its_own_padded_self_perhaps_mirrored() -> None:
    x, pad = images(), 2
    padded = F.pad(x, (pad,) * 4)
    for image, source in zip(crop_and_flip(x, pad, True, rng()), padded, strict=True):
        crops = [source[:, top : top + 8, left : left + 8] for top in range(5) for left in range(5)]
        assert any(torch.equal(image, c) or torch.equal(image, c.flip(2)) for c in crops)


def test_images_of_one_batch_are_cropped_differently() -> None:
    x = images(1).repeat(40, 1, 1, 1)
    assert len({crop.numpy().tobytes() for crop in crop_and_flip(x, 2, True, rng())}) > 10


def test_all_shifts_are_equally_likely() -> None:
    x = torch.zeros(5000, 1, 3, 3, dtype=torch.uint8)
    x[:, :, 1, 1] = 1
    where = crop_and_flip(x, 1, False, rng()).flatten(1).argmax(1)
    counts = torch.bincount(where, minlength=9)
    assert (counts > 430).all()
    assert (counts < 690).all()


def test_half_of_the_images_are_mirrored() -> None:
    x = torch.zeros(2000, 1, 2, 2, dtype=torch.uint8)
    x[:, :, :, 0] = 1
    mirrored = crop_and_flip(x, 0, True, rng())[:, 0, 0, 1].float().mean()
    assert 0.45 < mirrored < 0.55


def test_without_flip_nothing_is_mirrored() -> None:
    x = images()
    assert torch.equal(crop_and_flip(x, 0, False, rng()), x)


def test_the_same_generator_gives_the_same_views() -> None:
    x = images()
    assert torch.equal(crop_and_flip(x, 2, True, rng(5)), crop_and_flip(x, 2, True, rng(5)))


def test_the_number_of_draws_does_not_depend_on_what_is_switched_on() -> None:
    a, b = rng(), rng()
    crop_and_flip(images(), 2, True, a)
    crop_and_flip(images(), 0, False, b)
    assert torch.equal(a.get_state(), b.get_state())


def test_the_raw_images_are_not_changed() -> None:
    x = images()
    before = x.clone()
    View((0.5,) * 3, (0.2,) * 3).augmented(x, rng())
    assert torch.equal(x, before)


def test_normalisation_by_hand() -> None:
    x = torch.tensor([[[[0, 255]]]], dtype=torch.uint8)
    assert View((0.5,), (0.25,)).plain(x).flatten().tolist() == [-2.0, 2.0]


def test_a_patch_comes_from_the_other_image_and_its_share_is_exact() -> None:
    x = torch.arange(6.0).view(6, 1, 1, 1).expand(6, 3, 9, 7).contiguous()
    before, found = x.clone(), set()
    for seed in range(200):
        pasted = cutmix(x, 1.0, rng(seed))
        own = pasted.x == torch.arange(6.0).view(6, 1, 1, 1)
        other = pasted.x == pasted.other.float().view(6, 1, 1, 1)
        assert (own | other).all()
        for i, partner in enumerate(pasted.other.tolist()):
            if partner != i:
                assert own[i].float().mean().item() == pytest.approx(pasted.share)
        found.add(pasted.share)
    assert torch.equal(x, before)  # what is stored is not touched
    assert len(found) > 20


@pytest.mark.parametrize("seed", range(30))
def test_a_patch_is_where_its_twin_puts_it(seed: int) -> None:
    x = torch.zeros(2, 1, 11, 8)
    x[1] = 1
    _, own, down, right = torch.rand(4, generator=rng(seed)).tolist()
    box = reference.cutmix_box(11, 8, own, down, right)
    pasted = cutmix(x, 1.0, rng(seed))
    assert pasted.share == pytest.approx(reference.cutmix_share(box, 11, 8))
    if pasted.other.tolist() == [1, 0]:
        top, bottom, left, end = box
        assert pasted.x[0, 0, top:bottom, left:end].eq(1).all()
        assert int(pasted.x[0].sum()) == (bottom - top) * (end - left)


def test_patches_are_as_frequent_as_asked_for() -> None:
    x = torch.zeros(2, 1, 8, 8)
    assert all(cutmix(x, 0.0, rng(seed)).share == 1 for seed in range(50))
    mixed = sum(cutmix(x, 0.5, rng(seed)).share < 1 for seed in range(400))
    assert 130 < mixed < 230  # a few of those drawn are too small to hold a pixel


def test_a_patch_shares_the_loss_as_the_pixels() -> None:
    pasted = Pasted(torch.empty(0), torch.empty(0), 0.75)
    assert pasted.blend(torch.tensor(4.0), torch.tensor(8.0)) == 5


def test_rows_keep_the_larger_share_when_blended() -> None:
    x, target = torch.tensor([[0.0], [10.0]]), torch.eye(2)
    mixed, label = mixup(x, target, torch.tensor([0.2, 0.7]), torch.tensor([1, 0]))
    assert mixed.flatten().tolist() == pytest.approx([2.0, 7.0])  # 0.2 counts as 0.8
    assert label.flatten().tolist() == pytest.approx([0.8, 0.2, 0.3, 0.7])
    one, _ = mixup(x, target, torch.tensor([0.9]), torch.tensor([1, 0]))
    assert one.flatten().tolist() == pytest.approx([1.0, 9.0])


@pytest.mark.parametrize("parameter", [0.5, 4.0])
def test_shares_follow_the_beta_distribution(parameter: float) -> None:
    from scipy.stats import beta as distribution
    from scipy.stats import kstest

    drawn = beta(parameter, 4000, rng()).numpy()
    assert kstest(drawn, distribution(parameter, parameter).cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(4,), (4, 5), (4, 6, 6), (4, 3, 8, 6, 2)])
def test_cutmix_needs_images_unless_it_never_pastes(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    for seed in range(10):  # whatever the coin says
        with pytest.raises(ValueError, match=r"expects images \(B, K, H, W\), got the shape \(4"):
            cutmix(x, 0.5, rng(seed))
        assert torch.equal(cutmix(x, 0.0, rng(seed)).x, x)
