"""What this machine computes with, and a short computation with a known result."""

import os
import platform
from importlib.metadata import version

import torch
import torch.nn.functional as F
from torch import nn

from remnant.engine.backend import BF16_CHANNELS, FEW_CHANNELS, Backend, find_device, has_bf16

STEPS = 100  # of the self test
KNOWN_LOSS = {"float32": (0.34514, 1e-3), "bf16": (0.34514, 1e-2)}  # after them: value and tolerance


def facts() -> dict[str, str]:
    """Return versions, processor, device and threads, and what `auto` chooses."""
    device = find_device("auto")
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "processor": f"{platform.machine()}, torch uses {torch.backends.cpu.get_cpu_capability()}",
        "linear algebra": _libraries(),
        "cores": f"{os.cpu_count()}; a run uses its setting `threads`",
        "device=auto": f"{device} ({_reason(device)})",
        "precision=auto": _automatic_precision(device),
        "channels_last=auto": (
            f"true if no convolution has fewer than {FEW_CHANNELS} channels: faster on CPUs"
            if device.type == "cpu" else "false: not measured on this device"
        ),
    }  # fmt: skip


def _automatic_precision(device: torch.device) -> str:
    if not has_bf16(device):
        return "float32: this device has no bfloat16 instructions"
    rule = f" if no convolution has fewer than {BF16_CHANNELS} channels" if device.type == "cpu" else ""
    return f"bf16{rule}: this device has instructions for it"


def _reason(device: torch.device) -> str:
    return "no GPU that torch can use" if device.type == "cpu" else "a GPU that torch can use"


def _libraries() -> str:
    found = {"MKL": torch.backends.mkl.is_available(), "oneDNN": torch.backends.mkldnn.is_available()}
    return ", ".join(name for name, is_found in found.items() if is_found) or "none"


def self_test(backend: Backend) -> float:
    """Train a small network on fixed data for a few steps, without random numbers; return the last loss."""
    net = backend.prepare(
        nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
                      nn.Linear(16 * 64, 10))
    )  # fmt: skip
    with torch.no_grad():
        for parameter in net.parameters():
            waves = torch.arange(parameter.numel(), dtype=torch.float64).sin() / parameter[0].numel() ** 0.5
            parameter.copy_(waves.view(parameter.shape))
    x = (torch.arange(64 * 64, dtype=torch.float64) ** 2).sin().float().view(64, 1, 8, 8).to(backend.device)
    y = (torch.arange(64) * 7 % 10).to(backend.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def is_as_known(loss: float, precision: str) -> bool:
    """Return whether the result of the self test is right."""
    known, tolerance = KNOWN_LOSS[precision]
    return abs(loss - known) < tolerance
