import itertools
import zlib

import pytest
import torch
from torch import Tensor

from remnant.transforms.autoaugment import (
    GREY,
    OPERATIONS,
    POLICY,
    apply_policy,
    autoaugment,
    autocontrast,
    brightness,
    colour,
    contrast,
    equalize,
    invert,
    posterize,
    rotate,
    sharpness,
    shear_y,
    solarize,
    translate_x,
    translate_y,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 6, channels: int = 3, size: int = 32) -> Tensor:
    return torch.randint(0, 256, (count, channels, size, size), generator=rng(9)).to(torch.uint8)


def grey(*rows: list[int]) -> Tensor:
    """Return one image of one channel."""
    return torch.tensor([[list(rows)]], dtype=torch.uint8)


def at(*strength: float) -> Tensor:
    return torch.tensor(strength, dtype=torch.float64)


def test_the_policy_has_25_pairs_of_known_operations() -> None:
    assert [len(pair) for pair in POLICY] == [2] * 25
    for step in (step for pair in POLICY for step in pair):
        assert step.operation in OPERATIONS
        assert 0 <= step.probability <= 1
        assert step.level in range(10)
    assert {step.operation for pair in POLICY for step in pair} == set(OPERATIONS)


def test_strength_grows_with_the_level_and_has_a_sign() -> None:
    for name, level, strength in [
        ("shear_y", 6, 0.2),
        ("translate_x", 9, 150 / 331),
        ("translate_y", 3, 50 / 331),
        ("rotate", 2, 20 / 3),
        ("colour", 0, 0.0),
        ("contrast", 6, 0.6),
        ("brightness", 7, 0.7),
        ("sharpness", 9, 0.9),
    ]:
        assert OPERATIONS[name].strength(level, negative=False) == pytest.approx(strength), name
        assert OPERATIONS[name].strength(level, negative=True) == pytest.approx(-strength), name


def test_posterize_and_solarize_have_no_sign() -> None:
    for negative in (False, True):
        assert OPERATIONS["posterize"].strength(9, negative) == 4
        assert OPERATIONS["solarize"].strength(0, negative) == 256
        assert OPERATIONS["solarize"].strength(3, negative) == pytest.approx(512 / 3)


def test_a_translation_fills_with_grey() -> None:
    x = grey([1, 2, 3, 4], [5, 6, 7, 8])
    assert translate_x(x, at(0.25)).tolist() == [[[[2, 3, 4, GREY], [6, 7, 8, GREY]]]]
    assert translate_x(x, at(-0.5)).tolist() == [[[[GREY, GREY, 1, 2], [GREY, GREY, 5, 6]]]]
    assert translate_y(x, at(0.5)).tolist() == [[[[5, 6, 7, 8], [GREY] * 4]]]
    assert translate_y(x, at(-0.5)).tolist() == [[[[GREY] * 4, [1, 2, 3, 4]]]]


def test_a_translation_by_a_fraction_of_a_pixel_is_rounded() -> None:
    x = grey([1, 2, 3, 4])
    assert translate_x(x, at(0.4 / 4)).tolist() == [[[[1, 2, 3, 4]]]]
    assert translate_x(x, at(0.6 / 4)).tolist() == [[[[2, 3, 4, GREY]]]]


def test_shear_shifts_columns_in_proportion_to_their_distance_from_the_left() -> None:
    x = grey([1, 2, 3], [4, 5, 6], [7, 8, 9])
    # slope 0.5: the column centres, at 0.5, 1.5 and 2.5, shift by 0.25, 0.75 and 1.25 pixels
    assert shear_y(x, at(0.5)).tolist() == [[[[1, 5, 6], [4, 8, 9], [7, GREY, GREY]]]]
    assert shear_y(x, at(-0.5)).tolist() == [[[[1, GREY, GREY], [4, 2, 3], [7, 5, 6]]]]


def test_rotation_is_counter_clockwise() -> None:
    x = grey([1, 2, 3], [4, 5, 6], [7, 8, 9])
    assert rotate(x, at(90)).tolist() == [[[[3, 6, 9], [2, 5, 8], [1, 4, 7]]]]
    assert rotate(grey([1, 2, 3, 4]), at(90)).tolist() == [[[[GREY, 3, GREY, GREY]]]]


def test_strength_zero_changes_nothing() -> None:
    for name, operation in OPERATIONS.items():
        if operation.signed:
            found = operation.apply(images(), torch.zeros(6, dtype=torch.float64))
            assert torch.equal(found, images()), name


def test_brightness_scales_values_and_clips_at_255() -> None:
    x = grey([0, 3, 100, 200])
    assert brightness(x, at(0.5)).tolist() == [[[[0, 4, 150, 255]]]]
    assert brightness(x, at(-0.5)).tolist() == [[[[0, 1, 50, 100]]]]


def test_contrast_scales_the_distance_from_the_rounded_mean() -> None:
    x = grey([10, 20, 20, 52])  # mean 25.5, so 26
    assert contrast(x, at(0.5)).tolist() == [[[[2, 17, 17, 65]]]]
    assert contrast(x, at(-0.5)).tolist() == [[[[18, 23, 23, 39]]]]


def test_colour_scales_the_distance_from_grey() -> None:
    x = torch.tensor([200, 100, 50], dtype=torch.uint8).view(1, 3, 1, 1)
    # 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 124.2, so 124
    assert colour(x, at(0.5)).flatten().tolist() == [238, 88, 13]
    assert colour(x, at(-0.5)).flatten().tolist() == [162, 112, 87]


def test_colour_does_not_change_images_of_one_channel() -> None:
    x = images(channels=1)
    assert torch.equal(colour(x, torch.full((6,), 0.9)), x)


def test_sharpness_scales_the_distance_from_the_smooth_image_except_at_the_border() -> None:
    x = grey([10, 20, 30], [40, 50, 60], [70, 80, 120])
    # (430 + 5 * 50) / 13 = 52.3, so 52
    assert sharpness(x, at(0.5)).tolist() == [[[[10, 20, 30], [40, 49, 60], [70, 80, 120]]]]
    assert sharpness(x, at(-0.5)).tolist() == [[[[10, 20, 30], [40, 51, 60], [70, 80, 120]]]]
    assert torch.equal(sharpness(x[..., :2], at(0.5)), x[..., :2])  # only border pixels


def test_posterize_keeps_the_high_bits() -> None:
    x = grey([255, 129, 127, 7])
    assert posterize(x, at(1)).tolist() == [[[[128, 128, 0, 0]]]]
    assert posterize(x, at(4.9)).tolist() == [[[[248, 128, 120, 0]]]]  # five bits
    assert torch.equal(posterize(x, at(8)), x)


def test_solarize_inverts_light_values() -> None:
    x = grey([0, 99, 100, 101, 255])
    assert solarize(x, at(100)).tolist() == [[[[0, 99, 155, 154, 0]]]]
    assert solarize(x, at(100.5)).tolist() == [[[[0, 99, 100, 154, 0]]]]
    assert torch.equal(solarize(x, at(256)), x)
    assert torch.equal(solarize(x, at(0)), invert(x, at(0)))


def test_invert_subtracts_values_from_255() -> None:
    assert invert(grey([0, 1, 128, 255]), at(0)).tolist() == [[[[255, 254, 127, 0]]]]


def test_autocontrast_stretches_each_channel_separately() -> None:
    x = torch.tensor([[[[100, 110, 150]], [[0, 7, 255]], [[9, 9, 9]]]], dtype=torch.uint8)
    assert autocontrast(x, at(0)).tolist() == [[[[0, 51, 255]], [[0, 7, 255]], [[9, 9, 9]]]]


def test_equalize_of_three_values() -> None:
    x = torch.tensor([10] * 255 + [20] * 255 + [30] * 2, dtype=torch.uint8).view(1, 1, 16, 32)
    # 510 pixels are darker than the lightest value, so the step is 510 // 255 = 2. The numbers of pixels
    # darker than each value are 0, 255 and 510; plus half a step: 1 // 2, 256 // 2, 511 // 2.
    assert equalize(x, at(0)).unique().tolist() == [0, 128, 255]
    assert (equalize(x, at(0)) == 128).sum() == 255


def test_equalize_clips_at_255() -> None:
    x = torch.tensor([10] * 300 + [20] * 100, dtype=torch.uint8).view(1, 1, 20, 20)
    assert equalize(x, at(0)).unique().tolist() == [0, 255]  # 300 steps of 1


def test_equalize_does_not_change_images_with_too_few_pixels_or_values() -> None:
    assert torch.equal(equalize(images(size=15), at(0)), images(size=15))
    flat = torch.full((1, 1, 32, 32), 77, dtype=torch.uint8)
    assert torch.equal(equalize(flat, at(0)), flat)


def synthetic(count: int, channels: int, height: int, width: int) -> Tensor:
    """Return images computed by a formula, each with its own range of values."""
    i = torch.arange(count * channels * height * width)
    value = ((i * i // 7 * 31 + i * 53 + i // 11 * 17) % 251).view(count, channels, height, width)
    darker = torch.arange(count).view(-1, 1, 1, 1)
    return (value // (1 + darker) + 20 * darker).to(torch.uint8)


# Computed by Pillow 13.0.0 from `synthetic` images, with m the strength of the level:
#   shear_y       image.transform(image.size, AFFINE, (1, 0, 0, m, 1, 0), fillcolor=grey)
#   translate_x   image.transform(image.size, AFFINE, (1, 0, m * width, 0, 1, 0), fillcolor=grey)
#   translate_y   image.transform(image.size, AFFINE, (1, 0, 0, 0, 1, m * height), fillcolor=grey)
#   rotate        image.rotate(m, fillcolor=grey)
#   colour, contrast, brightness, sharpness
#                 ImageEnhance.Color(image).enhance(1 + m), and so on
#   the others    ImageOps.posterize(image, round(m)), ImageOps.solarize(image, m),
#                 ImageOps.invert(image), and so on
PILLOW_SMALL = [  # operation, level and bytes of one 3 x 3 x 4 image (too small for equalize)
    ("shear_y 8", "0035de56176bd37bc941808012c38a5fe0b54c405347808053664697dd14bf34e84f8080"),
    ("shear_y -8", "00358080176b6abec941de5612c38080e0b5792f53478a5f53668080dd1479abe84f4697"),
    ("translate_x 8", "6abe8080de568080d37b8080792f80808a5f80804c40808079ab808046978080bf348080"),
    ("translate_x -8", "808000358080176b8080c941808012c38080e0b580805347808053668080dd148080e84f"),
    ("translate_y 9", "176bde56c941d37b80808080e0b58a5f53474c4080808080dd144697e84fbf3480808080"),
    ("translate_y -9", "8080808000356abe176bde568080808012c3792fe0b58a5f80808080536679abdd144697"),
    ("rotate 9", "806a6a56006bde7b174141808079795f12b58a40e04747808079799753144634dd4f4f80"),
    ("rotate -9", "17353580c96bdebe80d3d356e0c3c38053b58a2f804c4c5fdd666680e81446ab80bfbf97"),
    ("colour 7", "000062fa0053ff4cf73dff9910e87b07ffd17e5c2e4726347f4a7bd9ff000abbff55ea20"),
    ("colour -7", "0e7371817982af5f9a44995c139d7656b69995617746714b2682767cb5688172a4489347"),
    ("contrast 7", "000b65f30066ff43ff1fff8200fc7e00ffe49b523e29321d3e5e7ed3ff0027b1ff37f509"),
    ("contrast -7", "4f5f6e88566f91688b628e745489735d9285786b68646562686d73829155647c9466885e"),
    ("brightness 9", "0064c9ff2bcbffa3ff7bffe922ffe559ffffffb49d8690799dc1e5ffff2685ffff96ff62"),
    ("brightness -9", "00050a13020a16081406150c01130c0416120d0908070706080a0c111602070f17071305"),
    ("sharpness 9", "00356abe1769ff56c941d37b12c3792fe0d99c5f53474c40536679abdd002f97e84fbf34"),
    ("sharpness -9", "00356abe176ca456c941d37b12c3792fe091785f53474c40536679abdd545c97e84fbf34"),
    ("posterize 7", "003068b81068d850c840d07810c07828e0b0885850404840506078a8d8104090e848b830"),
    ("solarize 5", "00356a41176b215636412c84123c862f1f4a755f53474c405366865422144668174f4034"),
    ("invert 0", "ffca9541e89421a936be2c84ed3c86d01f4a75a0acb8b3bfac99865422ebb96817b040cb"),
    ("autocontrast 0", "003c79da1a7aff62e64af28d00db7f23ffc9945f504147384b6279b5f1003c9dfe46cd26"),
]
PILLOW_LARGE = {  # CRC-32 of 4 x 3 x 32 x 32 and 4 x 1 x 32 x 32 images, at ten levels, with both signs
    "shear_y": 0x38897B64,
    "translate_x": 0x543A1891,
    "translate_y": 0x450BDBA7,
    "rotate": 0x3A9320CB,
    "colour": 0x3B288F2F,
    "contrast": 0x2C783918,
    "brightness": 0x2EE3C06D,
    "sharpness": 0x64727CC0,
    "posterize": 0xCBEB2AA1,
    "solarize": 0x5661E477,
    "invert": 0xEB0DF381,
    "autocontrast": 0x4E18148A,
    "equalize": 0x186FC93D,
}


def test_operations_on_a_small_image_match_pillow() -> None:
    for case, expected in PILLOW_SMALL:
        name, level = case.split()
        strength = OPERATIONS[name].strength(abs(int(level)), negative=level.startswith("-"))
        found = OPERATIONS[name].apply(synthetic(1, 3, 3, 4), at(strength))
        assert found.numpy().tobytes().hex() == expected, case


def test_operations_match_pillow_at_every_level() -> None:
    signs = (False, True)
    for name, operation in OPERATIONS.items():
        strengths = at(*(operation.strength(level, sign) for level in range(10) for sign in signs))
        checksum = 0
        for image in (*synthetic(4, 3, 32, 32), *synthetic(4, 1, 32, 32)):
            found = operation.apply(image.expand(20, -1, -1, -1), strengths)
            checksum = zlib.crc32(found.numpy().tobytes(), checksum)
        assert checksum == PILLOW_LARGE[name], name


def test_shape_and_dtype_are_kept() -> None:
    for shape in [(5, 3, 32, 32), (40, 1, 28, 28), (30, 3, 6, 9), (0, 3, 8, 8), (9, 1, 1, 1)]:
        x = torch.randint(0, 256, shape, generator=rng()).to(torch.uint8)
        found = autoaugment(x, rng())
        assert found.shape == x.shape
        assert found.dtype == torch.uint8


def test_the_same_seed_gives_the_same_images() -> None:
    x = images(50)
    assert torch.equal(autoaugment(x, rng(5)), autoaugment(x, rng(5)))
    assert not torch.equal(autoaugment(x, rng(5)), autoaugment(x, rng(6)))


def test_autoaugment_does_not_modify_its_input() -> None:
    x = images(50)
    before = x.clone()
    autoaugment(x, rng())
    assert torch.equal(x, before)


def test_every_image_draws_five_uniforms() -> None:
    used, expected = rng(), rng()
    autoaugment(images(7), used)
    torch.rand(7 * 5, generator=expected)
    assert torch.equal(used.get_state(), expected.get_state())


def test_images_of_one_batch_are_augmented_differently() -> None:
    x = images(1).repeat(100, 1, 1, 1)
    assert len({image.numpy().tobytes() for image in autoaugment(x, rng())}) > 30


def test_an_augmented_image_does_not_depend_on_the_rest_of_the_batch() -> None:
    x, uniforms = images(60), torch.rand(60, 5, generator=rng())
    together = apply_policy(x, uniforms)
    order = torch.randperm(60, generator=rng(1))
    assert torch.equal(apply_policy(x[order], uniforms[order]), together[order])
    for i in range(60):
        assert torch.equal(apply_policy(x[i : i + 1], uniforms[i : i + 1])[0], together[i])


def test_a_sub_policy_applies_its_two_operations_in_order() -> None:
    for number, sign in itertools.product(range(25), (0.25, 0.75)):
        expected = images(1)
        for step in POLICY[number]:
            operation = OPERATIONS[step.operation]
            if step.probability > 0:
                expected = operation.apply(expected, at(operation.strength(step.level, sign < 0.5)))
        uniforms = torch.tensor([[(number + 0.5) / 25, 0.0, 0.0, sign, sign]])
        assert torch.equal(apply_policy(images(1), uniforms), expected), (number, sign)


def test_each_operation_is_applied_with_its_own_probability() -> None:
    x = images(1)
    first, second = POLICY[20]  # solarize with 0.4, autocontrast with 0.9
    solarized = solarize(x, at(OPERATIONS["solarize"].strength(first.level, False)))
    uniforms = [[0.82, 0.39, 0.91, 0, 0], [0.82, 0.41, 0.89, 0, 0], [0.82, 0.41, 0.91, 0, 0]]
    found = apply_policy(x.repeat(3, 1, 1, 1), torch.tensor(uniforms))
    assert (first.probability, second.probability) == (0.4, 0.9)
    assert torch.equal(found, torch.cat([solarized, autocontrast(x, at(0)), x]))


def test_each_operation_has_its_own_sign() -> None:
    x = images(1, size=64)
    up, down = (translate_y(x, at(sign * 150 / 331)) for sign in (1, -1))
    uniforms = [
        [21.5 / 25, 0, 0.99, 0.6, 0],
        [21.5 / 25, 0, 0.99, 0.4, 0.9],
        [21.5 / 25, 0.99, 0, 0, 0.6],
    ]
    assert torch.equal(apply_policy(x.repeat(3, 1, 1, 1), torch.tensor(uniforms)), torch.cat([up, down, up]))
