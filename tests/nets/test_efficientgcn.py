"""EfficientGCN-B0, among others compared with a reference that computes each layer hop by hop."""

import pytest
import torch
from torch import Tensor

from remnant.data import DATA
from remnant.nets import NETS, build
from remnant.nets.efficientgcn import Dropout, EfficientGcn, JointAttention, SpatialConv
from remnant.transforms.skeleton_graph import KINECT_V1, KINECT_V2, Graph

# Bones with the joint numbers of the sensors' manuals, which count from 1.
BONES_V2 = (
    *((1, 2), (2, 21), (3, 21), (4, 3), (5, 21), (6, 5), (7, 6), (8, 7), (9, 21), (10, 9), (11, 10)),
    *((12, 11), (13, 1), (14, 13), (15, 14), (16, 15), (17, 1), (18, 17), (19, 18), (20, 19)),
    *((22, 23), (23, 8), (24, 25), (25, 12)),
)
BONES_V1 = (
    *((1, 2), (2, 3), (3, 4), (3, 5), (5, 6), (6, 7), (7, 8), (3, 9), (9, 10), (10, 11), (11, 12)),
    *((1, 13), (13, 14), (14, 15), (15, 16), (1, 17), (17, 18), (18, 19), (19, 20)),
)
GRAPHS = [(KINECT_V1, BONES_V1, 20), (KINECT_V2, BONES_V2, 25)]


def hops(bones: tuple[tuple[int, int], ...], joints: int) -> Tensor:
    """Return three adjacency matrices, columns normalised over all distances up to ten hops."""
    distances = [[0 if i == j else 99 for j in range(joints)] for i in range(joints)]
    for a, b in bones:
        distances[a - 1][b - 1] = distances[b - 1][a - 1] = 1
    for k in range(joints):
        for i in range(joints):
            for j in range(joints):
                distances[i][j] = min(distances[i][j], distances[i][k] + distances[k][j])
    distance = torch.tensor(distances)
    return torch.stack([(distance == hop) / (distance <= 10).sum(0).double() for hop in range(3)])


class Reference:
    """Layers that look up their weights by name in a network."""

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
        outputs = [torch.einsum(rule, kernel, padded[:, :, t : t + 5]) for t in range(0, x.shape[2], stride)]
        return torch.stack(outputs, 2) + self.p[f"{name}.bias"][:, None, None]

    def scn(self, x: Tensor, name: str) -> Tensor:
        hop = self.point(x, f"{name}.conv").chunk(3, 1)
        mixed = sum(hop[k] @ (self.matrices[k] * self.p[f"{name}.mask"][k]) for k in range(3))
        same = self.norm(self.point(x, f"{name}.shortcut.0"), f"{name}.shortcut.1")
        return swish(self.norm(mixed, f"{name}.norm") + same)

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
        outputs = []
        for i in range(3):
            bodies = torch.stack([one[i, ..., m] for one in x for m in range(x.shape[-1])])
            y = self.tcn(self.scn(self.norm(bodies, f"branches.{i}.0"), f"branches.{i}.1"), f"branches.{i}.2")
            y = self.attention(self.scn(y, f"branches.{i}.3"), f"branches.{i}.4")
            outputs.append(self.attention(self.scn(y, f"branches.{i}.5"), f"branches.{i}.6"))
        y = torch.cat(outputs, 1)
        y = self.attention(self.sandglass(self.scn(y, "main.0"), "main.1"), "main.2")
        y = self.attention(self.sandglass(self.scn(y, "main.3"), "main.4"), "main.5")
        features = y.mean((2, 3)).view(len(x), -1, 128).mean(1)
        return features @ self.p["head.weight"].T + self.p["head.bias"]


def swish(x: Tensor) -> Tensor:
    return x * x.sigmoid()


def randomised(graph: Graph, matrices: Tensor) -> EfficientGcn:
    """Return a network in double precision with random weights, none of which is 0 or 1."""
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
@pytest.mark.parametrize(("graph", "bones", "joints"), GRAPHS)
def test_the_network_matches_the_reference_implementation(
    graph: Graph, bones: tuple[tuple[int, int], ...], joints: int, training: bool
) -> None:
    torch.manual_seed(0)
    matrices = hops(bones, joints)
    net = randomised(graph, matrices).train(training)
    x = torch.randn(2, 3, 6, 9, joints, 2, dtype=torch.float64)
    with torch.inference_mode():
        expected = Reference(net, matrices).logits(x)
        found = net(x)
    assert torch.allclose(found, expected, rtol=1e-8, atol=1e-8)


def gcn(graph: Graph = KINECT_V2, classes: int = 60) -> EfficientGcn:
    torch.manual_seed(0)
    return EfficientGcn(graph, classes)


def parameters(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_efficientgcn_b0_has_the_published_size() -> None:
    net = gcn()
    assert parameters(net) == 306_201
    assert [parameters(branch) for branch in net.branches] == [52_861] * 3
    assert (parameters(net.main), parameters(net.head)) == (139_878, 7_740)
    masks = [value for name, value in net.named_parameters() if name.endswith("mask")]
    assert (len(masks), sum(mask.numel() for mask in masks)) == (11, 20_625)
    assert all(mask.eq(1).all() for mask in masks)
    assert net.dropout.probability == 0.25


def test_288_frames_are_reduced_to_72() -> None:
    net = gcn().eval()
    x = torch.randn(2, 3, 6, 288, 25, 2)
    with torch.inference_mode():
        assert net.maps(x).shape == (4, 128, 72, 25)
        assert net.features(x).shape == (2, 128)
        assert net(x).shape == (2, 60)
        assert torch.allclose(net.head(net.features(x)), net(x))


def test_the_kinect_v1_graph_is_supported() -> None:
    assert gcn(KINECT_V1, classes=10)(torch.randn(2, 3, 6, 16, 20, 1)).shape == (2, 10)


def test_logits_do_not_depend_on_the_order_of_bodies() -> None:
    net, x = gcn().train(), torch.randn(4, 3, 6, 16, 25, 2)
    net.head.weight.data.normal_()
    for _ in range(3):  # updates the running statistics of BatchNorm
        net(x)
    logits = net.eval()(x[:3])
    assert logits.std() > 0.01
    assert torch.allclose(net(x[:3].flip(-1)), logits, atol=1e-5)


@pytest.mark.parametrize(("inputs", "outputs"), [(6, 16), (16, 6), (8, 8)])
def test_a_graph_convolution_is_a_sum_over_hops_in_either_order_of_computation(
    inputs: int, outputs: int
) -> None:
    torch.manual_seed(0)
    layer = SpatialConv(inputs, outputs, KINECT_V2).double().eval()
    torch.nn.init.normal_(layer.mask)
    torch.nn.init.normal_(layer.conv.bias)
    x = torch.randn(2, inputs, 5, 25).double()
    by_hop = layer.conv(x).chunk(3, 1)
    weights = layer.matrices.double() * layer.mask
    mixed = sum(part @ weight for part, weight in zip(by_hop, weights, strict=True))
    expected = layer.norm(mixed) + layer.shortcut(x)
    assert torch.allclose(layer(x), expected * expected.sigmoid(), atol=1e-12)


def test_attention_is_equivariant_to_permutations_of_frames_and_joints() -> None:
    layer, x = JointAttention(8).eval(), torch.randn(1, 8, 5, 4)
    permuted = layer(x[:, :, [3, 1, 2, 0, 4]][:, :, :, [2, 1, 0, 3]])
    expected = layer(x)[:, :, [3, 1, 2, 0, 4]][:, :, :, [2, 1, 0, 3]]
    assert torch.allclose(permuted, expected, atol=1e-6)


def test_dropout_resumes_from_its_saved_state_and_does_not_affect_the_global_generator() -> None:
    layer, x = Dropout(0.25), torch.ones(100, 40)
    state = {name: value.clone() for name, value in layer.state_dict().items()}
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    one, two = layer(x), layer(x)
    assert torch.equal(torch.rand(1), expected)
    assert not torch.equal(one, two)
    assert one.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert 0.23 < one.eq(0).float().mean() < 0.27
    layer.load_state_dict(state)
    assert torch.equal(layer(x), one)
    assert torch.equal(layer.eval()(x), x)


def test_initial_weights_depend_on_the_seed_only() -> None:
    net, spec = NETS["efficientgcn-b0"], DATA["nw-ucla"].spec
    a, b, c = (build(net, spec, seed).state_dict() for seed in (7, 7, 8))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["head.weight"], c["head.weight"])
    assert a["dropout.seed"] != c["dropout.seed"]
