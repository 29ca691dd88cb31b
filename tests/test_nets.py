import pytest
import torch

from remnant.data import DATA
from remnant.nets import NETS, CifarResNet, Small, build


def parameters(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_resnet18_of_width_64_has_the_published_size() -> None:
    net = build(NETS["resnet18"], DATA["cifar10"].spec, seed=0)
    assert parameters(net) == 11_173_962


def test_resnet34_of_width_64_has_the_published_size() -> None:
    net = build(NETS["resnet34"], DATA["cifar100"].spec, seed=0)
    assert parameters(net) == 21_328_292


@pytest.mark.parametrize(("net", "data"), [("small", "digits"), ("small", "fashion-mnist")])
def test_a_net_gives_one_logit_per_class(net: str, data: str) -> None:
    spec = DATA[data].spec
    assert build(NETS[net], spec, 0)(torch.randn(2, *spec.shape)).shape == (2, 10)


def test_a_narrow_resnet_works_on_cifar100() -> None:
    net = build(CifarResNet((2, 2, 2, 2), width=4), DATA["cifar100"].spec, 0)
    x = torch.randn(2, 3, 32, 32)
    assert net(x).shape == (2, 100)
    assert net.features(x).shape == (2, 32)  # type: ignore[operator]


def test_the_head_sees_the_features() -> None:
    net = build(Small(4), DATA["digits"].spec, 0).eval()
    x = torch.randn(3, 1, 8, 8)
    assert torch.allclose(net.head(net.features(x)), net(x))  # type: ignore[operator]


def test_initial_weights_depend_on_the_seed_alone() -> None:
    spec = DATA["digits"].spec
    torch.manual_seed(1)
    a = build(Small(4), spec, seed=7).state_dict()
    torch.rand(10)
    b = build(Small(4), spec, seed=7).state_dict()
    c = build(Small(4), spec, seed=8).state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["head.weight"], c["head.weight"])


def test_building_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    build(Small(4), DATA["digits"].spec, seed=7)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("width", [0, -4, 10**6])
def test_a_net_needs_channels(width: int) -> None:
    with pytest.raises(ValueError, match=f"from 1 to 4096, got {width}"):
        Small(width)
