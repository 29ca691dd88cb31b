"""How joints become what a graph network sees: places, speeds and bones, augmented in training.

Each skeleton of a batch has its own draws, a fixed number of uniforms from an explicit generator,
whether they are used or not. B skeletons of T frames, V joints, M bodies; a body that is absent is zero.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from remnant.skeleton.graph import Graph

BRANCHES, CHANNELS = 3, 6
SHORTEST = 0.9  # share of the frames that a crop in time keeps at least
TURN = 15.0  # degrees about each axis at most
JITTER = 0.01  # standard deviation of a coordinate, in metres
HIDDEN = 0.1  # probability of a joint to be hidden


@dataclass(frozen=True)
class SkeletonView:
    """Three branches of input, and what may happen to a skeleton before they are computed."""

    graph: Graph

    def plain(self, x: Tensor) -> Tensor:
        """Return joints (B, 3, T, V, M) as branches (B, 3, 6, T, V, M)."""
        return branches(x.float(), self.graph)

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Crop each skeleton in time and mirror it half of the time, each on its own."""
        return self.plain(self._weak(x.float(), rng))

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Turn each skeleton, shake it and hide joints as well."""
        x = self._weak(x.float(), rng)
        u = torch.rand(len(x), 3 + x.shape[3], generator=rng).to(x.device)
        noise = torch.rand(x.shape, generator=rng).to(x.device)
        x = shaken(turned(x, (2 * u[:, :3] - 1) * TURN), noise)
        return self.plain(hidden(x, u[:, 3:] < HIDDEN, self.graph.centre))

    def _weak(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Three uniforms for each skeleton: how much time, from when on, mirror."""
        u = torch.rand(len(x), 3, generator=rng).to(x.device)
        x = cropped(x, SHORTEST + (1 - SHORTEST) * u[:, 0], u[:, 1])
        return chosen(u[:, 2] < 0.5, mirrored(x, self.graph), x)


def branches(x: Tensor, graph: Graph) -> Tensor:
    """Return places, speeds and bones of joints (B, 3, T, V, M), six channels each.

    Place: where a joint is, and where from the centre of its body. Speed: the way to the next frame, and
    to the one after it; none in the last two. Bone: the way from the parent, and its angles to the axes.
    """
    place = torch.cat([x, x - x[:, :, :, graph.centre, None]], 1)
    speed = torch.zeros_like(place)
    speed[:, :3, :-2] = x[:, :, 1:-1] - x[:, :, :-2]
    speed[:, 3:, :-2] = x[:, :, 2:] - x[:, :, :-2]
    bone = x - x[:, :, :, list(graph.parents)]
    angle = (bone / (bone.norm(dim=1, keepdim=True) + 1e-4)).acos()
    return torch.stack([place, speed, torch.cat([bone, angle], 1)], 1)


def wide(value: Tensor) -> Tensor:
    """Return one value for each skeleton, (B,), in a shape that goes with all of its coordinates."""
    return value.view(-1, 1, 1, 1, 1)


def chosen(which: Tensor, x: Tensor, otherwise: Tensor) -> Tensor:
    """Return x where `which` (B,) is true."""
    return torch.where(wide(which), x, otherwise)


def cropped(x: Tensor, share: Tensor, start: Tensor) -> Tensor:
    """Keep a share (B,) of the time, which begins at 0 .. 1 of what is free, and stretch it to T frames.

    Between two frames a joint moves on a line. Next to a frame without the body there is no line: the
    nearer frame is taken, lest a body be halfway between its place and nowhere.
    """
    frames = x.shape[2]
    steps = torch.arange(frames, device=x.device, dtype=x.dtype)
    when = (frames - 1) * (1 - share[:, None]) * start[:, None] + share[:, None] * steps
    before = when.floor().clamp(max=frames - 1)
    first, part = before.long(), (when - before)[:, None, :, None, None]
    second = (first + 1).clamp(max=frames - 1)
    is_empty = (x == 0).all(3, keepdim=True).all(1, keepdim=True)
    a, b = _at(x, first), _at(x, second)
    is_edge = _at(is_empty, first) | _at(is_empty, second)
    return torch.lerp(a, b, torch.where(is_edge, part.round(), part))


def _at(x: Tensor, frames: Tensor) -> Tensor:
    row = torch.arange(len(x), device=x.device)[:, None]
    return x.transpose(1, 2)[row, frames].transpose(1, 2)


def mirrored(x: Tensor, graph: Graph) -> Tensor:
    """Swap left and right: joints change sides, and the first coordinate its sign."""
    swapped = x[:, :, :, list(graph.mirror)]
    return torch.cat([-swapped[:, :1], swapped[:, 1:]], 1)


def turned(x: Tensor, degrees: Tensor) -> Tensor:
    """Turn skeletons about the axes of the camera by angles (B, 3): all bodies of one together."""
    sine, cosine = degrees.deg2rad().sin(), degrees.deg2rad().cos()
    turn = torch.eye(3, device=x.device, dtype=x.dtype).expand(len(x), 3, 3)
    for axis in range(3):
        i, j = (axis + 1) % 3, (axis + 2) % 3
        about = torch.eye(3, device=x.device, dtype=x.dtype).repeat(len(x), 1, 1)
        about[:, i, i] = about[:, j, j] = cosine[:, axis]
        about[:, i, j], about[:, j, i] = -sine[:, axis], sine[:, axis]
        turn = about @ turn
    return (turn @ x.flatten(2)).view_as(x)


def shaken(x: Tensor, uniforms: Tensor) -> Tensor:
    """Move each coordinate of each frame by normal noise, made of uniforms; nobody appears."""
    noise = JITTER * torch.special.ndtri(uniforms.clamp(1e-6, 1 - 1e-6))
    is_empty = (x == 0).all(3, keepdim=True).all(1, keepdim=True)
    return torch.where(is_empty, x, x + noise)


def hidden(x: Tensor, which: Tensor, centre: int) -> Tensor:
    """Put hidden joints (B, V) where the centre of the body is, for the whole time."""
    at_centre = x[:, :, :, centre, None]
    return torch.where(which[:, None, None, :, None], at_centre, x)
