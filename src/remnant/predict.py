"""What a network says, while it learns nothing from it: eval mode, no gradients."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.errors import Diverged

CHUNK = 64  # rows of a forward without gradients; more of them fall out of the cache
VALUES = 1 << 20  # in all of them; of photos of 224 x 224 these are 6 rows


def predict(net: nn.Module, x: Tensor, prepare: Callable[[Tensor], Tensor]) -> Tensor:
    """Return logits (B, C) of inputs that are prepared a few at a time; BatchNorm learns nothing."""
    net.eval()
    with torch.inference_mode():
        return finite(torch.cat([net(prepare(part)) for part in parts(x)]))


def parts(x: Tensor) -> tuple[Tensor, ...]:
    """Split rows into those that are looked at together: fewer of large ones.

    The last part may be of any length up to the others'. Each length has activations of its own size,
    and of large rows many such sizes fray the heap.

    >>> [len(part) for part in parts(torch.empty(20, 3, 224, 224))]
    [6, 6, 6, 2]
    """
    return tuple(x.split(max(1, min(CHUNK, VALUES // math.prod(x.shape[1:])))))


def finite(logits: Tensor) -> Tensor:
    """Return logits, unless the network that gave them has diverged."""
    if not logits.isfinite().all():
        raise Diverged("the network's output is not finite")
    return logits


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the unmasked loss of each row: the one scale of all scores, (B,)."""
    return F.cross_entropy(logits, y, reduction="none").double()


class Embedding(NamedTuple):
    """Rows as the head of a network sees them."""

    features: Tensor  # (n, D)
    y: Tensor  # (n,)
    loss: Tensor  # (n,)
    weight: Tensor  # (C, D) of the head


def embed(net: nn.Module, x: Tensor, y: Tensor, prepare: Callable[[Tensor], Tensor]) -> Embedding:
    """Look at rows once for their features and their losses."""
    network = cast(Any, net.eval())
    with torch.inference_mode():
        features = torch.cat([network.features(prepare(part)) for part in parts(x)])
        logits = finite(network.head(features))
    return Embedding(features, y, cross_entropy(logits, y), network.head.weight.detach())
