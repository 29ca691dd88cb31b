import math

import numpy as np
import pytest
import reference_spr as reference
import torch
from torch import Tensor

from remnant.methods.spr.centrality import (
    CONVERGED,
    GRAPHS,
    centrality,
    clean_probability,
    mean_posterior,
    random_graph,
    similarity,
)

SEEDS = range(60)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def one_cluster(inside: int, outside: int, near: float, far: float) -> Tensor:
    """Similarities of samples in a cluster, and of others that are not similar to any sample."""
    similar = torch.full((inside + outside, inside + outside), far, dtype=torch.float64)
    similar[:inside, :inside] = near
    return similar.fill_diagonal_(1)


def central(similar: Tensor, seed: int) -> Tensor:
    shape = (GRAPHS, *similar.shape)
    return mean_posterior(similar, torch.rand(shape, generator=rng(seed), dtype=torch.float64))


def features(counts: list[int], seed: int, spread: float = 0.5, size: int = 8) -> Tensor:
    """Groups of features, each around a random direction."""
    generator = rng(seed)
    groups = [
        torch.randn(size, generator=generator) + spread * torch.randn(n, size, generator=generator)
        for n in counts
    ]
    return torch.cat(groups)


def test_a_cluster_of_forty_is_clean_and_ten_other_samples_are_not() -> None:
    clean = torch.stack([central(one_cluster(40, 10, 0.8, 0.1), seed) for seed in SEEDS])
    inside = clean[:, :40].mean(1)
    assert inside.mean().item() == pytest.approx(0.977, abs=0.003)
    assert inside.min() > 0.95
    assert inside.max() < 0.995
    assert clean[:, 40:].max() < 1e-5


def test_a_cluster_of_sixty_is_clean_and_forty_other_samples_are_not() -> None:
    clean = torch.stack([central(one_cluster(60, 40, 0.7, 0.2), seed) for seed in SEEDS])
    inside, outside = clean[:, :60].mean(1), clean[:, 60:].mean(1)
    assert inside.mean().item() == pytest.approx(0.943, abs=0.02)
    assert inside.min() > 0.88
    assert outside.mean() < 2e-4
    assert outside.max() < 0.007


def test_a_cluster_of_eight_is_clean_and_two_other_samples_are_not() -> None:
    clean = torch.stack([central(one_cluster(8, 2, 0.8, 0.1), seed) for seed in SEEDS])
    inside, outside = clean[:, :8].mean(1), clean[:, 8:].mean(1)
    assert (inside > outside).all()
    assert inside.mean().item() == pytest.approx(0.93, abs=0.02)
    assert outside.mean() < 0.03
    assert outside.max() < 0.2


def test_similarity_matches_hand_computed_values() -> None:
    z = torch.tensor([[2.0, 0.0], [3.0, 4.0], [-1.0, 0.0], [0.0, 0.0]])
    expected = torch.tensor([[1, 0.6, 0, 0], [0.6, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]).double()
    assert torch.allclose(similarity(z), expected)


def test_a_graph_uses_the_lower_triangle_of_the_random_numbers() -> None:
    similar = torch.tensor([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]])
    uniform = torch.tensor([[0.9, 0.0, 0.9], [0.9, 0.9, 0.0], [0.4, 0.6, 0.9]])  # differs above the diagonal
    expected = [1, 1e-5, 1, 1e-5, 1, 1e-5, 1, 1e-5, 1]
    assert random_graph(similar, uniform).flatten().tolist() == pytest.approx(expected)


def test_the_frequency_of_edges_is_the_similarity() -> None:
    similar = one_cluster(100, 100, 0.7, 0.2)
    edges = random_graph(similar, torch.rand(200, 200, generator=rng(), dtype=torch.float64)) > 0.5
    near, far = edges[:100, :100], edges[100:, :100]
    assert (near.sum().item() - 100) / 9900 == pytest.approx(0.7, abs=0.02)
    assert far.double().mean().item() == pytest.approx(0.2, abs=0.02)
    assert edges.diagonal().all()
    assert torch.equal(edges, edges.T)


def test_edges_of_probability_one_always_exist_and_those_of_probability_zero_never() -> None:
    sure = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    assert random_graph(sure, torch.full((2, 2), 1 - 2**-53, dtype=torch.float64))[0, 1] == 1
    assert random_graph(1 - sure, torch.zeros(2, 2, dtype=torch.float64))[0, 1].item() == 1e-5


def test_centrality_matches_hand_computed_values() -> None:
    # A path of three nodes: sqrt(2) : 2 : sqrt(2), with the eigenvalue 1 + sqrt(2).
    path = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    assert centrality(path).tolist() == pytest.approx([0.5, math.sqrt(0.5), 0.5], abs=1e-8)


def test_centrality_is_the_leading_eigenvector() -> None:
    for seed in range(30):
        similar = similarity(features([30, 12, 5], seed))
        edges = random_graph(similar, torch.rand(47, 47, generator=rng(seed), dtype=torch.float64))
        expected = torch.linalg.eigh(edges).eigenvectors[:, -1].abs()
        assert (centrality(edges) - expected).abs().max() < 1e-5


def test_centrality_has_converged() -> None:
    edges = random_graph(
        one_cluster(30, 10, 0.8, 0.1), torch.rand(40, 40, generator=rng(), dtype=torch.float64)
    )
    found = centrality(edges)
    after = edges @ found / (edges @ found).norm()
    assert (after - found).abs().max() < CONVERGED


def compare_with_reference(seed: int) -> None:
    y = torch.tensor([4] * 22 + [1] * 11 + [7] * 9 + [0] * 10)
    y = y[torch.randperm(len(y), generator=rng(seed))]
    z = features([20, 12, 20], seed).double()
    found = clean_probability(z, y, rng(seed))
    again, uniforms = rng(seed), {}
    for label in (0, 1, 4):  # in this order; no random numbers are drawn for the nine samples of label 7
        count = int((y == label).sum())
        shape = (GRAPHS, count, count)
        uniforms[label] = torch.rand(shape, generator=again, dtype=torch.float64).numpy()
    expected = reference.clean_probability(z.numpy(), y.tolist(), uniforms)
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_the_filter_matches_the_reference() -> None:
    for seed in range(3):
        compare_with_reference(seed)


@pytest.mark.slow
def test_the_filter_matches_the_reference_for_more_seeds() -> None:
    for seed in range(3, 12):
        compare_with_reference(seed)


def test_noisy_labels_have_a_low_probability() -> None:
    for seed in range(10):
        generator = np.random.default_rng(seed)
        true = np.repeat([0, 1, 2], 40)
        y = true.copy()
        noisy = generator.permutation(120)[:30]
        y[noisy] = (y[noisy] + generator.integers(1, 3, 30)) % 3
        z = features([40, 40, 40], seed, spread=0.4, size=32)
        clean = clean_probability(z, torch.from_numpy(y), rng(seed))
        is_clean = torch.from_numpy(y == true)
        assert clean[is_clean].mean() > 0.7
        assert clean[~is_clean].mean() < 0.15


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_a_small_class_has_probability_one_half_and_draws_no_random_numbers(count: int) -> None:
    generator = rng()
    before = generator.get_state()
    clean = clean_probability(torch.randn(count, 4), torch.zeros(count, dtype=torch.long), generator)
    assert clean.tolist() == [0.5] * count
    assert torch.equal(generator.get_state(), before)


def test_ten_samples_are_enough() -> None:
    z = torch.cat([torch.ones(8, 3) + 0.1 * torch.randn(8, 3, generator=rng()), -torch.ones(2, 3)])
    clean = clean_probability(z, torch.zeros(10, dtype=torch.long), rng())
    assert clean.isfinite().all()
    assert not (clean == 0.5).all()


@pytest.mark.parametrize("count", [10, 11, 50])
def test_degenerate_features_never_give_nan(count: int) -> None:
    degenerate = {
        "identical": torch.ones(count, 4),
        "orthogonal": torch.eye(count),
        "opposite": torch.ones(count, 4) * torch.tensor([1.0, -1.0]).repeat(count)[:count, None],
        "zero": torch.zeros(count, 4),
        "two halves": torch.eye(2).repeat_interleave(count, 0)[count // 2 :][:count],
        "one outlier": torch.eye(2)[[0] * (count - 1) + [1]],
    }
    for kind, z in degenerate.items():
        clean = clean_probability(z, torch.zeros(count, dtype=torch.long), rng())
        assert ((clean >= 0) & (clean <= 1)).all(), kind
        if kind in ("identical", "orthogonal", "zero"):
            assert (clean == 0.5).all(), kind  # all samples are equally central


def test_random_features_never_give_nan() -> None:
    for seed in range(20):
        z = torch.randn(15 + seed, 6, generator=rng(seed))
        clean = clean_probability(z, torch.arange(len(z)) % 2, rng(seed))
        assert ((clean >= 0) & (clean <= 1)).all()


def test_labels_do_not_affect_each_other() -> None:
    z = features([20, 20], 0)
    y = torch.tensor([0] * 20 + [1] * 20)
    whole = clean_probability(z, y, rng(3))
    assert torch.equal(clean_probability(z[:20], y[:20], rng(3)), whole[:20])


def test_class_numbers_and_the_norm_of_features_do_not_matter() -> None:
    z = features([15, 20], 1)
    y = torch.tensor([0] * 15 + [1] * 20)
    plain = clean_probability(z, y, rng(3))
    assert torch.equal(clean_probability(z, y + 5, rng(3)), plain)
    longer = clean_probability(z.double() * 4, y, rng(3))
    assert torch.equal(longer, plain)


def test_the_same_random_seed_gives_the_same_probabilities() -> None:
    z, y = features([30], 0), torch.zeros(30, dtype=torch.long)
    assert torch.equal(clean_probability(z, y, rng(1)), clean_probability(z, y, rng(1)))
    assert not torch.equal(clean_probability(z, y, rng(1)), clean_probability(z, y, rng(2)))
