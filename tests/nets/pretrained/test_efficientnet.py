import pytest
import torch

from remnant.data.pretrained import EFFICIENTNET_LITE0
from remnant.nets.pretrained.efficientnet import ConvNorm, EfficientNetLite0, renamed


@pytest.fixture(scope="module")
def net() -> EfficientNetLite0:
    net = EfficientNetLite0()
    weights = EFFICIENTNET_LITE0.read()
    net.load_state_dict({renamed(name): torch.from_numpy(value) for name, value in weights.items()})
    return net.eval()


def test_it_has_the_published_number_of_parameters(net: EfficientNetLite0) -> None:
    assert sum(p.numel() for p in net.parameters()) == 4_652_008


def test_its_outputs_are_those_of_another_implementation(net: EfficientNetLite0) -> None:
    # Computed with the package efficientnet_lite_pytorch 0.1.0 and the same weights.
    x = torch.sin(torch.arange(2 * 3 * 64 * 64).reshape(2, 3, 64, 64) * 0.01)
    with torch.inference_mode():
        logits, features = net(x), net.features(x)
    expected = [
        [-0.97916728, 4.80233240, 1.11049330, -5.39997243, -1.56427323, -1.02310562],
        [-2.16693019, 5.81411552, 0.08852706, -8.13824176, -3.03114986, -0.24762026],
    ]
    torch.testing.assert_close(logits[:, :6], torch.tensor(expected), atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(features.sum(1), torch.tensor([447.97327, 582.26416]), atol=0.05, rtol=1e-4)
    assert features.shape == (2, 1280)


@pytest.mark.parametrize(("size", "expected"), [(8, 4), (7, 4), (1, 1)])
def test_a_strided_convolution_rounds_the_size_up(size: int, expected: int) -> None:
    layer = ConvNorm(2, 3, kernel=3, stride=2).eval()
    assert layer(torch.zeros(1, 2, size, size)).shape == (1, 3, expected, expected)
