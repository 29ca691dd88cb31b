"""Images and labels in the forms that users have."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from remnant.errors import RemnantError
from remnant.learner.inputs import squares, to_images, to_labels, to_samples, with_channels


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 5, 6), (2, 1, 5, 6)),
        ((2, 5, 6, 3), (2, 3, 5, 6)),
        ((2, 3, 5, 6), (2, 3, 5, 6)),
        ((2, 5, 6, 1), (2, 1, 5, 6)),
    ],
)
def test_images_become_channels_first(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert tuple(to_images(np.zeros(shape, np.uint8)).shape) == expected


def test_strides_of_the_given_array_do_not_reach_the_network() -> None:
    for shape in ((2, 5, 6), (2, 5, 6, 1)):
        assert to_images(np.zeros(shape, np.uint8)).stride() == torch.empty(2, 1, 5, 6).stride()


def test_floats_in_0_to_1_become_bytes() -> None:
    assert to_images(torch.tensor([[[[0.0, 0.5, 1.0]]]])).flatten().tolist() == [0, 128, 255]


def test_lists_of_images_are_stacked() -> None:
    pictures = [Image.new("RGB", (4, 4), (1, 2, 3)) for _ in range(2)]
    assert to_images(pictures)[:, :, 0, 0].tolist() == [[1, 2, 3]] * 2


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (np.full((1, 1, 2, 2), 300), "from 300 to 300"),
        (np.full((1, 1, 2, 2), -0.5), "from -0.5"),
        (np.zeros((2, 64)), "shape"),
        ([np.zeros((2, 2)), np.zeros((3, 3))], "same size"),
        (np.zeros((0, 1, 2, 2)), "shape"),
        (np.full((1, 1, 1, 1), "a"), "expected integers"),
        ("photos", "Read the files first"),
    ],
)
def test_other_images_are_one_error(images: Any, expected: str) -> None:  # noqa: ANN401
    with pytest.raises(RemnantError, match=expected):
        to_images(images)


def test_labels_are_plain_strings_or_integers() -> None:
    assert to_labels(np.array(["a", "b"])) == ["a", "b"]
    assert to_labels(torch.tensor([3, 4])) == [3, 4]
    assert to_labels([np.int64(3), torch.tensor(4)]) == [3, 4]


@pytest.mark.parametrize("labels", [["a", 1], [0.5, 1.5], ["a", ""], None, "ab"])
def test_other_labels_are_one_error(labels: Any) -> None:  # noqa: ANN401
    with pytest.raises(RemnantError, match="expected"):
        to_labels(labels)


def test_the_position_of_a_label_that_does_not_fit_is_named() -> None:
    with pytest.raises(RemnantError, match="got None at position 1"):
        to_labels(["a", None, "b"])


def test_batches_of_a_loader_are_no_dataset() -> None:
    with pytest.raises(RemnantError, match="got generator without labels"):
        to_samples((pair for pair in [(np.zeros((1, 8, 8)), 0)]), None, 8)


def test_images_may_have_half_precision() -> None:
    assert to_images(torch.ones(1, 1, 2, 2, dtype=torch.bfloat16)).tolist() == [[[[255, 255], [255, 255]]]]


def test_the_numbers_of_images_and_labels_have_to_agree() -> None:
    with pytest.raises(RemnantError, match="each of 3 images, got 2 labels"):
        to_samples(np.zeros((3, 1, 2, 2), np.uint8), [0, 1], 8)


def test_greyscale_and_colour_are_converted() -> None:
    red = torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1)
    assert with_channels(red, 1).item() == 76
    assert with_channels(with_channels(red, 1), 3).flatten().tolist() == [76, 76, 76]


def test_squares_are_in_the_centre() -> None:
    wide = torch.arange(6).view(1, 1, 1, 6).expand(1, 1, 2, 6)
    assert squares(wide)[0, 0].tolist() == [[2, 3], [2, 3]]
    assert squares(wide.mT)[0, 0].tolist() == [[2, 2], [3, 3]]
