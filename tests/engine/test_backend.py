import copy

import pytest
import torch
from torch import nn

from remnant.engine.backend import Backend, find_device, has_bf16, prefers_bf16
from remnant.errors import RemnantError
from remnant.nets.small import SmallNet

CPU = torch.device("cpu")


def net() -> nn.Module:
    torch.manual_seed(0)
    return SmallNet(1, 10, 8).eval()


def test_a_network_in_bf16_returns_float32_close_to_that_of_float32() -> None:
    x = torch.randn(16, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    exact, rounded = net()(x), Backend(precision="bf16").prepare(net())(x)
    assert rounded.dtype == torch.float32
    assert not rounded.equal(exact)
    assert torch.allclose(rounded, exact, atol=0.02)


def test_weights_gradients_and_statistics_of_a_network_in_bf16_are_float32() -> None:
    trained = Backend(precision="bf16").prepare(net()).train()
    trained(torch.randn(4, 1, 8, 8)).sum().backward()
    assert {p.dtype for p in trained.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in trained.parameters() if p.grad is not None} == {torch.float32}
    assert {b.dtype for b in trained.buffers()} == {torch.float32, torch.int64}


def test_a_network_in_bf16_keeps_its_weight_names_type_and_copies() -> None:
    plain, cast = net(), Backend(precision="bf16").prepare(net())
    assert isinstance(cast, SmallNet)
    assert list(cast.state_dict()) == list(plain.state_dict())
    copied = copy.deepcopy(cast)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    x = torch.ones(1, 1, 8, 8)
    assert not copied(x).any()
    assert cast(x).any()


def test_features_are_computed_in_bf16_too() -> None:
    x = torch.randn(2, 1, 8, 8)
    cast = Backend(precision="bf16").prepare(net())
    assert cast.features(x).dtype == torch.float32
    assert not cast.features(x).equal(net().features(x))
    assert not hasattr(Backend(precision="bf16").prepare(nn.Sequential(nn.Flatten())), "features")


def test_float32_changes_nothing() -> None:
    x = torch.randn(4, 1, 8, 8)
    assert Backend().prepare(net())(x).equal(net()(x))


@pytest.mark.parametrize("name", ["cuda:99", "meta", "nonsense", "cuda:x", "mps:7"])
def test_a_device_that_is_not_there_is_an_error_with_advice(name: str) -> None:
    with pytest.raises(RemnantError, match="Use auto or cpu"):
        find_device(name)


@pytest.mark.parametrize("width", [8, 16])
def test_automatic_precision_is_bf16_for_wide_convolutions_where_there_are_instructions(width: int) -> None:
    assert prefers_bf16(SmallNet(1, 10, width), CPU) == (has_bf16(CPU) and width == 16)


def test_a_gpu_prefers_bf16_if_it_has_instructions_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_instructions in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda found=has_instructions, **_: found)
        assert has_bf16(torch.device("cuda")) is has_instructions
        assert not has_bf16(torch.device("mps"))


def test_automatic_precision_without_convolutions_is_float32() -> None:
    assert not prefers_bf16(nn.Linear(2, 2), CPU)
