"""Skeleton graphs: the joints of a body as a tree, for Kinect v1 and v2.

Shapes: V joints, numbered from 0 (the sensors' manuals count from 1).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

MAX_HOPS = 10  # joints up to this distance are included in the normalisation


@dataclass(frozen=True)
class Graph:
    """Joint names, and the parent of each joint in the tree; the root (centre) is its own parent."""

    joints: tuple[str, ...]
    parents: tuple[int, ...]

    @property
    def centre(self) -> int:
        """Return the root of the tree; joint positions are also given relative to it."""
        return next(joint for joint, parent in enumerate(self.parents) if joint == parent)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Return the bones: pairs of a joint and its parent."""
        return tuple((j, parent) for j, parent in enumerate(self.parents) if j != parent)

    @property
    def mirror(self) -> tuple[int, ...]:
        """Return the counterpart of each joint on the other side of the body; it may be the joint itself."""
        return tuple(self.joints.index(_other_side(name)) for name in self.joints)


def _other_side(name: str) -> str:
    side = {"left": "right", "right": "left"}
    return " ".join(side.get(word, word) for word in name.split())


def hop_distances(graph: Graph) -> Tensor:
    """Return the number of bones between any two joints, (V, V).

    >>> hop_distances(Graph(("a", "b", "c"), (1, 1, 1)))[0].tolist()
    [0, 1, 2]
    """
    count = len(graph.joints)
    adjacency = torch.eye(count, dtype=torch.long)
    for a, b in graph.edges:
        adjacency[a, b] = adjacency[b, a] = 1
    distance, reachable = torch.full((count, count), count), torch.eye(count, dtype=torch.long)
    for hops in range(count):
        distance[(reachable > 0) & (distance == count)] = hops
        reachable = (reachable @ adjacency).clamp(max=1)
    return distance


def hop_matrices(graph: Graph, hops: int = 3) -> Tensor:
    """Return adjacency matrices for the joints exactly 0, 1, ..., hops - 1 bones apart, (hops, V, V).

    In each column, all joints within MAX_HOPS have equal weights that sum to 1. The returned matrices contain
    only the weights of the joints less than `hops` bones apart.

    >>> hop_matrices(Graph(("a", "b", "c"), (1, 1, 1)), 2)[:, :, 0].mul(3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    distance = hop_distances(graph)
    within = (distance <= MAX_HOPS).sum(0, keepdim=True)
    return torch.stack([(distance == hop) / within for hop in range(hops)])


_SIDES = ("left", "right")
_ARMS = tuple(f"{side} {part}" for side in _SIDES for part in ("shoulder", "elbow", "wrist", "hand"))
_LEGS = tuple(f"{side} {part}" for side in _SIDES for part in ("hip", "knee", "ankle", "foot"))
_LEG_PARENTS = (0, 12, 13, 14, 0, 16, 17, 18)

# NTU RGB+D: Kinect v2.
KINECT_V2 = Graph(
    joints=(
        *("base of spine", "middle of spine", "neck", "head", *_ARMS, *_LEGS, "top of spine"),
        *("left hand tip", "left thumb", "right hand tip", "right thumb"),
    ),
    parents=(1, 1, 20, 2, 20, 4, 5, 6, 20, 8, 9, 10, *_LEG_PARENTS, 1, 22, 7, 24, 11),
)
# NW-UCLA: Kinect v1.
KINECT_V1 = Graph(
    joints=("middle of hips", "spine", "middle of shoulders", "head", *_ARMS, *_LEGS),
    parents=(1, 1, 1, 2, 2, 4, 5, 6, 2, 8, 9, 10, *_LEG_PARENTS),
)
