"""EfficientGCN-B0: a light graph network for skeletons, with three input branches.

From Song et al., "Constructing Stronger and Faster Baselines for Skeleton-based Action Recognition".
B0 is the smallest variant; its branches have no temporal layer after the stem.
Shapes: N skeletons of M bodies, c channels, T frames, V joints.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.transforms.skeleton import BRANCHES, CHANNELS
from remnant.transforms.skeleton_graph import Graph, hop_matrices

HOPS = 3  # a graph convolution connects joints 0, 1 and 2 bones apart
WINDOW = 5  # kernel size of temporal convolutions, in frames
STEM, BRANCH, MAIN = 64, (48, 32), (64, 128)  # channels
DROPOUT = 0.25


class EfficientGcn(nn.Module):
    """One branch each for position, velocity and bone features, followed by a common main part."""

    def __init__(self, graph: Graph, classes: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(_branch(graph) for _ in range(BRANCHES))
        blocks, inputs = [], BRANCHES * BRANCH[-1]
        for outputs in MAIN:
            blocks += [
                SpatialConv(inputs, outputs, graph),
                SandGlass(outputs, 2),
                JointAttention(outputs),
            ]
            inputs = outputs
        self.main = nn.Sequential(*blocks)
        self.dropout = Dropout(DROPOUT)
        self.head = nn.Linear(inputs, classes)
        self.apply(_initialise)

    def maps(self, x: Tensor) -> Tensor:
        """Return the feature maps (N * M, 128, T / 4, V) of inputs (N, 3, 6, T, V, M)."""
        bodies = x.permute(1, 0, 5, 2, 3, 4).flatten(1, 2)  # all bodies share the weights
        parts = [part.contiguous(memory_format=torch.channels_last) for part in bodies]
        maps = [branch(part) for branch, part in zip(self.branches, parts, strict=True)]
        return cast(Tensor, self.main(torch.cat(maps, 1)))

    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the head, (N, 128): the mean over bodies, frames and joints."""
        pooled = self.maps(x).mean((2, 3))
        return pooled.view(len(x), -1, pooled.shape[1]).mean(1)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return cast(Tensor, self.head(self.dropout(self.features(x))))


def _branch(graph: Graph) -> nn.Sequential:
    layers: list[nn.Module] = [nn.BatchNorm2d(CHANNELS), SpatialConv(CHANNELS, STEM, graph)]
    layers.append(TemporalConv(STEM))
    for inputs, outputs in zip((STEM, *BRANCH), BRANCH, strict=False):
        layers += [SpatialConv(inputs, outputs, graph), JointAttention(outputs)]
    return nn.Sequential(*layers)


def _pointwise(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=(stride, 1)), nn.BatchNorm2d(outputs))


def _temporal(channels: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, channels, (WINDOW, 1), (stride, 1), (WINDOW // 2, 0), groups=groups),
        nn.BatchNorm2d(channels),
    )


class SpatialConv(nn.Module):
    """A graph convolution over joints 0, 1 and 2 hops apart, with a learned weight for each pair."""

    matrices: Tensor

    def __init__(self, inputs: int, outputs: int, graph: Graph) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, HOPS * outputs, 1)
        # Not saved in checkpoints: it is computed from the graph.
        self.register_buffer("matrices", hop_matrices(graph, HOPS), persistent=False)
        self.mask = nn.Parameter(torch.ones(HOPS, len(graph.joints), len(graph.joints)))
        self.norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if inputs == outputs else _pointwise(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return swish(norm(sum over hops of X_k (A_k * mask_k)) + shortcut(x))."""
        aggregate = self._mix_first if x.shape[1] < self.norm.num_features else self._convolve_first
        return F.silu(self.norm(aggregate(x, self.matrices * self.mask)) + self.shortcut(x))

    def _convolve_first(self, x: Tensor, weight: Tensor) -> Tensor:
        by_hop = self.conv(x).unflatten(1, (HOPS, -1)).permute(0, 2, 3, 4, 1)
        return mix_joints(by_hop.flatten(3), weight.permute(2, 1, 0).flatten(1))

    def _mix_first(self, x: Tensor, weight: Tensor) -> Tensor:
        """Compute the same in reverse order (both steps are linear); faster if x has fewer channels."""
        mixed = mix_joints(x, weight.permute(2, 0, 1).flatten(0, 1)).unflatten(3, (-1, HOPS))
        kernel = self.conv.weight.unflatten(0, (HOPS, -1)).transpose(0, 1).flatten(1, 2)
        bias = torch.einsum("ko,kvw->ow", cast(Tensor, self.conv.bias).view(HOPS, -1), weight)
        return F.conv2d(mixed.permute(0, 4, 1, 2, 3).flatten(1, 2), kernel) + bias[:, None]


def mix_joints(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply joints (N, c, T, V) by weights (W, V), giving (N, c, T, W).

    Implemented as a convolution with joints as channels, which copies no tensor in channels_last format.
    """
    frames = x.permute(0, 2, 3, 1)
    mixed = F.conv1d(frames.flatten(0, 1), weight[:, :, None])
    return cast(Tensor, mixed.unflatten(0, frames.shape[:2])).permute(0, 3, 1, 2)


class TemporalConv(nn.Module):
    """A convolution over five frames with a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = _temporal(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return swish(body(x) + x)."""
        return F.silu(self.body(x) + x)


class SandGlass(nn.Module):
    """A bottleneck between two depthwise convolutions over five frames."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(_temporal(channels, groups=channels), nn.SiLU()),
            _pointwise(channels, channels // 2),
            *(_pointwise(channels // 2, channels), nn.SiLU()),
            _temporal(channels, stride, groups=channels),
        )
        self.shortcut = nn.Identity() if stride == 1 else _pointwise(channels, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return body(x) + shortcut(x)."""
        return cast(Tensor, self.body(x) + self.shortcut(x))


class JointAttention(nn.Module):
    """Attention with the product of a weight for each frame and a weight for each joint."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(_pointwise(channels, channels // 2), nn.Hardswish())
        self.of_frames = nn.Conv2d(channels // 2, channels, 1)
        self.of_joints = nn.Conv2d(channels // 2, channels, 1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return swish(norm(x * weight) + x)."""
        frames, joints = x.mean(3, keepdim=True), x.mean(2, keepdim=True).transpose(2, 3)
        both = self.squeeze(torch.cat([frames, joints], 2))
        frames, joints = both.split([x.shape[2], x.shape[3]], 2)
        weight = self.of_frames(frames).sigmoid() * self.of_joints(joints).sigmoid().transpose(2, 3)
        return F.silu(self.norm(x * weight) + x)


class Dropout(nn.Module):
    """Dropout with its own seed, which is saved with the weights, so that runs can be resumed at any step."""

    seed: Tensor
    needs_whole_batch = True  # for the same random numbers with any number of ranks

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.register_buffer("seed", torch.randint(1 << 62, ()))

    def forward(self, x: Tensor) -> Tensor:
        """Drop values in train mode, and scale the others so that the expected value stays the same."""
        if not self.training:
            return x
        rng = torch.Generator().manual_seed(int(self.seed))
        kept = torch.rand(x.shape, generator=rng) >= self.probability  # on the CPU: the same on any device
        self.seed.copy_(torch.randint(1 << 62, (), generator=rng))
        return x * kept.to(x) / (1 - self.probability)


def _initialise(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, std=0.001)
    if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
        nn.init.zeros_(layer.bias)
