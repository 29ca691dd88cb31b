import math

import pytest
import torch
from torch import Tensor

from remnant.skeleton import KINECT_V1, KINECT_V2, Graph, SkeletonView, hop_distances, hop_matrices, view
from remnant.skeleton.view import branches, chosen, cropped, hidden, mirrored, shaken, turned

GRAPHS = [KINECT_V1, KINECT_V2]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def people(count: int = 4, frames: int = 16, bodies: int = 2, graph: Graph = KINECT_V2) -> Tensor:
    return torch.randn(count, 3, frames, len(graph.joints), bodies, generator=rng(9))


def test_the_layouts_have_their_published_sizes() -> None:
    assert [len(graph.joints) for graph in GRAPHS] == [20, 25]
    assert [len(graph.edges) for graph in GRAPHS] == [19, 24]
    assert [graph.centre for graph in GRAPHS] == [1, 1]


def test_the_parents_of_kinect_v2_are_the_published_ones() -> None:
    published = "2,2,21,3,21,5,6,7,21,9,10,11,1,13,14,15,1,17,18,19,2,23,8,25,12"
    assert [parent + 1 for parent in KINECT_V2.parents] == [int(p) for p in published.split(",")]


def test_the_parents_of_kinect_v1() -> None:
    parents = "2,2,2,3,3,5,6,7,3,9,10,11,1,13,14,15,1,17,18,19"
    assert [parent + 1 for parent in KINECT_V1.parents] == [int(p) for p in parents.split(",")]


def test_how_much_a_skeleton_is_changed() -> None:
    assert (view.SHORTEST, view.TURN, view.JITTER, view.HIDDEN) == (0.9, 15.0, 0.01, 0.1)


@pytest.mark.parametrize("graph", GRAPHS)
def test_all_joints_hang_together(graph: Graph) -> None:
    assert hop_distances(graph).max() < len(graph.joints)


def test_the_farthest_joints_of_kinect_v2_are_twelve_bones_apart() -> None:
    assert int(hop_distances(KINECT_V2).max()) == 12


@pytest.mark.parametrize("graph", GRAPHS)
def test_left_and_right_change_places_and_so_do_their_bones(graph: Graph) -> None:
    mirror = graph.mirror
    assert [mirror[j] for j in mirror] == list(range(len(mirror)))
    assert {frozenset((mirror[a], mirror[b])) for a, b in graph.edges} == set(
        map(frozenset, graph.edges)
    )


def test_the_pairs_of_kinect_v2_are_the_published_ones() -> None:
    left, right = (5, 6, 7, 8, 22, 23, 13, 14, 15, 16), (9, 10, 11, 12, 24, 25, 17, 18, 19, 20)
    assert [KINECT_V2.mirror[j - 1] + 1 for j in left] == list(right)
    assert [j for j, other in enumerate(KINECT_V2.mirror) if j == other] == [0, 1, 2, 3, 20]


def test_hop_matrices_of_kinect_v2() -> None:
    matrices = hop_matrices(KINECT_V2)
    assert (matrices > 0).sum((1, 2)).tolist() == [25, 48, 54]
    assert int((matrices > 0).sum(0).max()) == 1  # no pair of joints in two of them
    assert torch.equal(matrices[0], matrices[0].diagonal().diag())
    columns = matrices.sum((0, 1))
    assert columns.min().item() == pytest.approx(0.12)
    assert columns.max().item() == pytest.approx(0.36)


def test_the_weights_of_all_joints_within_reach_add_up_to_one() -> None:
    assert torch.allclose(hop_matrices(KINECT_V2, 11).sum((0, 1)), torch.ones(25))


def test_branches_by_hand() -> None:
    graph = Graph(("a", "b"), (1, 1))
    x = torch.zeros(1, 3, 4, 2, 1)
    x[0, :, :, 0, 0] = torch.tensor([[0.0, 1, 3, 7], [3, 3, 3, 3], [4, 4, 4, 4]])
    x[0, 2, :, 1, 0] = 4
    place, speed, bone = branches(x, graph)[0, ..., 0]
    assert place[:, 1, 0].tolist() == [1, 3, 4, 1, 3, 0]
    assert speed[:, :, 0].tolist() == [[1, 2, 0, 0], [0] * 4, [0] * 4, [3, 6, 0, 0], [0] * 4, [0] * 4]
    assert bone[:3, 0, 0].tolist() == [0, 3, 0]
    angles = [math.pi / 2, math.acos(3 / 3.0001), math.pi / 2]
    assert bone[3:, 0, 0].tolist() == pytest.approx(angles, abs=1e-4)


def test_who_stands_still_has_no_speed() -> None:
    x = people(2, 1).expand(2, 3, 288, 25, 2)
    assert not branches(x, KINECT_V2)[:, 1].any()


def test_the_centre_has_no_bone() -> None:
    bone = branches(people(), KINECT_V2)[:, 2, :, :, 1]
    assert not bone[:, :3].any()
    assert torch.allclose(bone[:, 3:], torch.tensor(math.pi / 2))


def test_a_body_that_is_absent_has_right_angles_and_else_nothing() -> None:
    seen = branches(torch.zeros(1, 3, 5, 25, 1), KINECT_V2)
    assert torch.allclose(seen[:, 2, 3:], torch.tensor(math.pi / 2))
    assert not seen[:, :2].any()
    assert not seen[:, 2, :3].any()


@pytest.mark.parametrize("graph", GRAPHS)
def test_mirrored_twice_is_the_same(graph: Graph) -> None:
    x = people(graph=graph)
    assert torch.equal(mirrored(mirrored(x, graph), graph), x)
    assert not torch.equal(mirrored(x, graph), x)


def test_a_raised_left_hand_becomes_a_right_one() -> None:
    x = torch.zeros(1, 3, 1, 20, 1)
    x[0, :, 0, KINECT_V1.joints.index("left hand"), 0] = torch.tensor([-0.5, 1.0, 2.0])
    right = mirrored(x, KINECT_V1)[0, :, 0, KINECT_V1.joints.index("right hand"), 0]
    assert right.tolist() == [0.5, 1.0, 2.0]


def test_all_of_the_time_is_the_same() -> None:
    x = people()
    assert torch.equal(cropped(x, torch.ones(4), torch.rand(4)), x)


def test_a_part_of_the_time_is_stretched_along_lines() -> None:
    x = torch.arange(1.0, 6.0).view(1, 1, 5, 1, 1).expand(2, 3, 5, 2, 1)
    stretched = cropped(x, torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]))[:, 0, :, 0, 0]
    assert stretched.tolist() == [[1, 1.5, 2, 2.5, 3], [3, 3.5, 4, 4.5, 5]]


def test_no_body_is_halfway_to_nowhere() -> None:
    x = torch.zeros(1, 3, 9, 2, 2)
    x[:, :, :4, :, 0] = 2
    x[:, :, 5:, :, 1] = 2
    for start in torch.linspace(0, 1, 7):
        found = cropped(x, torch.tensor([0.6]), start[None])
        assert set(found.unique().tolist()) <= {0.0, 2.0}


def test_turning_keeps_lengths_and_bodies_together() -> None:
    x = people()
    x[..., 1] = x[..., 0] + 1
    found = turned(x, torch.tensor([[15.0, -3, 8]] * 4))
    assert torch.allclose(found.norm(dim=1), x.norm(dim=1), atol=1e-5)
    way = (found[..., 1] - found[..., 0]).norm(dim=1)
    assert torch.allclose(way, torch.tensor(math.sqrt(3)), atol=1e-5)


def test_a_quarter_turn_about_the_third_axis() -> None:
    x = torch.tensor([1.0, 0, 0]).view(1, 3, 1, 1, 1)
    found = turned(x, torch.tensor([[0.0, 0, 90]])).flatten().tolist()
    assert found == pytest.approx([0, 1, 0], abs=1e-6)


def test_shaking_moves_by_a_centimetre_and_wakes_nobody() -> None:
    x = people(8)
    x[..., 1] = 0
    moved = shaken(x, torch.rand(x.shape, generator=rng())) - x
    assert not moved[..., 1].any()
    assert moved[..., 0].std().item() == pytest.approx(0.01, rel=0.05)


def test_hidden_joints_are_at_the_centre() -> None:
    x, which = people(1), torch.zeros(1, 25, dtype=torch.bool)
    which[0, 7] = True
    found = hidden(x, which, 1)
    assert torch.equal(found[:, :, :, 7], x[:, :, :, 1])
    others = [j for j in range(25) if j != 7]
    assert torch.equal(found[:, :, :, others], x[:, :, :, others])


def test_each_skeleton_is_chosen_on_its_own() -> None:
    x = people(2)
    found = chosen(torch.tensor([True, False]), -x, x)
    assert torch.equal(found, torch.stack([-x[0], x[1]]))


@pytest.mark.parametrize("kind", ["augmented", "strong"])
def test_each_skeleton_has_its_own_draws(kind: str) -> None:
    x = people(1).repeat(6, 1, 1, 1, 1)
    found = getattr(SkeletonView(KINECT_V2), kind)(x, rng())
    assert found.shape == (6, 3, 6, 16, 25, 2)
    assert len({one.numpy().tobytes() for one in found}) == 6
    assert found.isfinite().all()


@pytest.mark.parametrize("kind", ["augmented", "strong"])
def test_the_draws_do_not_depend_on_what_is_seen(kind: str) -> None:
    a, b, seen = rng(), rng(), SkeletonView(KINECT_V2)
    getattr(seen, kind)(people(), a)
    getattr(seen, kind)(torch.zeros_like(people()), b)
    assert torch.equal(a.get_state(), b.get_state())


@pytest.mark.parametrize("kind", ["augmented", "strong"])
def test_what_is_stored_is_not_changed(kind: str) -> None:
    x = people()
    before = x.clone()
    getattr(SkeletonView(KINECT_V2), kind)(x, rng())
    assert torch.equal(x, before)


def test_half_of_the_skeletons_are_mirrored() -> None:
    x = torch.ones(1000, 3, 2, 20, 1)
    is_mirrored = SkeletonView(KINECT_V1).augmented(x, rng())[:, 0, 0, 0, 0, 0] < 0
    assert 0.45 < is_mirrored.float().mean() < 0.55


def test_half_precision_is_seen_in_full() -> None:
    assert SkeletonView(KINECT_V2).plain(people().half()).dtype == torch.float32
