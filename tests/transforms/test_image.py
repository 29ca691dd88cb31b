import torch
import torch.nn.functional as F

from remnant.transforms.autoaugment import autoaugment
from remnant.transforms.image import ImageTransform, crop_and_flip


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 6) -> torch.Tensor:
    return torch.randint(1, 255, (count, 3, 8, 8), generator=rng(9)).to(torch.uint8)


def test_each_result_is_a_crop_of_the_padded_image_possibly_flipped() -> None:
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
    position = crop_and_flip(x, 1, False, rng()).flatten(1).argmax(1)
    counts = torch.bincount(position, minlength=9)
    assert (counts > 430).all()
    assert (counts < 690).all()


def test_half_of_the_images_are_flipped() -> None:
    x = torch.zeros(2000, 1, 2, 2, dtype=torch.uint8)
    x[:, :, :, 0] = 1
    flipped = crop_and_flip(x, 0, True, rng())[:, 0, 0, 1].float().mean()
    assert 0.45 < flipped < 0.55


def test_without_padding_and_flip_images_are_unchanged() -> None:
    x = images()
    assert torch.equal(crop_and_flip(x, 0, False, rng()), x)


def test_the_same_seed_gives_the_same_crops() -> None:
    x = images()
    assert torch.equal(crop_and_flip(x, 2, True, rng(5)), crop_and_flip(x, 2, True, rng(5)))


def test_the_number_of_draws_does_not_depend_on_the_settings() -> None:
    a, b = rng(), rng()
    crop_and_flip(images(), 2, True, a)
    crop_and_flip(images(), 0, False, b)
    assert torch.equal(a.get_state(), b.get_state())


def test_augmentation_does_not_modify_its_input() -> None:
    x = images()
    before = x.clone()
    ImageTransform((0.5,) * 3, (0.2,) * 3).augmented(x, rng())
    assert torch.equal(x, before)


def test_normalisation_of_black_and_white() -> None:
    x = torch.tensor([[[[0, 255]]]], dtype=torch.uint8)
    assert ImageTransform((0.5,), (0.25,)).plain(x).flatten().tolist() == [-2.0, 2.0]


def test_strong_augmentation_is_autoaugment_then_crop_and_flip() -> None:
    transform, generator = ImageTransform((0.5,) * 3, (0.2,) * 3, pad=2), rng(3)
    expected = transform.plain(crop_and_flip(autoaugment(images(), generator), 2, True, generator))
    assert torch.equal(transform.strong(images(), rng(3)), expected)
