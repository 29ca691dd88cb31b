"""A network and the Adam that trains it, which can be saved and continued bit for bit."""

from typing import Any

import torch
from torch import Tensor, nn

from remnant.sgd import laid_out, set_rate, weights_of


class Trainee:
    """A network with an optimizer of its own; a new network is a new trainee."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters(), fused=True)

    def step(self, loss: Tensor, rate: float, clip: float = 0.0) -> float:
        """Take a step down the loss, no entry of the gradient being larger than `clip`; 0: any."""
        self.optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_value_(self.net.parameters(), clip)
        set_rate(self.optimizer, rate)
        self.optimizer.step()
        return loss.item()

    def state_dict(self) -> dict[str, Any]:
        """Return weights and moments, by the number of the parameter; a diverged network has none."""
        moments = self.optimizer.state_dict()["state"]
        return {
            "net": weights_of(self.net),
            "moments": {str(i): dict(entry) for i, entry in moments.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.net.load_state_dict(state["net"])
        parameters = list(self.net.parameters())
        moments = {
            int(i): {name: _restored(value, parameters[int(i)]) for name, value in entry.items()}
            for i, entry in state["moments"].items()
        }
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})


def _restored(value: Tensor, parameter: Tensor) -> Tensor:
    """Return a moment as it was; a count has no layout."""
    return laid_out(value, parameter) if value.shape == parameter.shape else value.clone()
