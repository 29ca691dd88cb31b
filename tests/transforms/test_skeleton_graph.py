import pytest
import torch

from remnant.transforms.skeleton_graph import KINECT_V1, KINECT_V2, Graph, hop_distances, hop_matrices

GRAPHS = [KINECT_V1, KINECT_V2]


def test_the_graphs_have_the_published_sizes() -> None:
    assert [len(graph.joints) for graph in GRAPHS] == [20, 25]
    assert [len(graph.edges) for graph in GRAPHS] == [19, 24]
    assert [graph.centre for graph in GRAPHS] == [1, 1]


def test_the_parents_of_kinect_v2_are_the_published_ones() -> None:
    published = "2,2,21,3,21,5,6,7,21,9,10,11,1,13,14,15,1,17,18,19,2,23,8,25,12"
    assert [parent + 1 for parent in KINECT_V2.parents] == [int(p) for p in published.split(",")]


def test_the_parents_of_kinect_v1() -> None:
    parents = "2,2,2,3,3,5,6,7,3,9,10,11,1,13,14,15,1,17,18,19"
    assert [parent + 1 for parent in KINECT_V1.parents] == [int(p) for p in parents.split(",")]


@pytest.mark.parametrize("graph", GRAPHS)
def test_all_joints_are_connected(graph: Graph) -> None:
    assert hop_distances(graph).max() < len(graph.joints)


def test_the_farthest_joints_of_kinect_v2_are_twelve_bones_apart() -> None:
    assert int(hop_distances(KINECT_V2).max()) == 12


@pytest.mark.parametrize("graph", GRAPHS)
def test_mirroring_is_an_involution_that_maps_bones_to_bones(graph: Graph) -> None:
    mirror = graph.mirror
    assert [mirror[j] for j in mirror] == list(range(len(mirror)))
    assert {frozenset((mirror[a], mirror[b])) for a, b in graph.edges} == set(map(frozenset, graph.edges))


def test_the_left_right_pairs_of_kinect_v2_are_the_published_ones() -> None:
    left, right = (5, 6, 7, 8, 22, 23, 13, 14, 15, 16), (9, 10, 11, 12, 24, 25, 17, 18, 19, 20)
    assert [KINECT_V2.mirror[j - 1] + 1 for j in left] == list(right)
    assert [j for j, other in enumerate(KINECT_V2.mirror) if j == other] == [0, 1, 2, 3, 20]


def test_hop_matrices_of_kinect_v2() -> None:
    matrices = hop_matrices(KINECT_V2)
    assert (matrices > 0).sum((1, 2)).tolist() == [25, 48, 54]
    assert int((matrices > 0).sum(0).max()) == 1  # each pair of joints is in one matrix at most
    assert torch.equal(matrices[0], matrices[0].diagonal().diag())
    columns = matrices.sum((0, 1))
    assert columns.min().item() == pytest.approx(0.12)
    assert columns.max().item() == pytest.approx(0.36)


def test_the_weights_of_all_joints_within_ten_hops_sum_to_one() -> None:
    assert torch.allclose(hop_matrices(KINECT_V2, 11).sum((0, 1)), torch.ones(25))
