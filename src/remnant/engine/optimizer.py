"""Optimizers whose state can be saved and restored bit for bit, in any memory layout."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from remnant.errors import Diverged


def new_sgd(
    parameters: Iterable[nn.Parameter],
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool = False,
) -> torch.optim.SGD:
    """Return a new SGD optimizer."""
    return torch.optim.SGD(
        parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov, fused=True
    )


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers of a network; raise Diverged if one is not finite."""
    weights = dict(net.state_dict())
    if not all(value.isfinite().all() for value in weights.values()):
        raise Diverged("a weight is not finite")
    return weights


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def momentum_of(optimizer: torch.optim.SGD) -> dict[str, Tensor]:
    """Return the momentum buffers by the index of the parameter."""
    state = optimizer.state_dict()["state"]
    return {str(i): entry["momentum_buffer"] for i, entry in state.items()}


def load_momentum(optimizer: torch.optim.SGD, momentum: dict[str, Tensor]) -> None:
    """Restore the momentum buffers returned by `momentum_of`."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = {
        int(i): {"momentum_buffer": with_layout(value, parameters[int(i)])} for i, value in momentum.items()
    }
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def with_layout(value: Tensor, parameter: Tensor) -> Tensor:
    """Return a copy in the memory layout of its parameter, which is lost when a tensor is saved."""
    return torch.empty_like(parameter).copy_(value)


class AdamTrainer:
    """A network with its Adam optimizer."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters(), fused=True)

    def step(self, loss: Tensor, lr: float, clip: float = 0.0) -> Tensor:
        """Take a gradient step and return the loss; `clip` is the maximum gradient value, 0: no clipping."""
        self.optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_value_(self.net.parameters(), clip)
        set_learning_rate(self.optimizer, lr)
        self.optimizer.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the weights, and the moments by the index of the parameter."""
        moments = self.optimizer.state_dict()["state"]
        return {
            "net": weights_of(self.net),
            "moments": {str(i): dict(entry) for i, entry in moments.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.net.load_state_dict(state["net"])
        parameters = list(self.net.parameters())
        moments = {
            int(i): {name: _restored(value, parameters[int(i)]) for name, value in entry.items()}
            for i, entry in state["moments"].items()
        }
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})


def _restored(value: Tensor, parameter: Tensor) -> Tensor:
    """Return a moment in the layout of its parameter; the step count has no layout."""
    return with_layout(value, parameter) if value.shape == parameter.shape else value.clone()
