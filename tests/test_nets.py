import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from remnant.data import DATA, Spec
from remnant.errors import RemnantError
from remnant.nets import NETS, CifarResNet, PhotoResNet, Small, build, check_fits
from remnant.nets.efficientgcn import Dropout, EfficientGcn, JointAttention, SpatialConv
from remnant.skeleton import KINECT_V1, KINECT_V2, Graph, SkeletonView


def parameters(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_resnet18_of_width_64_has_the_published_size() -> None:
    net = build(NETS["resnet18"], DATA["cifar10"].spec, seed=0)
    assert parameters(net) == 11_173_962


def test_resnet34_of_width_64_has_the_published_size() -> None:
    net = build(NETS["resnet34"], DATA["cifar100"].spec, seed=0)
    assert parameters(net) == 21_328_292


def of_photos(classes: int) -> Spec:
    return replace(DATA["cifar10"].spec, shape=(3, 224, 224), classes=tuple(map(str, range(classes))))


@pytest.mark.parametrize(("classes", "expected"), [(1000, 21_797_672), (101, 21_797_672 - 899 * 513)])
def test_resnet34_for_photos_has_the_published_size(classes: int, expected: int) -> None:
    assert parameters(build(NETS["resnet34-224"], of_photos(classes), seed=0)) == expected


def test_the_stem_for_photos_leaves_a_quarter_of_each_side() -> None:
    net = build(PhotoResNet((1, 1, 1, 1), width=4), of_photos(101), 0)
    x = torch.randn(2, 3, 224, 224)
    assert net.stem(x).shape == (2, 4, 56, 56)  # type: ignore[operator]
    assert net.stages(net.stem(x)).shape == (2, 32, 7, 7)  # type: ignore[operator]
    assert net(x).shape == (2, 101)


@pytest.mark.parametrize(("net", "data"), [("small", "digits"), ("small", "fashion-mnist")])
def test_a_net_gives_one_logit_per_class(net: str, data: str) -> None:
    spec = DATA[data].spec
    assert build(NETS[net], spec, 0)(torch.randn(2, *spec.shape)).shape == (2, 10)


def test_a_quarter_of_the_features_is_dropped() -> None:
    spec = DATA["nw-ucla"].spec
    assert build(NETS["efficientgcn-b0"], spec, 0).dropout.probability == 0.25


def test_a_narrow_resnet_survives_odd_batches_on_two_threads() -> None:
    """In a process of its own: what went wrong was a crash."""
    program = """
import torch
from remnant.data import DATA
from remnant.nets import CifarResNet, build
torch.set_num_threads(2)
net = build(CifarResNet((2, 2, 2, 2), 8), DATA["cifar10"].spec, 0).to(memory_format=torch.channels_last)
for _ in range(10):
    net(torch.randn(21, 3, 32, 32).to(memory_format=torch.channels_last)).sum().backward()
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_narrow_resnet_works_on_cifar100() -> None:
    net = build(CifarResNet((2, 2, 2, 2), width=4), DATA["cifar100"].spec, 0)
    x = torch.randn(2, 3, 32, 32)
    assert net(x).shape == (2, 100)
    assert net.features(x).shape == (2, 32)  # type: ignore[operator]


def test_the_head_sees_the_features() -> None:
    net = build(Small(4), DATA["digits"].spec, 0).eval()
    x = torch.randn(3, 1, 8, 8)
    assert torch.allclose(net.head(net.features(x)), net(x))  # type: ignore[operator]


def test_initial_weights_depend_on_the_seed_alone() -> None:
    spec = DATA["digits"].spec
    torch.manual_seed(1)
    a = build(Small(4), spec, seed=7).state_dict()
    torch.rand(10)
    b = build(Small(4), spec, seed=7).state_dict()
    c = build(Small(4), spec, seed=8).state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["head.weight"], c["head.weight"])


def test_building_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    build(Small(4), DATA["digits"].spec, seed=7)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("width", [0, -4, 10**6])
def test_a_net_needs_channels(width: int) -> None:
    with pytest.raises(ValueError, match=f"from 1 to 4096, got {width}"):
        Small(width)


def skeletons(bodies: int = 2, frames: int = 16, graph: Graph = KINECT_V2, classes: int = 60) -> Spec:
    return Spec(
        name="made",
        shape=(3, frames, len(graph.joints), bodies),
        classes=tuple(f"action-{c}" for c in range(classes)),
        view=SkeletonView(graph),
        dtype=torch.float32,
    )


def gcn(spec: Spec, seed: int = 0) -> EfficientGcn:
    net = build(NETS["efficientgcn-b0"], spec, seed)
    assert isinstance(net, EfficientGcn)
    return net


def test_efficientgcn_b0_has_the_published_size() -> None:
    net = gcn(skeletons())
    assert parameters(net) == 306_201
    assert [parameters(branch) for branch in net.branches] == [52_861] * 3
    assert (parameters(net.main), parameters(net.head)) == (139_878, 7_740)
    masks = [value for name, value in net.named_parameters() if name.endswith("mask")]
    assert (len(masks), sum(mask.numel() for mask in masks)) == (11, 20_625)
    assert all(mask.eq(1).all() for mask in masks)


def test_efficientgcn_b0_sees_288_frames_as_72() -> None:
    net = gcn(skeletons()).eval()
    x = torch.randn(2, 3, 6, 288, 25, 2)
    with torch.inference_mode():
        assert net.maps(x).shape == (4, 128, 72, 25)
        assert net.features(x).shape == (2, 128)
        assert net(x).shape == (2, 60)
        assert torch.allclose(net.head(net.features(x)), net(x))


def test_efficientgcn_b0_takes_the_other_layout() -> None:
    net = gcn(skeletons(1, graph=KINECT_V1, classes=10))
    assert net(torch.randn(2, 3, 6, 16, 20, 1)).shape == (2, 10)


def trained_a_little(spec: Spec) -> EfficientGcn:
    net, x = gcn(spec).train(), torch.randn(4, 3, 6, *spec.shape[1:])
    net.head.weight.data.normal_()
    for _ in range(3):
        net(x)
    return net.eval()


def test_who_is_the_first_body_does_not_matter() -> None:
    net, x = trained_a_little(skeletons()), torch.randn(3, 3, 6, 16, 25, 2)
    logits = net(x)
    assert logits.std() > 0.01
    assert torch.allclose(net(x.flip(-1)), logits, atol=1e-5)


def test_a_graph_convolution_is_the_sum_over_hops() -> None:
    layer = SpatialConv(2, 4, KINECT_V1).eval()
    layer.mask.data.uniform_()
    x = torch.randn(2, 2, 3, 20)
    hops = layer.conv(x).split(4, 1)
    taken = sum(hop @ (layer.matrices[k] * layer.mask[k]) for k, hop in enumerate(hops))
    expected = layer.norm(taken) + layer.shortcut(x)
    assert torch.allclose(layer(x), expected * expected.sigmoid(), atol=1e-6)


def test_attention_weighs_a_frame_by_what_is_in_it_and_a_joint_likewise() -> None:
    layer, x = JointAttention(8).eval(), torch.randn(1, 8, 5, 4)
    moved = layer(x[:, :, [3, 1, 2, 0, 4]][:, :, :, [2, 1, 0, 3]])
    assert torch.allclose(moved, layer(x)[:, :, [3, 1, 2, 0, 4]][:, :, :, [2, 1, 0, 3]], atol=1e-6)


def test_dropout_goes_on_where_it_was_saved_and_leaves_the_global_generator_alone() -> None:
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


def test_first_weights_of_efficientgcn_depend_on_the_seed_alone() -> None:
    spec = skeletons()
    a, b, c = (gcn(spec, seed).state_dict() for seed in (7, 7, 8))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["head.weight"], c["head.weight"])
    assert a["dropout.seed"] != c["dropout.seed"]


def test_a_network_is_for_images_or_for_skeletons() -> None:
    check_fits(NETS["efficientgcn-b0"], skeletons())
    check_fits(Small(), DATA["digits"].spec)
    with pytest.raises(
        RemnantError, match=r"digits are images\. Use small, resnet18, resnet34 or resnet34-224"
    ):
        check_fits(NETS["efficientgcn-b0"], DATA["digits"].spec)
    with pytest.raises(RemnantError, match=r"made are skeletons\. Use efficientgcn-b0"):
        check_fits(Small(), skeletons())
    with pytest.raises(TypeError, match="expects skeletons"):
        build(NETS["efficientgcn-b0"], DATA["digits"].spec, 0)


@pytest.mark.parametrize(("inputs", "outputs"), [(6, 16), (16, 6), (8, 8)])
def test_a_graph_convolution_is_the_same_whichever_is_done_first(inputs: int, outputs: int) -> None:
    torch.manual_seed(0)
    layer = SpatialConv(inputs, outputs, KINECT_V2).double().eval()
    torch.nn.init.normal_(layer.mask)
    torch.nn.init.normal_(layer.conv.bias)
    x = torch.randn(2, inputs, 5, 25).double()
    by_hop = layer.conv(x).chunk(3, 1)
    weights = layer.matrices.double() * layer.mask
    taken = sum(part @ weight for part, weight in zip(by_hop, weights, strict=True))
    expected = layer.norm(taken) + layer.shortcut(x)
    assert torch.allclose(layer(x), expected * expected.sigmoid(), atol=1e-12)
