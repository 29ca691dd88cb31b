"""SGD whose state can be saved and continued bit for bit, in any memory layout."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def new_sgd(
    parameters: Iterable[nn.Parameter],
    lr: float,
    momentum: float,
    weight_decay: float,
    nesterov: bool = False,
) -> torch.optim.SGD:
    """Return an optimizer that has seen nothing yet."""
    return torch.optim.SGD(
        parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov, fused=True
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of everything that is optimized."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def momentum_of(optimizer: torch.optim.SGD) -> dict[str, Tensor]:
    """Return the momentum of each parameter that has one, by its number."""
    state = optimizer.state_dict()["state"]
    return {str(i): entry["momentum_buffer"] for i, entry in state.items()}


def load_momentum(optimizer: torch.optim.SGD, buffers: dict[str, Tensor]) -> None:
    """Go on with this momentum."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = {
        # In the layout of its parameter, which a saved buffer has lost.
        int(i): {"momentum_buffer": torch.empty_like(parameters[int(i)]).copy_(buffer)}
        for i, buffer in buffers.items()
    }
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
