"""Networks in double precision, in which runs with any number of ranks agree to many digits."""

from torch import Tensor, nn

from remnant.data.dataset import Spec


class Double(nn.Module):
    """Computes a network in double precision, whatever the precision of its inputs."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.net = nn.Sequential(*layers).double()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.net(x.double())
        return result


def plain(spec: Spec) -> nn.Module:
    """Return a network without BatchNorm."""
    return Double(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, len(spec.classes)))


def normed(spec: Spec) -> nn.Module:
    """Return a network with BatchNorm."""
    return Double(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Flatten(), nn.Linear(128, len(spec.classes)),
    )  # fmt: skip
