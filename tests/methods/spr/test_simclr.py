import colorsys
import math

import pytest
import reference_spr as reference
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st
from torch import Tensor

from remnant.methods.spr.simclr import (
    ATTEMPTS,
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    colour_jitter,
    contrastive_loss,
    crop_and_resize,
    crop_boxes,
    strong_view,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 6, channels: int = 3, height: int = 8, width: int = 8) -> Tensor:
    shape = (count, channels, height, width)
    return torch.randint(0, 256, shape, generator=rng(9)).to(torch.uint8)


def amounts(*values: float) -> Tensor:
    return torch.tensor(values).view(-1, 1, 1, 1)


def test_the_loss_matches_hand_computed_values() -> None:
    z = torch.eye(2).repeat(2, 1)
    assert contrastive_loss(z).item() == pytest.approx(0.23954, abs=5e-6)
    assert contrastive_loss(z, temperature=1.0).item() == pytest.approx(math.log(1 + 2 / math.e))


def test_the_two_views_of_an_image_are_half_a_batch_apart() -> None:
    together = torch.eye(3).repeat(2, 1)
    beside = torch.eye(3).repeat_interleave(2, 0)
    assert contrastive_loss(together) < contrastive_loss(beside)


def test_equal_features_have_the_logarithm_of_the_other_views_as_loss() -> None:
    assert contrastive_loss(torch.ones(10, 4)).item() == pytest.approx(math.log(9))


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0.1, 2.0))
def test_the_loss_matches_the_reference(seed: int, count: int, temperature: float) -> None:
    z = torch.randn(2 * count, 5, generator=rng(seed), dtype=torch.float64)
    expected = reference.nt_xent(z.numpy(), temperature)
    assert contrastive_loss(z, temperature).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_norm_of_features_and_the_order_of_images_do_not_matter() -> None:
    z = torch.randn(8, 5, generator=rng(), dtype=torch.float64)
    expected = contrastive_loss(z).item()
    assert contrastive_loss(z * torch.rand(8, 1).double()).item() == pytest.approx(expected)
    order = torch.tensor([2, 0, 3, 1])
    assert contrastive_loss(z[torch.cat([order, order + 4])]).item() == pytest.approx(expected)
    assert contrastive_loss(z.roll(4, 0)).item() == pytest.approx(expected)


def test_a_single_image_has_no_loss() -> None:
    z = torch.randn(2, 3, generator=rng(), requires_grad=True)
    loss = contrastive_loss(z)
    loss.backward()
    assert loss.item() == 0
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_a_gradient_step_decreases_the_loss() -> None:
    z = torch.randn(12, 5, generator=rng(), requires_grad=True)
    loss = contrastive_loss(z)
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient.isfinite().all()
    assert contrastive_loss(z - 0.1 * gradient) < loss


def boxes_of(count: int, height: int, width: int, seed: int = 0) -> Tensor:
    u = torch.rand(count, ATTEMPTS + 1, 2, generator=rng(seed), dtype=torch.float64)
    return crop_boxes(u[:, :ATTEMPTS], u[:, ATTEMPTS], height, width)


def test_a_box_matches_hand_computed_values() -> None:
    # Area 8 * 8 * (.08 + .92 * .3) = 22.8, ratio 1: 4.77, so 5 by 5 at .5 * 4 and .99 * 4.
    attempts = torch.tensor([[0.3, 0.5]], dtype=torch.float64).expand(1, ATTEMPTS, 2)
    position = torch.tensor([[0.5, 0.99]], dtype=torch.float64)
    assert crop_boxes(attempts, position, 8, 8).tolist() == [[2, 3, 5, 5]]


def test_the_first_attempt_that_fits_is_used() -> None:
    attempts = torch.tensor([[0.25, 0.5]], dtype=torch.float64).repeat(1, ATTEMPTS, 1)
    attempts[0, 0] = torch.tensor([1.0, 1.0])  # the whole area does not fit if it is wider than high
    attempts[0, 2] = torch.tensor([0.0, 0.5])
    assert crop_boxes(attempts, torch.zeros(1, 2), 8, 8)[0, 2:].tolist() == [4, 4]


def test_the_whole_image_is_used_if_no_attempt_fits() -> None:
    attempts = torch.ones(1, ATTEMPTS, 2, dtype=torch.float64)
    assert crop_boxes(attempts, torch.full((1, 2), 0.9), 8, 8).tolist() == [[0, 0, 8, 8]]


@pytest.mark.parametrize(("height", "width"), [(32, 32), (8, 8), (6, 11), (1, 5)])
def test_boxes_are_inside_the_image(height: int, width: int) -> None:
    top, left, box_height, box_width = boxes_of(2000, height, width).unbind(1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (box_height >= 1).all()
    assert (box_width >= 1).all()
    assert (top + box_height <= height).all()
    assert (left + box_width <= width).all()


def test_area_and_ratio_of_boxes_cover_their_ranges() -> None:
    *_, box_height, box_width = boxes_of(4000, 64, 64).unbind(1)
    area, ratio = box_height * box_width / 64**2, box_width / box_height
    assert 0.07 < area.min() < 0.1
    assert area.max() > 0.95
    assert 0.7 < ratio.min() < 0.77
    assert 1.3 < ratio.max() < 1.43
    assert (ratio > 1).double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_crops_match_bilinear_interpolation() -> None:
    for seed in range(5):
        x = images(20, height=9, width=12).float() / 255
        boxes = boxes_of(20, 9, 12, seed)
        is_mirrored = torch.rand(20, generator=rng(seed)) < 0.5
        found = crop_and_resize(x, boxes, is_mirrored)
        for image, view, box, mirrored in zip(x, found, boxes.long(), is_mirrored, strict=True):
            top, left, height, width = box.tolist()
            part = image[None, :, top : top + height, left : left + width]
            expected = F.interpolate(part, (9, 12), mode="bilinear", align_corners=False)[0]
            assert torch.allclose(view, expected.flip(2) if mirrored else expected, atol=1e-5)


def test_a_crop_of_the_whole_image_is_the_image() -> None:
    x = images(2).float() / 255
    whole = torch.tensor([[0.0, 0.0, 8.0, 8.0]]).repeat(2, 1)
    found = crop_and_resize(x, whole, torch.tensor([False, True]))
    assert torch.allclose(found[0], x[0], atol=1e-5)
    assert torch.allclose(found[1], x[1].flip(2), atol=1e-5)


def test_colour_changes_match_hand_computed_values() -> None:
    x = torch.tensor([0.2, 0.4, 0.6]).view(1, 3, 1, 1).repeat(1, 1, 1, 2)
    x[..., 1] = 1.0  # the second pixel is white
    grey = 0.299 * 0.2 + 0.587 * 0.4 + 0.114 * 0.6
    middle = (grey + 1) / 2
    found = adjust_brightness(x, amounts(0.5))
    assert found[0, :, 0, 0].tolist() == pytest.approx([0.3, 0.6, 0.9])
    assert found[0, :, 0, 1].tolist() == [1, 1, 1]
    assert adjust_contrast(x, amounts(-1.0))[0, 0, 0].tolist() == pytest.approx([middle, middle])
    assert adjust_contrast(x, amounts(0.5))[0, 1, 0, 0].item() == pytest.approx(1.5 * 0.4 - 0.5 * middle)
    assert adjust_saturation(x, amounts(-1.0))[0, :, 0, 0].tolist() == pytest.approx([grey] * 3)
    assert adjust_saturation(x, amounts(0.5))[0, :, 0, 1].tolist() == pytest.approx([1, 1, 1])
    assert adjust_hue(x, amounts(1 / 3))[0, :, 0, 0].tolist() == pytest.approx([0.6, 0.2, 0.4])


@given(st.tuples(*[st.floats(0, 1, width=32)] * 3), st.floats(-0.5, 0.5))
def test_the_hue_matches_the_standard_library(rgb: tuple[float, float, float], amount: float) -> None:
    hue, saturation, value = colorsys.rgb_to_hsv(*rgb)
    expected = colorsys.hsv_to_rgb((hue + amount) % 1, saturation, value)
    x = torch.tensor(rgb, dtype=torch.float64).view(1, 3, 1, 1)
    found = adjust_hue(x, torch.tensor(amount, dtype=torch.float64).view(1, 1, 1, 1))
    assert found.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_an_amount_of_zero_changes_nothing() -> None:
    x = images().float() / 255
    half, order = torch.full((6, 4), 0.5, dtype=torch.float64), torch.arange(4).repeat(6, 1)
    assert torch.allclose(colour_jitter(x, half, order), x, atol=1e-6)


def test_each_image_has_its_own_order_of_colour_changes() -> None:
    x = images(2).float() / 255
    uniforms = torch.tensor([[0.9, 0.1, 0.8, 0.3]] * 2, dtype=torch.float64)
    orders = torch.tensor([[0, 1, 2, 3], [3, 1, 0, 2]])
    found = colour_jitter(x, uniforms, orders)
    first = adjust_hue(
        adjust_saturation(
            adjust_contrast(adjust_brightness(x[:1], amounts(0.4)), amounts(-0.4)), amounts(0.3)
        ),
        amounts(-0.08),
    )
    second = adjust_saturation(
        adjust_brightness(adjust_contrast(adjust_hue(x[1:], amounts(-0.08)), amounts(-0.4)), amounts(0.4)),
        amounts(0.3),
    )
    assert torch.allclose(found, torch.cat([first, second]), atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_views_are_floats_between_zero_and_one(channels: int) -> None:
    x = images(200, channels)
    before = x.clone()
    view = strong_view(x, True, rng())
    assert view.dtype == torch.float32
    assert view.shape == x.shape
    assert view.min() >= 0
    assert view.max() <= 1
    assert torch.equal(x, before)


def test_each_image_is_augmented_differently() -> None:
    x = images(1).repeat(50, 1, 1, 1)
    assert len({view.numpy().tobytes() for view in strong_view(x, True, rng())}) == 50


def test_images_of_a_batch_do_not_affect_each_other() -> None:
    x = images()
    others = x.clone()
    others[1:] = 0
    assert torch.equal(strong_view(x, True, rng())[0], strong_view(others, True, rng())[0])


def test_half_of_the_images_are_mirrored_if_flip_is_set() -> None:
    x = torch.zeros(2000, 1, 4, 4, dtype=torch.uint8)
    x[..., 2:] = 255  # bright on the right, and so is every crop with both sides
    for flip, expected in ((True, 0.5), (False, 0.0)):
        view = strong_view(x, flip, rng())
        left, right = view[..., 0].mean((1, 2)), view[..., -1].mean((1, 2))
        mirrored = (left > right).sum() / (left != right).sum()
        assert mirrored.item() == pytest.approx(expected, abs=0.05)


def test_half_of_the_colour_images_get_colour_jitter() -> None:
    x = torch.tensor([200, 100, 50], dtype=torch.uint8).view(1, 3, 1, 1).repeat(1000, 1, 4, 4)
    plain = torch.tensor([200, 100, 50]).view(1, 3, 1, 1) / 255
    is_changed = ((strong_view(x, True, rng()) - plain).abs() > 1e-4).flatten(1).any(1)
    assert is_changed.double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_grey_images_get_no_colour_jitter() -> None:
    x = torch.full((50, 1, 4, 4), 100, dtype=torch.uint8)
    assert torch.allclose(strong_view(x, True, rng()), torch.tensor(100 / 255), atol=1e-6)


def test_the_number_of_random_numbers_does_not_depend_on_channels_or_flip() -> None:
    a, b = rng(), rng()
    strong_view(images(channels=3), True, a)
    strong_view(images(channels=1), False, b)
    assert torch.equal(a.get_state(), b.get_state())


def test_the_same_random_seed_gives_the_same_views() -> None:
    assert torch.equal(strong_view(images(), True, rng(5)), strong_view(images(), True, rng(5)))
