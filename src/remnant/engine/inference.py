"""Logits, losses and features in eval mode, without gradients. B samples, C classes, D features."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.errors import Diverged, RemnantError

CHUNK = 64  # samples per forward pass without gradients; larger batches exceed the CPU cache
VALUES = 1 << 20  # input values per forward pass: 6 images of 224 x 224

Prepare = Callable[[Tensor], Tensor]  # raw inputs -> inputs of the network


def predict(net: nn.Module, x: Tensor, prepare: Prepare) -> Tensor:
    """Return logits (B, C) of raw inputs, on the device of the network; BatchNorm statistics do not change.

    Inputs are moved to the device in chunks.
    """
    net.eval()
    device = device_of(net)
    with torch.inference_mode():
        return finite(torch.cat([net(prepare(chunk.to(device))) for chunk in chunks(x)]))


def device_of(net: nn.Module) -> torch.device:
    """Return the device of a network."""
    return next((p.device for p in net.parameters()), torch.device("cpu"))


def predict_stored(net: nn.Module, x: Tensor, index: Tensor, prepare: Prepare) -> Tensor:
    """Return logits of x[index], copied in chunks, because a complete copy may not fit in RAM."""
    return torch.cat([predict(net, x[part], prepare) for part in index.split(CHUNK)])


def chunks(x: Tensor) -> tuple[Tensor, ...]:
    """Split inputs into chunks for one forward pass each; chunks of large inputs have fewer samples.

    All chunks but the last one have the same size: activations of many sizes would fragment the heap.

    >>> [len(chunk) for chunk in chunks(torch.empty(20, 3, 224, 224))]
    [6, 6, 6, 2]
    """
    return tuple(x.split(max(1, min(CHUNK, VALUES // math.prod(x.shape[1:])))))


def finite(logits: Tensor) -> Tensor:
    """Return logits, or raise Diverged if any of them is not finite."""
    if not logits.isfinite().all():
        raise Diverged("the network's output is not finite")
    return logits


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the unmasked loss of each sample in double precision, (B,), on the CPU, as used for scores."""
    return F.cross_entropy(logits, y.to(logits.device), reduction="none").cpu().double()


class Embedding(NamedTuple):
    """Samples as feature vectors, which are the inputs of the network's head; on the CPU."""

    features: Tensor  # (n, D)
    y: Tensor  # (n,)
    loss: Tensor  # (n,)
    weight: Tensor  # (C, D) of the head


def embed(net: nn.Module, x: Tensor, y: Tensor, prepare: Prepare) -> Embedding:
    """Compute features and losses of samples in one forward pass."""
    network = cast(Any, net.eval())
    if not (hasattr(network, "features") and hasattr(network, "head")):
        raise RemnantError(
            f"expected a network with features(x) and a linear head, which this method requires, got "
            f"{type(net).__name__}. Add both to the network, or choose another method."
        )
    with torch.inference_mode():
        features = torch.cat([network.features(prepare(chunk)) for chunk in chunks(x)])
        logits = finite(network.head(features))
    return Embedding(features.cpu(), y.cpu(), cross_entropy(logits, y), network.head.weight.detach().cpu())
