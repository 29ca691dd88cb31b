from pathlib import Path

import pytest
import torch
from cli_helpers import Invoke
from torch import nn

from remnant.errors import RemnantError
from remnant.nets.head import NormedHead, linear_head


def test_logits_are_normalised_over_the_batch() -> None:
    head = NormedHead(8, 3).train()
    logits = head(5 + 7 * torch.randn(50, 8))
    assert torch.allclose(logits.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(logits.var(0, unbiased=False), torch.ones(3), atol=1e-4)


def test_the_head_has_weights_without_bias() -> None:
    head = NormedHead(8, 3)
    assert head.weight is head.linear.weight
    assert head.weight.shape == (3, 8)
    assert head.linear.bias is None
    assert head.norm.eps == 1e-6


def test_a_network_without_a_linear_head_is_an_error() -> None:
    with pytest.raises(
        RemnantError, match=r"expected a network with a torch\.nn\.Linear `head`, got Sequential"
    ):
        linear_head(nn.Sequential(nn.Linear(2, 3)), "SPR replaces the head")
    net = nn.Module()
    net.head = nn.Linear(2, 3)
    assert linear_head(net, "SPR replaces the head") is net.head
    with pytest.raises(RemnantError, match=r"a method features\(x\)"):
        linear_head(net, "CNLL adds a second head", needs_features=True)


def test_a_module_in_the_place_of_a_factory_is_an_error(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text("from torch import nn\nNET = nn.Linear(64, 10)\n")
    done = invoke("run", "net=nets.py:NET", "per_class=12", "epochs=2", "-q")
    assert done.code == 2
    assert "write a function that builds one" in done.err
