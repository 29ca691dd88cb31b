"""What methods receive from a learner: images of one size, or features of images of any size."""

import pytest
import torch
from tiny_features import TinyFeatures

from remnant.data.dataset import InMemory, Spec
from remnant.errors import RemnantError
from remnant.features import embed
from remnant.learner.received import first_spec, received, side_of, transform_of
from remnant.models.description import config_for
from remnant.transforms.image import ImageTransform

CLASSES = ("a", "b")
SPEC = Spec("learner", (3, 32, 32), CLASSES, ImageTransform((0.5,) * 3, (0.25,) * 3))
GREY = InMemory(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 1, 16, 16))


def test_the_side_is_given_or_that_of_the_pretrained_network() -> None:
    assert [side_of(None, 0), side_of(TinyFeatures(), 0), side_of(TinyFeatures(), 20)] == [32, 8, 20]


def test_the_first_images_determine_size_and_normalisation() -> None:
    config = config_for(SPEC, {"net": "small:4"})
    spec = first_spec(GREY, CLASSES, config, None, 9)
    assert spec.shape == (1, 16, 16)
    assert spec.transform == transform_of(GREY.x)
    assert transform_of(GREY.x).mean == (0.5,)


def test_features_are_those_of_colour_images_of_the_side_of_the_network() -> None:
    config = config_for(SPEC, {"net": TinyFeatures()})
    spec = first_spec(GREY, CLASSES, config, None, 9)
    assert spec.shape == (3, 9, 9)
    assert isinstance(spec.transform, ImageTransform)
    assert spec.transform.mean == (0.0,) * 3


def test_features_of_wide_images_are_those_of_the_square_in_the_centre() -> None:
    spec = first_spec(GREY, CLASSES, config_for(SPEC, {"net": TinyFeatures()}), None, 8)
    wide = torch.zeros(1, 3, 8, 16, dtype=torch.uint8)
    wide[..., 4:12] = 255
    assert received(InMemory(wide), spec, TinyFeatures().load(), embed).tolist() == [[1.0, 1.0, 1.0]]


def test_images_without_features_need_the_size_of_the_first_ones() -> None:
    spec = first_spec(GREY, CLASSES, config_for(SPEC, {"net": "small:4"}), None, 8)
    assert received(GREY, spec, None, embed).shape == (2, 1, 16, 16)
    with pytest.raises(RemnantError, match=r"expected images of shape \(1, 16, 16\), got \(1, 9, 9\)"):
        received(InMemory(torch.zeros(1, 3, 9, 9, dtype=torch.uint8)), spec, None, embed)
