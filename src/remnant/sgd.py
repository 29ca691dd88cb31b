"""Networks and optimizers whose state can be saved and continued bit for bit, in any memory layout."""

from collections.abc import Iterable

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
    """Return an optimizer that has seen nothing yet."""
    return torch.optim.SGD(
        parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov, fused=True
    )


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    """Return the weights and buffers of a network; one that has diverged is not worth saving."""
    weights = dict(net.state_dict())
    if not all(value.isfinite().all() for value in weights.values()):
        raise Diverged("a weight is not finite")
    return weights


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
        int(i): {"momentum_buffer": laid_out(buffer, parameters[int(i)])}
        for i, buffer in buffers.items()
    }
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def laid_out(value: Tensor, parameter: Tensor) -> Tensor:
    """Return a copy in the layout of its parameter, which a saved one has lost."""
    return torch.empty_like(parameter).copy_(value)
