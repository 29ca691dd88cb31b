import pytest
import torch
from conftest import same, tiny_stream
from torch import Tensor, nn

from remnant.engine.optimizer import (
    AdamTrainer,
    load_momentum,
    momentum_of,
    new_sgd,
    set_learning_rate,
    weights_of,
    with_layout,
)
from remnant.errors import Diverged
from remnant.experiment.checkpoint import pack, unpack
from remnant.nets import Small, build

LAYOUTS = [torch.contiguous_format, torch.channels_last]


def new_net(layout: torch.memory_format) -> nn.Module:
    net = build(Small(4), tiny_stream().spec, 0)
    return net.to(memory_format=layout)


def images() -> Tensor:
    return torch.randn(5, 1, 6, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_adam_continues_bit_for_bit_from_a_state_saved_after_any_step(layout: torch.memory_format) -> None:
    whole, cut = AdamTrainer(new_net(layout)), AdamTrainer(new_net(layout))
    for k in range(6):
        for trainer in (whole, cut):
            trainer.step(trainer.net(images()).square().mean(), 0.1 / (k + 1), clip=0.5)
        state = unpack(pack(cut.state_dict()))
        cut = AdamTrainer(new_net(layout))
        cut.load_state_dict(state)
    assert pack(whole.state_dict()) == pack(cut.state_dict())


def sgd_step(net: nn.Module, optimizer: torch.optim.SGD) -> None:
    optimizer.zero_grad()
    net(images()).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_continues_bit_for_bit_from_saved_momentum(layout: torch.memory_format, nesterov: bool) -> None:
    def new() -> tuple[nn.Module, torch.optim.SGD]:
        net = new_net(layout)
        return net, new_sgd(net.parameters(), 0.1, 0.9, 1e-3, nesterov)

    whole, cut = new(), new()
    for _ in range(4):
        sgd_step(*whole)
        sgd_step(*cut)
        state = unpack(pack({"net": weights_of(cut[0]), "momentum": momentum_of(cut[1])}))
        cut = new()
        cut[0].load_state_dict(state["net"])
        load_momentum(cut[1], state["momentum"])
    assert same(weights_of(whole[0]), weights_of(cut[0]))
    assert same(momentum_of(whole[1]), momentum_of(cut[1]))


def test_loading_empty_momentum_resets_it() -> None:
    net = new_net(torch.contiguous_format)
    optimizer = new_sgd(net.parameters(), 0.1, 0.9, 0.0)
    assert momentum_of(optimizer) == {}
    sgd_step(net, optimizer)
    assert len(momentum_of(optimizer)) == len(list(net.parameters()))
    load_momentum(optimizer, {})
    assert momentum_of(optimizer) == {}


def test_the_learning_rate_is_set_for_all_parameters() -> None:
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD([{"params": [net.weight]}, {"params": [net.bias], "lr": 0.5}], lr=0.1)
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]


def test_a_step_of_adam_returns_the_loss_and_uses_the_given_learning_rate() -> None:
    trainer = AdamTrainer(nn.Linear(2, 2))
    before = trainer.net.weight.detach().clone()
    loss = trainer.net(torch.ones(3, 2)).sum()
    assert trainer.step(loss, 0.25) == loss.item()
    moved = before - trainer.net.weight
    assert moved.flatten().tolist() == pytest.approx([0.25] * 4, rel=1e-3)  # the first step of Adam is lr


def test_entries_of_the_gradient_are_clipped() -> None:
    for clip, largest in ((0.0, 300.0), (0.5, 0.5)):
        trainer = AdamTrainer(nn.Linear(2, 1, bias=False))
        trainer.step(trainer.net(torch.tensor([[100.0, 300.0]])).sum(), 0.1, clip)
        assert trainer.net.weight.grad.max() == largest


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_raise_diverged(value: float) -> None:
    net = new_net(torch.contiguous_format)
    assert same(weights_of(net), dict(net.state_dict()))
    net.state_dict()["body.1.running_var"][0] = value
    with pytest.raises(Diverged, match="not finite"):
        weights_of(net)
    with pytest.raises(Diverged):
        AdamTrainer(net).state_dict()


def test_a_copy_has_the_layout_of_its_parameter() -> None:
    value, parameter = torch.randn(2, 3, 4, 5), torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
    found = with_layout(value, parameter)
    assert torch.equal(found, value)
    assert found.stride() == parameter.stride() != value.stride()
