"""Where and how networks are computed: device, precision and memory layout.

Inputs, labels, logits and networks are on the device. Decisions are made on the CPU, where the random
generators are: orders, ids, slots and the losses that are compared. Weights, BatchNorm statistics,
optimizers and losses have 32 bits or more in every precision.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from remnant.engine.parallel.ranks import SINGLE, Ranks
from remnant.errors import RemnantError

DEVICES = ("auto", "cpu", "cuda", "cuda:N", "mps")
PRECISIONS = ("auto", "float32", "bf16")
FEW_CHANNELS = 8  # below it, channels_last is slower
BF16_CHANNELS = 16  # below it, bf16 is hardly faster on a CPU


@dataclass(frozen=True)
class Backend:
    """A device with the precision and layout of the networks on it."""

    device: torch.device = torch.device("cpu")
    precision: str = "float32"  # of forward and backward passes: float32 or bf16
    channels_last: bool = False
    compiled: bool = False
    ranks: Ranks = SINGLE  # processes between which forward and backward passes are split

    def prepare(self, net: nn.Module) -> nn.Module:
        """Return the network on the device, with its layout; its outputs are float32 in any precision."""
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        net = net.to(self.device, memory_format=layout)  # type: ignore[call-overload]
        if self.precision == "bf16":
            net.__class__ = in_bf16(type(net), self.device.type)  # type: ignore[arg-type]
        if self.compiled:
            net.compile()
        return self.ranks.prepare(net)


@cache
def in_bf16(kind: type[nn.Module], device: str) -> type[nn.Module]:
    """Return a subclass whose forward passes run in bfloat16 and return float32.

    A subclass, not a wrapper: names of weights, attributes and copies of the network stay as they are.
    """

    def cast(name: str) -> Any:  # noqa: ANN401
        def forward(self: nn.Module, x: Tensor) -> Tensor:
            with torch.autocast(device, torch.bfloat16):
                result: Tensor = getattr(super(casting, self), name)(x)
            return result.float()

        return forward

    names = [name for name in ("forward", "features") if hasattr(kind, name)]
    casting = type(kind.__name__, (kind,), {name: cast(name) for name in names})
    return casting


def find_device(name: str) -> torch.device:
    """Return the device of this name; `auto` is a GPU if there is one, otherwise the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition(". ")[0].splitlines()[0][:200]
        raise RemnantError(
            f"device: expected a device of this machine, got {name} ({reason}). Use auto or cpu."
        ) from error
    return device


def prefers_channels_last(net: nn.Module, device: torch.device) -> bool:
    """Return what `channels_last=auto` is: true on a CPU if no convolution of the network is narrow.

    Measured with AVX2, a training step in float32 takes 0.69 to 0.97 times as long as with the other layout
    if all convolutions have 8 channels or more, and 1.10 to 1.24 times with 4 and 2 channels in a ResNet18.
    A rule, not a measurement of each run, so that the same command gives the same bits.
    """
    return device.type == "cpu" and _narrowest(net) >= FEW_CHANNELS


def prefers_bf16(net: nn.Module, device: torch.device) -> bool:
    """Return what `precision=auto` is: true on a device with instructions for bf16 if the network is wide.

    Measured with AVX512_BF16, a training step of a ResNet18 takes 0.85 to 0.91 times as long as in float32
    with 8 channels, 0.67 to 0.83 with 16, and 0.58 to 0.68 with 32. Networks without convolutions, such as a
    head on stored features, stay in float32.
    """
    return has_bf16(device) and (device.type != "cpu" or _narrowest(net) >= BF16_CHANNELS)


def _narrowest(net: nn.Module) -> int:
    """Return the smallest number of channels of a convolution; 0 if there is none."""
    return min((layer.out_channels for layer in net.modules() if isinstance(layer, nn.Conv2d)), default=0)


def has_bf16(device: torch.device) -> bool:
    """Return whether a device computes faster in bfloat16 than in float32."""
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported()
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
