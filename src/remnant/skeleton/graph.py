"""The joints of a skeleton as a tree. V joints, numbered from 0 (the sensors' manuals count from 1)."""

from dataclasses import dataclass

import torch
from torch import Tensor

REACH = 10  # hops that share in the normalisation of a joint


@dataclass(frozen=True)
class Graph:
    """Joints by name, and for each the next one on the way to the centre; the centre is its own."""

    joints: tuple[str, ...]
    parents: tuple[int, ...]

    @property
    def centre(self) -> int:
        """Return the joint in the middle, from which the others are seen."""
        return next(joint for joint, parent in enumerate(self.parents) if joint == parent)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Return the bones: each joint but the centre with its parent."""
        return tuple((j, parent) for j, parent in enumerate(self.parents) if j != parent)

    @property
    def mirror(self) -> tuple[int, ...]:
        """Return for each joint the one on the other side of the body; in the middle, itself."""
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
    beside = torch.eye(count, dtype=torch.long)
    for a, b in graph.edges:
        beside[a, b] = beside[b, a] = 1
    distance, near = torch.full((count, count), count), torch.eye(count, dtype=torch.long)
    for hops in range(count):
        distance[(near > 0) & (distance == count)] = hops
        near = (near @ beside).clamp(max=1)
    return distance


def hop_matrices(graph: Graph, hops: int = 3) -> Tensor:
    """Return what a joint (column) takes from joints that are 0, 1, ... hops away, (hops, V, V).

    The weights of all joints within REACH hops of a joint are equal and add up to 1; what the first
    `hops` matrices hold of that is a part.

    >>> hop_matrices(Graph(("a", "b", "c"), (1, 1, 1)), 2)[:, :, 0].mul(3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    distance = hop_distances(graph)
    within = (distance <= REACH).sum(0, keepdim=True)
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
