import torch

from remnant.nets.small import SmallNet


def test_the_head_is_applied_to_the_features() -> None:
    net, x = SmallNet(1, 10, 4).eval(), torch.randn(3, 1, 8, 8)
    assert net.features(x).shape == (3, 32)
    assert torch.equal(net.head(net.features(x)), net(x))


def test_the_image_size_does_not_change_the_number_of_features() -> None:
    net = SmallNet(1, 10, 4).eval()
    assert net.features(torch.randn(2, 1, 28, 28)).shape == (2, 32)
