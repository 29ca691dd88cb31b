import colorsys
import math

import pytest
import reference_spr as reference
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remnant.spr.simclr import (
    TRIES,
    brighter,
    colour_jitter,
    contrasted,
    contrastive_loss,
    crop_and_resize,
    crop_boxes,
    hue_turned,
    saturated,
    strong_view,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 6, channels: int = 3, height: int = 8, width: int = 8) -> Tensor:
    shape = (count, channels, height, width)
    return torch.randint(0, 256, shape, generator=rng(9)).to(torch.uint8)


def amounts(*values: float) -> Tensor:
    return torch.tensor(values).view(-1, 1, 1, 1)


def test_the_loss_by_hand() -> None:
    z = torch.eye(2).repeat(2, 1)
    assert contrastive_loss(z).item() == pytest.approx(0.23954, abs=5e-6)
    assert contrastive_loss(z, temperature=1.0).item() == pytest.approx(math.log(1 + 2 / math.e))


def test_partners_are_half_a_batch_apart() -> None:
    together = torch.eye(3).repeat(2, 1)
    beside = torch.eye(3).repeat_interleave(2, 0)
    assert contrastive_loss(together) < contrastive_loss(beside)


def test_views_that_are_all_alike_cost_the_logarithm_of_the_others() -> None:
    assert contrastive_loss(torch.ones(10, 4)).item() == pytest.approx(math.log(9))


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0.1, 2.0))
def test_the_loss_is_its_twin(seed: int, count: int, temperature: float) -> None:
    z = torch.randn(2 * count, 5, generator=rng(seed), dtype=torch.float64)
    expected = reference.nt_xent(z.numpy(), temperature)
    assert contrastive_loss(z, temperature).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_length_of_features_and_the_order_of_images_do_not_matter() -> None:
    z = torch.randn(8, 5, generator=rng(), dtype=torch.float64)
    expected = contrastive_loss(z).item()
    assert contrastive_loss(z * torch.rand(8, 1).double()).item() == pytest.approx(expected)
    order = torch.tensor([2, 0, 3, 1])
    assert contrastive_loss(z[torch.cat([order, order + 4])]).item() == pytest.approx(expected)
    assert contrastive_loss(z.roll(4, 0)).item() == pytest.approx(expected)


def test_a_single_image_has_nothing_to_learn_from() -> None:
    z = torch.randn(2, 3, generator=rng(), requires_grad=True)
    loss = contrastive_loss(z)
    loss.backward()
    assert loss.item() == 0
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_a_step_against_the_gradient_lowers_the_loss() -> None:
    z = torch.randn(12, 5, generator=rng(), requires_grad=True)
    loss = contrastive_loss(z)
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient.isfinite().all()
    assert contrastive_loss(z - 0.1 * gradient) < loss


def boxes_of(count: int, height: int, width: int, seed: int = 0) -> Tensor:
    u = torch.rand(count, TRIES + 1, 2, generator=rng(seed), dtype=torch.float64)
    return crop_boxes(u[:, :TRIES], u[:, TRIES], height, width)


def test_a_box_by_hand() -> None:
    # Area 8 * 8 * (.08 + .92 * .3) = 22.8, ratio 1: 4.77, so 5 by 5 at .5 * 4 and .99 * 4.
    tries = torch.tensor([[0.3, 0.5]], dtype=torch.float64).expand(1, TRIES, 2)
    place = torch.tensor([[0.5, 0.99]], dtype=torch.float64)
    assert crop_boxes(tries, place, 8, 8).tolist() == [[2, 3, 5, 5]]


def test_the_first_try_that_fits_is_taken() -> None:
    tries = torch.tensor([[0.25, 0.5]], dtype=torch.float64).repeat(1, TRIES, 1)
    tries[0, 0] = torch.tensor([1.0, 1.0])  # the whole area cannot be wider than high
    tries[0, 2] = torch.tensor([0.0, 0.5])
    assert crop_boxes(tries, torch.zeros(1, 2), 8, 8)[0, 2:].tolist() == [4, 4]


def test_where_no_try_fits_the_whole_image_is_taken() -> None:
    tries = torch.ones(1, TRIES, 2, dtype=torch.float64)
    assert crop_boxes(tries, torch.full((1, 2), 0.9), 8, 8).tolist() == [[0, 0, 8, 8]]


@pytest.mark.parametrize(("height", "width"), [(32, 32), (8, 8), (6, 11), (1, 5)])
def test_boxes_lie_inside_the_image(height: int, width: int) -> None:
    top, left, tall, wide = boxes_of(2000, height, width).unbind(1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (tall >= 1).all()
    assert (wide >= 1).all()
    assert (top + tall <= height).all()
    assert (left + wide <= width).all()


def test_area_and_ratio_of_boxes_cover_their_range() -> None:
    *_, tall, wide = boxes_of(4000, 64, 64).unbind(1)
    area, ratio = tall * wide / 64**2, wide / tall
    assert 0.07 < area.min() < 0.1
    assert area.max() > 0.95
    assert 0.7 < ratio.min() < 0.77
    assert 1.3 < ratio.max() < 1.43
    assert (ratio > 1).double().mean().item() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_crop_is_cut_out_and_brought_to_size(seed: int) -> None:
    x = images(20, height=9, width=12).float() / 255
    boxes = boxes_of(20, 9, 12, seed)
    is_mirrored = torch.rand(20, generator=rng(seed)) < 0.5
    found = crop_and_resize(x, boxes, is_mirrored)
    for image, view, box, mirrored in zip(x, found, boxes.long().tolist(), is_mirrored, strict=True):
        top, left, tall, wide = box
        part = image[None, :, top : top + tall, left : left + wide]
        expected = F.interpolate(part, (9, 12), mode="bilinear", align_corners=False)[0]
        assert torch.allclose(view, expected.flip(2) if mirrored else expected, atol=1e-5)


def test_the_whole_image_stays_as_it_is() -> None:
    x = images(2).float() / 255
    whole = torch.tensor([[0.0, 0.0, 8.0, 8.0]]).repeat(2, 1)
    found = crop_and_resize(x, whole, torch.tensor([False, True]))
    assert torch.allclose(found[0], x[0], atol=1e-5)
    assert torch.allclose(found[1], x[1].flip(2), atol=1e-5)


def test_colours_by_hand() -> None:
    x = torch.tensor([0.2, 0.4, 0.6]).view(1, 3, 1, 1).repeat(1, 1, 1, 2)
    x[..., 1] = 1.0  # a white pixel beside it
    grey = 0.299 * 0.2 + 0.587 * 0.4 + 0.114 * 0.6
    middle = (grey + 1) / 2
    found = brighter(x, amounts(0.5))
    assert found[0, :, 0, 0].tolist() == pytest.approx([0.3, 0.6, 0.9])
    assert found[0, :, 0, 1].tolist() == [1, 1, 1]
    assert contrasted(x, amounts(-1.0))[0, 0, 0].tolist() == pytest.approx([middle, middle])
    assert contrasted(x, amounts(0.5))[0, 1, 0, 0].item() == pytest.approx(1.5 * 0.4 - 0.5 * middle)
    assert saturated(x, amounts(-1.0))[0, :, 0, 0].tolist() == pytest.approx([grey] * 3)
    assert saturated(x, amounts(0.5))[0, :, 0, 1].tolist() == pytest.approx([1, 1, 1])
    assert hue_turned(x, amounts(1 / 3))[0, :, 0, 0].tolist() == pytest.approx([0.6, 0.2, 0.4])


@given(st.tuples(*[st.floats(0, 1, width=32)] * 3), st.floats(-0.5, 0.5))
def test_hues_turn_as_in_the_standard_library(rgb: tuple[float, float, float], amount: float) -> None:
    hue, saturation, value = colorsys.rgb_to_hsv(*rgb)
    expected = colorsys.hsv_to_rgb((hue + amount) % 1, saturation, value)
    x = torch.tensor(rgb, dtype=torch.float64).view(1, 3, 1, 1)
    found = hue_turned(x, torch.tensor(amount, dtype=torch.float64).view(1, 1, 1, 1))
    assert found.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_no_amount_changes_no_colour() -> None:
    x = images().float() / 255
    half, order = torch.full((6, 4), 0.5, dtype=torch.float64), torch.arange(4).repeat(6, 1)
    assert torch.allclose(colour_jitter(x, half, order), x, atol=1e-6)


def test_colours_change_in_the_order_of_each_image() -> None:
    x = images(2).float() / 255
    uniforms = torch.tensor([[0.9, 0.1, 0.8, 0.3]] * 2, dtype=torch.float64)
    orders = torch.tensor([[0, 1, 2, 3], [3, 1, 0, 2]])
    found = colour_jitter(x, uniforms, orders)
    first = hue_turned(
        saturated(contrasted(brighter(x[:1], amounts(0.4)), amounts(-0.4)), amounts(0.3)), amounts(-0.08)
    )
    second = saturated(
        brighter(contrasted(hue_turned(x[1:], amounts(-0.08)), amounts(-0.4)), amounts(0.4)),
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


def test_each_image_has_its_own_draws() -> None:
    x = images(1).repeat(50, 1, 1, 1)
    assert len({view.numpy().tobytes() for view in strong_view(x, True, rng())}) == 50


def test_an_image_does_not_know_its_neighbours() -> None:
    x = images()
    others = x.clone()
    others[1:] = 0
    assert torch.equal(strong_view(x, True, rng())[0], strong_view(others, True, rng())[0])


def test_half_of_the_images_are_mirrored_where_that_is_allowed() -> None:
    x = torch.zeros(2000, 1, 4, 4, dtype=torch.uint8)
    x[..., 2:] = 255  # bright on the right: so is every crop that sees both sides
    for flip, share in ((True, 0.5), (False, 0.0)):
        view = strong_view(x, flip, rng())
        left, right = view[..., 0].mean((1, 2)), view[..., -1].mean((1, 2))
        mirrored = (left > right).sum() / (left != right).sum()
        assert mirrored.item() == pytest.approx(share, abs=0.05)


def test_half_of_the_colour_images_change_their_colours() -> None:
    x = torch.tensor([200, 100, 50], dtype=torch.uint8).view(1, 3, 1, 1).repeat(1000, 1, 4, 4)
    plain = torch.tensor([200, 100, 50]).view(1, 3, 1, 1) / 255
    is_changed = ((strong_view(x, True, rng()) - plain).abs() > 1e-4).flatten(1).any(1)
    assert is_changed.double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_grey_images_keep_their_brightness() -> None:
    x = torch.full((50, 1, 4, 4), 100, dtype=torch.uint8)
    assert torch.allclose(strong_view(x, True, rng()), torch.tensor(100 / 255), atol=1e-6)


def test_the_number_of_draws_does_not_depend_on_what_is_switched_on() -> None:
    a, b = rng(), rng()
    strong_view(images(channels=3), True, a)
    strong_view(images(channels=1), False, b)
    assert torch.equal(a.get_state(), b.get_state())


def test_the_same_generator_gives_the_same_views() -> None:
    assert torch.equal(strong_view(images(), True, rng(5)), strong_view(images(), True, rng(5)))
