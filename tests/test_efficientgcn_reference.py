"""EfficientGCN-B0 beside a literal twin: its layers as they are written down, hop by hop."""

import pytest
import torch
from torch import Tensor

from remnant.nets.efficientgcn import EfficientGcn
from remnant.skeleton import KINECT_V1, KINECT_V2, Graph

# Bones by the numbers of the sensors' manuals, which begin with 1.
BONES_V2 = (
    *(
        (1, 2),
        (2, 21),
        (3, 21),
        (4, 3),
        (5, 21),
        (6, 5),
        (7, 6),
        (8, 7),
        (9, 21),
        (10, 9),
        (11, 10),
        (12, 11),
    ),
    *((13, 1), (14, 13), (15, 14), (16, 15), (17, 1), (18, 17), (19, 18), (20, 19), (22, 23), (23, 8)),
    *((24, 25), (25, 12)),
)
BONES_V1 = (
    *((1, 2), (2, 3), (3, 4), (3, 5), (5, 6), (6, 7), (7, 8), (3, 9), (9, 10), (10, 11), (11, 12)),
    *((1, 13), (13, 14), (14, 15), (15, 16), (1, 17), (17, 18), (18, 19), (19, 20)),
)
BOTH = [(KINECT_V1, BONES_V1, 20), (KINECT_V2, BONES_V2, 25)]


def hops(bones: tuple[tuple[int, int], ...], joints: int) -> Tensor:
    """Three matrices, normalised by columns over all hops up to ten."""
    far = [[0 if i == j else 99 for j in range(joints)] for i in range(joints)]
    for a, b in bones:
        far[a - 1][b - 1] = far[b - 1][a - 1] = 1
    for k in range(joints):
        for i in range(joints):
            for j in range(joints):
                far[i][j] = min(far[i][j], far[i][k] + far[k][j])
    distance = torch.tensor(far)
    return torch.stack([(distance == hop) / (distance <= 10).sum(0).double() for hop in range(3)])


class Twin:
    """Layers that take their weights by name from a network."""

    def __init__(self, net: EfficientGcn, matrices: Tensor) -> None:
        self.p, self.b = dict(net.named_parameters()), dict(net.named_buffers())
        self.matrices, self.training = matrices, net.training

    def norm(self, x: Tensor, name: str) -> Tensor:
        mean, var = self.b[f"{name}.running_mean"], self.b[f"{name}.running_var"]
        if self.training:
            mean = x.mean((0, 2, 3))
            var = (x - mean[:, None, None]).square().mean((0, 2, 3))
        scaled = (x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()
        return scaled * self.p[f"{name}.weight"][:, None, None] + self.p[f"{name}.bias"][:, None, None]

    def point(self, x: Tensor, name: str, stride: int = 1) -> Tensor:
        y = torch.einsum("oi,bitv->botv", self.p[f"{name}.weight"][:, :, 0, 0], x[:, :, ::stride])
        return y + self.p[f"{name}.bias"][:, None, None]

    def frames(self, x: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = self.p[f"{name}.weight"][..., 0]
        rule = "ck,bckv->bcv" if weight.shape[1] == 1 else "ock,bckv->bov"
        padded = torch.cat([torch.zeros_like(x[:, :, :2]), x, torch.zeros_like(x[:, :, :2])], 2)
        kernel = weight[:, 0] if weight.shape[1] == 1 else weight
        seen = [
            torch.einsum(rule, kernel, padded[:, :, t : t + 5]) for t in range(0, x.shape[2], stride)
        ]
        return torch.stack(seen, 2) + self.p[f"{name}.bias"][:, None, None]

    def scn(self, x: Tensor, name: str) -> Tensor:
        hop = self.point(x, f"{name}.conv").chunk(3, 1)
        taken = sum(hop[k] @ (self.matrices[k] * self.p[f"{name}.mask"][k]) for k in range(3))
        same = self.norm(self.point(x, f"{name}.shortcut.0"), f"{name}.shortcut.1")
        return swish(self.norm(taken, f"{name}.norm") + same)

    def tcn(self, x: Tensor, name: str) -> Tensor:
        return swish(self.norm(self.frames(x, f"{name}.body.0"), f"{name}.body.1") + x)

    def sandglass(self, x: Tensor, name: str) -> Tensor:
        y = swish(self.norm(self.frames(x, f"{name}.body.0.0"), f"{name}.body.0.1"))
        y = self.norm(self.point(y, f"{name}.body.2.0"), f"{name}.body.2.1")
        y = swish(self.norm(self.point(y, f"{name}.body.3.0"), f"{name}.body.3.1"))
        y = self.norm(self.frames(y, f"{name}.body.5.0", 2), f"{name}.body.5.1")
        return y + self.norm(self.point(x, f"{name}.shortcut.0", 2), f"{name}.shortcut.1")

    def attention(self, x: Tensor, name: str) -> Tensor:
        both = torch.cat([x.mean(3), x.mean(2)], 2)[..., None]
        both = self.norm(self.point(both, f"{name}.squeeze.0.0"), f"{name}.squeeze.0.1")
        both = both * (both + 3).clamp(0, 6) / 6
        time, joint = both[:, :, : x.shape[2]], both[:, :, x.shape[2] :]
        time = self.point(time, f"{name}.of_frames").sigmoid()[..., 0]
        joint = self.point(joint, f"{name}.of_joints").sigmoid()[..., 0]
        weight = torch.einsum("bct,bcv->bctv", time, joint)
        return swish(self.norm(x * weight, f"{name}.norm") + x)

    def logits(self, x: Tensor) -> Tensor:
        seen = []
        for i in range(3):
            bodies = torch.stack([one[i, ..., m] for one in x for m in range(x.shape[-1])])
            y = self.tcn(
                self.scn(self.norm(bodies, f"branches.{i}.0"), f"branches.{i}.1"), f"branches.{i}.2"
            )
            y = self.attention(self.scn(y, f"branches.{i}.3"), f"branches.{i}.4")
            seen.append(self.attention(self.scn(y, f"branches.{i}.5"), f"branches.{i}.6"))
        y = torch.cat(seen, 1)
        y = self.attention(self.sandglass(self.scn(y, "main.0"), "main.1"), "main.2")
        y = self.attention(self.sandglass(self.scn(y, "main.3"), "main.4"), "main.5")
        features = y.mean((2, 3)).view(len(x), -1, 128).mean(1)
        return features @ self.p["head.weight"].T + self.p["head.bias"]


def swish(x: Tensor) -> Tensor:
    return x * x.sigmoid()


def disturbed(graph: Graph, matrices: Tensor) -> EfficientGcn:
    """A network in double precision, no weight of which is 0 or 1."""
    net = EfficientGcn(graph, 7).double()
    for value in net.parameters():
        value.data = torch.randn_like(value) * 0.3 + (1.0 if value.dim() in (1, 3) else 0.0)
    for name, value in net.named_buffers():
        if "running" in name:
            value.copy_(torch.rand_like(value) + 0.5)
        elif name.endswith("matrices"):
            assert torch.allclose(value, matrices, atol=1e-7)
            value.copy_(matrices)
    net.dropout.probability = 0.0
    return net


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("graph", "bones", "joints"), BOTH)
def test_the_network_is_its_literal_twin(
    graph: Graph, bones: tuple[tuple[int, int], ...], joints: int, training: bool
) -> None:
    torch.manual_seed(0)
    matrices = hops(bones, joints)
    net = disturbed(graph, matrices).train(training)
    x = torch.randn(2, 3, 6, 9, joints, 2, dtype=torch.float64)
    with torch.inference_mode():
        expected = Twin(net, matrices).logits(x)
        found = net(x)
    assert torch.allclose(found, expected, rtol=1e-8, atol=1e-8)
