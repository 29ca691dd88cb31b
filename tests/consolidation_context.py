"""A small buffer with linear networks for the tests of consolidations."""

import reference_consolidation as reference
import torch
from torch import Tensor, nn

from remnant.buffer.buffer import Buffer
from remnant.methods.consolidation.base import ConsolidationContext
from remnant.stream import Batch
from remnant.transforms.image import ImageTransform

CLASSES, FEATURES = 4, 5


class Jitter(ImageTransform):
    """Adds noise to each sample, so that no two views are equal; strong views get more noise."""

    def plain(self, x: Tensor) -> Tensor:
        return x

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        return x + torch.randn(x.shape, generator=rng, dtype=x.dtype)

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        return x + 3 * torch.randn(x.shape, generator=rng, dtype=x.dtype)


def linear(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(FEATURES, CLASSES, dtype=torch.float64)


def make_context(samples: int, seed: int = 0, nets: int = 2, classes: int = CLASSES) -> ConsolidationContext:
    rng = torch.Generator().manual_seed(seed)
    buffer = Buffer(samples, (FEATURES,), dtype=torch.float64)
    x = torch.randn(samples, FEATURES, generator=rng, dtype=torch.float64)
    y = torch.randint(classes, (samples,), generator=rng)
    buffer.put(torch.arange(samples), Batch(x, y, torch.arange(samples)), 0)
    networks = tuple(linear(seed + k) for k in range(nets))
    seen = torch.tensor([True, True, True, False])
    return ConsolidationContext(networks, buffer, Jitter((0.0,), (1.0,)), rng, seen, 0.4)


def reference_net(net: nn.Module) -> reference.Net:
    weight, bias = (p.detach().numpy() for p in net.parameters())
    return lambda x: weight @ x + bias


def clone(rng: torch.Generator) -> torch.Generator:
    return torch.Generator().set_state(rng.get_state())


def losses_of(context: ConsolidationContext, x: Tensor, y: Tensor) -> list[list[float]]:
    """Return the loss of each sample for each network."""
    return [nn.functional.cross_entropy(net(x), y, reduction="none").tolist() for net in context.nets]
