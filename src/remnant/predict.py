"""What a network says, while it learns nothing from it: eval mode, no gradients."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.errors import Diverged

CHUNK = 64  # rows of a forward without gradients; more of them fall out of the cache


def predict(net: nn.Module, x: Tensor, prepare: Callable[[Tensor], Tensor]) -> Tensor:
    """Return logits (B, C) of inputs that are prepared a few at a time; BatchNorm learns nothing."""
    net.eval()
    with torch.inference_mode():
        logits = torch.cat([net(prepare(part)) for part in x.split(CHUNK)])
    if not logits.isfinite().all():
        raise Diverged("the network's output is not finite")
    return logits


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the unmasked loss of each row: the one scale of all scores, (B,)."""
    return F.cross_entropy(logits, y, reduction="none").double()
