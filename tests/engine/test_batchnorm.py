"""BatchNorm statistics that are estimated again: numbers worked by hand, and networks without any."""

import pytest
import torch
from torch import Tensor, nn

from remnant.engine.batchnorm import recalibrated
from remnant.engine.inference import CHUNK


def plain(x: Tensor) -> Tensor:
    return x


def test_the_statistics_are_those_of_the_samples() -> None:
    net = nn.Sequential(nn.BatchNorm1d(1), nn.Dropout(0.5))
    found = recalibrated(net, torch.tensor([[1.0], [2.0], [6.0]]), plain)
    assert found[0].running_mean.tolist() == [3.0]
    assert found[0].running_var.tolist() == [7.0]  # (4 + 1 + 9) / 2, unbiased as torch stores it
    assert net[0].running_mean.tolist() == [0.0]  # the network itself stays as it is
    assert not any(layer.training for layer in found.modules())


def test_the_statistics_of_batches_are_averaged() -> None:
    x = torch.arange(CHUNK + 2.0)[:, None]  # two batches of 33: 0, 2, 4, ... and 1, 3, 5, ...
    found = recalibrated(nn.Sequential(nn.BatchNorm1d(1)), x, plain)
    assert found[0].running_mean.item() == pytest.approx(x.mean().item())
    assert found[0].running_var.item() == pytest.approx(
        4 * 33 * 34 / 12
    )  # that of 0, 1, ..., n - 1: n(n+1)/12


@pytest.mark.parametrize("net", [nn.Linear(1, 1), nn.BatchNorm1d(1, track_running_stats=False)])
def test_a_network_without_statistics_is_not_copied(net: nn.Module) -> None:
    assert recalibrated(net, torch.zeros(4, 1), plain) is net


def test_a_single_sample_has_no_statistics() -> None:
    net = nn.Sequential(nn.BatchNorm1d(1))
    assert recalibrated(net, torch.ones(1, 1), plain) is net
