import pytest
import torch
from torch import Tensor, nn

from remnant.data.pretrained import Pretrained
from remnant.nets.pretrained.backbone import LITE0, Backbone, describe, is_backbone, load_backbone


class Corners(nn.Module):
    """Returns the first and the last pixel of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, :, 0, 0], x[:, :, -1, -1]], 1)


def corners(size: int = 4) -> Backbone:
    return Backbone(Corners(), Pretrained(size, (0.5, 0.5, 0.5), (0.5, 0.25, 0.5), 6, "0"))


def test_images_are_normalised_by_channel() -> None:
    backbone, white = corners(), torch.full((1, 3, 4, 4), 255, dtype=torch.uint8)
    assert backbone(backbone.prepare(white)).tolist() == [[1, 2, 1, 1, 2, 1]]


@pytest.mark.parametrize("side", [2, 4, 9])
def test_images_of_any_size_are_resized(side: int) -> None:
    backbone = corners()
    grey = torch.full((2, 3, side, side + 1), 51, dtype=torch.uint8)
    assert torch.allclose(backbone(backbone.prepare(grey))[:, 0], torch.tensor(-0.6))


def test_a_grey_image_is_the_same_as_one_with_three_equal_channels() -> None:
    backbone = corners()
    image = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4)
    one, three = (backbone(backbone.prepare(x)) for x in (image, image.expand(-1, 3, -1, -1)))
    assert torch.equal(one, three)


def test_the_built_in_backbone_returns_as_many_features_as_it_says() -> None:
    backbone = Backbone(load_backbone("efficientnet-lite0"), LITE0)
    images = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    with torch.inference_mode():
        assert backbone(backbone.prepare(images)).shape == (1, describe("efficientnet-lite0").features)


def test_names_of_backbones() -> None:
    assert all(map(is_backbone, ("efficientnet-lite0", "hf:google/vit-base-patch16-224")))
    assert not any(map(is_backbone, ("efficientnet", "hf:", "resnet18")))
