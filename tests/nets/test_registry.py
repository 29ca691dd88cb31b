import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from remnant.data import DATA, Spec
from remnant.errors import RemnantError
from remnant.nets import NETS, NormedHead, Small, build, check_fits
from remnant.settings import describe_setting, settings

NAMES = ("cifar10", "cifar100", "digits", "fashion-mnist", "nw-ucla")
CIFAR10, CIFAR100, DIGITS, FASHION_MNIST, NW_UCLA = (DATA[name].spec for name in NAMES)


def linear(spec: Spec) -> nn.Module:
    """Return a network from a plain function, as a user may write it."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, len(spec.classes)))


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_resnets_have_the_published_sizes() -> None:
    assert parameters(build(NETS["resnet18"], CIFAR10, seed=0)) == 11_173_962
    assert parameters(build(NETS["resnet34"], CIFAR100, seed=0)) == 21_328_292


@pytest.mark.parametrize(("classes", "expected"), [(1000, 21_797_672), (101, 21_797_672 - 899 * 513)])
def test_resnet34_for_photos_has_the_published_size(classes: int, expected: int) -> None:
    spec = replace(CIFAR10, shape=(3, 224, 224), classes=tuple(map(str, range(classes))))
    assert parameters(build(NETS["resnet34-224"], spec, seed=0)) == expected


def test_the_small_net_returns_one_logit_per_class() -> None:
    for spec in (DIGITS, FASHION_MNIST):
        assert build(NETS["small"], spec, 0)(torch.randn(2, *spec.shape)).shape == (2, 10)


def test_initial_weights_depend_on_the_seed_only() -> None:
    torch.manual_seed(1)
    a = build(Small(4), DIGITS, seed=7).state_dict()
    torch.rand(10)
    b = build(Small(4), DIGITS, seed=7).state_dict()
    c = build(Small(4), DIGITS, seed=8).state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["head.weight"], c["head.weight"])


def test_building_does_not_affect_the_global_generator() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    build(Small(4), DIGITS, seed=7)
    assert torch.equal(torch.rand(1), expected)


def test_width_must_be_in_range() -> None:
    for name in ("small", "resnet18", "resnet34-224"):
        for width in (0, -4, 10**6):
            with pytest.raises(ValueError, match=f"expected width from 1 to 4096, got {width}"):
                replace(NETS[name], width=width)  # type: ignore[type-var]


def test_every_setting_has_a_description() -> None:
    for net in NETS.values():
        assert all(describe_setting(net, name) for name in settings(net))
    assert settings(NETS["resnet18"]) == {"width": 64}
    assert settings(NETS["efficientgcn-b0"]) == {}


@pytest.mark.parametrize("shape", [(4,), (4, 4)])
def test_a_network_for_images_is_not_for_vectors_or_sequences(shape: tuple[int, ...]) -> None:
    message = re.escape(f"digits has inputs of shape {shape}. Use a network of your own: net=FILE.py:NAME")
    with pytest.raises(RemnantError, match=message):
        check_fits(Small(), replace(DIGITS, shape=shape))


def test_a_network_is_for_images_or_for_skeletons() -> None:
    check_fits(NETS["efficientgcn-b0"], NW_UCLA)
    check_fits(Small(), DIGITS)
    choices = r"digits has images\. Use small, resnet18, resnet34, resnet34-224 or features\.$"
    with pytest.raises(RemnantError, match="network expects skeletons, but the dataset " + choices):
        check_fits(NETS["efficientgcn-b0"], DIGITS)
    with pytest.raises(RemnantError, match=r"nw-ucla has skeletons\. Use efficientgcn-b0\.$"):
        check_fits(Small(), NW_UCLA)
    with pytest.raises(TypeError, match="expects skeletons, got the dataset digits"):
        build(NETS["efficientgcn-b0"], DIGITS, 0)


def test_a_plain_function_is_a_net_for_any_inputs() -> None:
    check_fits(linear, DIGITS)
    check_fits(linear, NW_UCLA)
    nets = [build(linear, DIGITS, seed) for seed in (7, 7, 8)]
    assert nets[0](torch.randn(2, 1, 8, 8)).shape == (2, 10)
    a, b, c = (net.state_dict()["1.weight"] for net in nets)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_a_factory_must_return_a_module() -> None:
    def forgot_to_return(spec: Spec) -> None:
        linear(spec)

    with pytest.raises(RemnantError, match=r"Module from the net factory forgot_to_return, got NoneType"):
        build(forgot_to_return, DIGITS, 0)  # type: ignore[arg-type]


def test_a_normed_head_requires_a_linear_head() -> None:
    assert isinstance(build(Small(4), DIGITS, 0, normed_head=True).head, NormedHead)
    with pytest.raises(RemnantError, match=r"Linear `head`, got \w+ with the head none\. "):
        build(linear, DIGITS, 0, normed_head=True)
