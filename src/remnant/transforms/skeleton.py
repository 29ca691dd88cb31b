"""Transform for skeletons: position, velocity and bone features of joints, with augmentation.

Random numbers are drawn from an explicit generator, independently for each skeleton; their number does not
depend on their values. Shapes: B skeletons of T frames, V joints, M bodies; an absent body is all zeros.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.transforms.skeleton_graph import Graph

BRANCHES, CHANNELS = 3, 6
MIN_CROP = 0.9  # smallest fraction of the frames that a crop in time keeps
MAX_ROTATION = 15.0  # degrees about each axis
JITTER = 0.01  # standard deviation of the noise on each coordinate, in metres
HIDE_PROBABILITY = 0.1  # probability that a joint is hidden


@dataclass(frozen=True)
class SkeletonTransform:
    """Computation of the three input branches of a graph network, and augmentation of skeletons."""

    graph: Graph

    def plain(self, x: Tensor) -> Tensor:
        """Return joints (B, 3, T, V, M) as branches (B, 3, 6, T, V, M), without augmentation."""
        return branches(x.float(), self.graph)

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Apply weak augmentation: crop each skeleton in time, and mirror it with probability 1/2."""
        return self.plain(self._weak(x.float(), rng))

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Apply strong augmentation: weak augmentation, then rotation, jitter and hidden joints."""
        x = self._weak(x.float(), rng)
        u = torch.rand(len(x), 3 + x.shape[3], generator=rng).to(x.device)
        noise = torch.rand(x.shape, generator=rng).to(x.device)
        x = jitter(rotate(x, (2 * u[:, :3] - 1) * MAX_ROTATION), noise)
        return self.plain(hide_joints(x, u[:, 3:] < HIDE_PROBABILITY, self.graph.centre))

    def _weak(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Crop and mirror with three random numbers per skeleton: length of the crop, its start, mirror."""
        u = torch.rand(len(x), 3, generator=rng).to(x.device)
        x = crop_in_time(x, MIN_CROP + (1 - MIN_CROP) * u[:, 0], u[:, 1])
        return torch.where((u[:, 2] < 0.5).view(-1, 1, 1, 1, 1), mirror(x, self.graph), x)


def branches(x: Tensor, graph: Graph) -> Tensor:
    """Return position, velocity and bone features of joints (B, 3, T, V, M), six channels each.

    Position: absolute, and relative to the centre of the body. Velocity: differences to the next frame
    and to the one after it; 0 in the last two frames. Bone: vector from the parent, and its angles
    to the axes.
    """
    position = torch.cat([x, x - x[:, :, :, graph.centre, None]], 1)
    velocity = torch.zeros_like(position)
    velocity[:, :3, :-2] = x[:, :, 1:-1] - x[:, :, :-2]
    velocity[:, 3:, :-2] = x[:, :, 2:] - x[:, :, :-2]
    bone = x - x[:, :, :, list(graph.parents)]
    angle = (bone / (bone.norm(dim=1, keepdim=True) + 1e-4)).acos()
    return torch.stack([position, velocity, torch.cat([bone, angle], 1)], 1)


def crop_in_time(x: Tensor, fraction: Tensor, start: Tensor) -> Tensor:
    """Keep a fraction (B,) of the sequence and stretch it to T frames by linear interpolation.

    `start` (B,) in [0, 1] is the position of the crop between the earliest and the latest possible one.
    Next to a frame without the body, the nearer frame is used, since interpolation with zeros would move
    the body.
    """
    frames = x.shape[2]
    steps = torch.arange(frames, device=x.device, dtype=x.dtype)
    time = (frames - 1) * (1 - fraction[:, None]) * start[:, None] + fraction[:, None] * steps
    before = time.floor().clamp(max=frames - 1)
    first, weight = before.long(), (time - before)[:, None, :, None, None]
    second = (first + 1).clamp(max=frames - 1)
    is_empty = _is_empty(x)
    is_edge = _at(is_empty, first) | _at(is_empty, second)
    return torch.lerp(_at(x, first), _at(x, second), torch.where(is_edge, weight.round(), weight))


def _is_empty(x: Tensor) -> Tensor:
    """Return whether a body is absent from a frame, (B, 1, T, 1, M)."""
    return (x == 0).all(3, keepdim=True).all(1, keepdim=True)


def _at(x: Tensor, frames: Tensor) -> Tensor:
    index = torch.arange(len(x), device=x.device)[:, None]
    return x.transpose(1, 2)[index, frames].transpose(1, 2)


def mirror(x: Tensor, graph: Graph) -> Tensor:
    """Swap left and right joints, and negate the first coordinate."""
    swapped = x[:, :, :, list(graph.mirror)]
    return torch.cat([-swapped[:, :1], swapped[:, 1:]], 1)


def rotate(x: Tensor, degrees: Tensor) -> Tensor:
    """Rotate skeletons about the camera axes by angles (B, 3); bodies of a skeleton rotate together."""
    sine, cosine = degrees.deg2rad().sin(), degrees.deg2rad().cos()
    rotation = torch.eye(3, device=x.device, dtype=x.dtype).expand(len(x), 3, 3)
    for axis in range(3):
        i, j = (axis + 1) % 3, (axis + 2) % 3
        about_axis = torch.eye(3, device=x.device, dtype=x.dtype).repeat(len(x), 1, 1)
        about_axis[:, i, i] = about_axis[:, j, j] = cosine[:, axis]
        about_axis[:, i, j], about_axis[:, j, i] = -sine[:, axis], sine[:, axis]
        rotation = about_axis @ rotation
    return (rotation @ x.flatten(2)).view_as(x)


def jitter(x: Tensor, uniforms: Tensor) -> Tensor:
    """Add normal noise, computed from `uniforms`, to each coordinate; absent bodies stay zero."""
    noise = JITTER * torch.special.ndtri(uniforms.clamp(1e-6, 1 - 1e-6))
    return torch.where(_is_empty(x), x, x + noise)


def hide_joints(x: Tensor, hidden: Tensor, centre: int) -> Tensor:
    """Move the joints marked in `hidden` (B, V) to the centre of the body, in all frames."""
    at_centre = x[:, :, :, centre, None]
    return torch.where(hidden[:, None, None, :, None], at_centre, x)
