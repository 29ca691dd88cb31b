import math

import pytest
import torch
from torch import Tensor

from remnant.transforms import skeleton
from remnant.transforms.skeleton import (
    SkeletonTransform,
    branches,
    crop_in_time,
    hide_joints,
    jitter,
    mirror,
    rotate,
)
from remnant.transforms.skeleton_graph import KINECT_V1, KINECT_V2, Graph

GRAPHS = [KINECT_V1, KINECT_V2]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def skeletons(count: int = 4, frames: int = 16, bodies: int = 2, graph: Graph = KINECT_V2) -> Tensor:
    return torch.randn(count, 3, frames, len(graph.joints), bodies, generator=rng(9))


def test_the_strengths_of_augmentation() -> None:
    strengths = (skeleton.MIN_CROP, skeleton.MAX_ROTATION, skeleton.JITTER, skeleton.HIDE_PROBABILITY)
    assert strengths == (0.9, 15.0, 0.01, 0.1)


def test_branches_of_a_skeleton_with_two_joints() -> None:
    graph = Graph(("a", "b"), (1, 1))
    x = torch.zeros(1, 3, 4, 2, 1)
    x[0, :, :, 0, 0] = torch.tensor([[0.0, 1, 3, 7], [3, 3, 3, 3], [4, 4, 4, 4]])
    x[0, 2, :, 1, 0] = 4
    position, velocity, bone = branches(x, graph)[0, ..., 0]
    assert position[:, 1, 0].tolist() == [1, 3, 4, 1, 3, 0]
    assert velocity[:, :, 0].tolist() == [[1, 2, 0, 0], [0] * 4, [0] * 4, [3, 6, 0, 0], [0] * 4, [0] * 4]
    assert bone[:3, 0, 0].tolist() == [0, 3, 0]
    angles = [math.pi / 2, math.acos(3 / 3.0001), math.pi / 2]
    assert bone[3:, 0, 0].tolist() == pytest.approx(angles, abs=1e-4)


def test_a_skeleton_at_rest_has_zero_velocity() -> None:
    x = skeletons(2, 1).expand(2, 3, 288, 25, 2)
    assert not branches(x, KINECT_V2)[:, 1].any()


def test_the_bone_of_the_centre_is_zero() -> None:
    bone = branches(skeletons(), KINECT_V2)[:, 2, :, :, 1]
    assert not bone[:, :3].any()
    assert torch.allclose(bone[:, 3:], torch.tensor(math.pi / 2))


def test_an_absent_body_has_angles_of_90_degrees_and_zeros_otherwise() -> None:
    found = branches(torch.zeros(1, 3, 5, 25, 1), KINECT_V2)
    assert torch.allclose(found[:, 2, 3:], torch.tensor(math.pi / 2))
    assert not found[:, :2].any()
    assert not found[:, 2, :3].any()


@pytest.mark.parametrize("graph", GRAPHS)
def test_mirroring_twice_restores_the_skeleton(graph: Graph) -> None:
    x = skeletons(graph=graph)
    assert torch.equal(mirror(mirror(x, graph), graph), x)
    assert not torch.equal(mirror(x, graph), x)


def test_mirroring_turns_a_raised_left_hand_into_a_right_one() -> None:
    x = torch.zeros(1, 3, 1, 20, 1)
    x[0, :, 0, KINECT_V1.joints.index("left hand"), 0] = torch.tensor([-0.5, 1.0, 2.0])
    right = mirror(x, KINECT_V1)[0, :, 0, KINECT_V1.joints.index("right hand"), 0]
    assert right.tolist() == [0.5, 1.0, 2.0]


def test_a_crop_of_all_frames_changes_nothing() -> None:
    x = skeletons()
    assert torch.equal(crop_in_time(x, torch.ones(4), torch.rand(4)), x)


def test_a_crop_is_stretched_by_linear_interpolation() -> None:
    x = torch.arange(1.0, 6.0).view(1, 1, 5, 1, 1).expand(2, 3, 5, 2, 1)
    stretched = crop_in_time(x, torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]))[:, 0, :, 0, 0]
    assert stretched.tolist() == [[1, 1.5, 2, 2.5, 3], [3, 3.5, 4, 4.5, 5]]


def test_a_crop_never_interpolates_between_a_body_and_its_absence() -> None:
    x = torch.zeros(1, 3, 9, 2, 2)
    x[:, :, :4, :, 0] = 2
    x[:, :, 5:, :, 1] = 2
    for start in torch.linspace(0, 1, 7):
        found = crop_in_time(x, torch.tensor([0.6]), start[None])
        assert set(found.unique().tolist()) <= {0.0, 2.0}


def test_rotation_keeps_lengths_and_distances_between_bodies() -> None:
    x = skeletons()
    x[..., 1] = x[..., 0] + 1
    found = rotate(x, torch.tensor([[15.0, -3, 8]] * 4))
    assert torch.allclose(found.norm(dim=1), x.norm(dim=1), atol=1e-5)
    distance = (found[..., 1] - found[..., 0]).norm(dim=1)
    assert torch.allclose(distance, torch.tensor(math.sqrt(3)), atol=1e-5)


def test_rotation_by_90_degrees_about_the_third_axis() -> None:
    x = torch.tensor([1.0, 0, 0]).view(1, 3, 1, 1, 1)
    found = rotate(x, torch.tensor([[0.0, 0, 90]])).flatten().tolist()
    assert found == pytest.approx([0, 1, 0], abs=1e-6)


def test_jitter_has_a_standard_deviation_of_one_centimetre_and_skips_absent_bodies() -> None:
    x = skeletons(8)
    x[..., 1] = 0
    moved = jitter(x, torch.rand(x.shape, generator=rng())) - x
    assert not moved[..., 1].any()
    assert moved[..., 0].std().item() == pytest.approx(0.01, rel=0.05)


def test_hidden_joints_are_moved_to_the_centre() -> None:
    x, hidden = skeletons(1), torch.zeros(1, 25, dtype=torch.bool)
    hidden[0, 7] = True
    found = hide_joints(x, hidden, 1)
    assert torch.equal(found[:, :, :, 7], x[:, :, :, 1])
    others = [j for j in range(25) if j != 7]
    assert torch.equal(found[:, :, :, others], x[:, :, :, others])


@pytest.mark.parametrize("kind", ["augmented", "strong"])
def test_each_skeleton_is_augmented_independently(kind: str) -> None:
    x = skeletons(1).repeat(6, 1, 1, 1, 1)
    found = getattr(SkeletonTransform(KINECT_V2), kind)(x, rng())
    assert found.shape == (6, 3, 6, 16, 25, 2)
    assert len({one.numpy().tobytes() for one in found}) == 6
    assert found.isfinite().all()


@pytest.mark.parametrize("kind", ["augmented", "strong"])
def test_the_number_of_draws_does_not_depend_on_the_input(kind: str) -> None:
    a, b, transform = rng(), rng(), SkeletonTransform(KINECT_V2)
    getattr(transform, kind)(skeletons(), a)
    getattr(transform, kind)(torch.zeros_like(skeletons()), b)
    assert torch.equal(a.get_state(), b.get_state())


@pytest.mark.parametrize("kind", ["augmented", "strong"])
def test_augmentation_does_not_modify_its_input(kind: str) -> None:
    x = skeletons()
    before = x.clone()
    getattr(SkeletonTransform(KINECT_V2), kind)(x, rng())
    assert torch.equal(x, before)


def test_half_of_the_skeletons_are_mirrored() -> None:
    x = torch.ones(1000, 3, 2, 20, 1)
    is_mirrored = SkeletonTransform(KINECT_V1).augmented(x, rng())[:, 0, 0, 0, 0, 0] < 0
    assert 0.45 < is_mirrored.float().mean() < 0.55


def test_half_precision_inputs_are_converted_to_float32() -> None:
    assert SkeletonTransform(KINECT_V2).plain(skeletons().half()).dtype == torch.float32
