"""Given modules as networks."""

import pytest
import torch
from conftest import tiny_data
from torch import nn

from remnant.errors import RemnantError
from remnant.nets.module import GivenModule, WithHead


def test_every_network_is_a_copy_of_the_module() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 6))
    first, second = (GivenModule(module)(tiny_data().spec) for _ in range(2))
    assert torch.equal(first[1].weight, second[1].weight)  # type: ignore[index]
    assert first is not second
    assert first[1].weight is not module[1].weight  # type: ignore[index]


def test_a_module_with_features_gets_a_linear_head() -> None:
    net = GivenModule(nn.Flatten(), head=36)(tiny_data().spec)
    assert isinstance(net, WithHead)
    assert net.head.out_features == 6
    assert net(torch.zeros(2, 1, 6, 6)).shape == (2, 6)
    assert net.features(torch.zeros(2, 1, 6, 6)).shape == (2, 36)


def test_only_a_module_with_features_grows() -> None:
    GivenModule(nn.Flatten(), head=36).check_grows()
    with pytest.raises(RemnantError, match="cannot get new ones"):
        GivenModule(nn.Flatten()).check_grows()
