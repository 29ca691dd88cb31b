import math

import numpy as np
import pytest
import reference_spr as reference
import torch
from torch import Tensor

from remnant.spr.centrality import (
    CONVERGED,
    GRAPHS,
    centrality,
    clean_probability,
    graph,
    mean_posterior,
    similarity,
)

SEEDS = range(60)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def block(inside: int, outside: int, near: float, far: float) -> Tensor:
    """Rows that are alike, and others that are like nobody."""
    similar = torch.full((inside + outside, inside + outside), far, dtype=torch.float64)
    similar[:inside, :inside] = near
    return similar.fill_diagonal_(1)


def judged(similar: Tensor, seed: int) -> Tensor:
    shape = (GRAPHS, *similar.shape)
    return mean_posterior(similar, torch.rand(shape, generator=rng(seed), dtype=torch.float64))


def features(counts: list[int], seed: int, spread: float = 0.5, size: int = 8) -> Tensor:
    """Groups of rows around directions of their own."""
    generator = rng(seed)
    groups = [
        torch.randn(size, generator=generator) + spread * torch.randn(n, size, generator=generator)
        for n in counts
    ]
    return torch.cat(groups)


def test_forty_alike_and_ten_outsiders() -> None:
    clean = torch.stack([judged(block(40, 10, 0.8, 0.1), seed) for seed in SEEDS])
    inside = clean[:, :40].mean(1)
    assert inside.mean().item() == pytest.approx(0.977, abs=0.003)
    assert inside.min() > 0.95
    assert inside.max() < 0.995
    assert clean[:, 40:].max() < 1e-5


def test_sixty_against_forty() -> None:
    clean = torch.stack([judged(block(60, 40, 0.7, 0.2), seed) for seed in SEEDS])
    inside, outside = clean[:, :60].mean(1), clean[:, 60:].mean(1)
    assert inside.mean().item() == pytest.approx(0.943, abs=0.02)
    assert inside.min() > 0.88
    assert outside.mean() < 2e-4
    assert outside.max() < 0.007


def test_eight_against_two() -> None:
    clean = torch.stack([judged(block(8, 2, 0.8, 0.1), seed) for seed in SEEDS])
    inside, outside = clean[:, :8].mean(1), clean[:, 8:].mean(1)
    assert (inside > outside).all()
    assert inside.mean().item() == pytest.approx(0.93, abs=0.02)
    assert outside.mean() < 0.03
    assert outside.max() < 0.2


def test_similarity_by_hand() -> None:
    z = torch.tensor([[2.0, 0.0], [3.0, 4.0], [-1.0, 0.0], [0.0, 0.0]])
    expected = torch.tensor([[1, 0.6, 0, 0], [0.6, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]).double()
    assert torch.allclose(similarity(z), expected)


def test_a_graph_by_hand() -> None:
    similar = torch.tensor([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]])
    uniform = torch.tensor([[0.9, 0.0, 0.9], [0.9, 0.9, 0.0], [0.4, 0.6, 0.9]])  # above: contradicted
    expected = [1, 1e-5, 1, 1e-5, 1, 1e-5, 1, 1e-5, 1]
    assert graph(similar, uniform).flatten().tolist() == pytest.approx(expected)


def test_edges_are_as_frequent_as_rows_are_similar() -> None:
    similar = block(100, 100, 0.7, 0.2)
    edges = graph(similar, torch.rand(200, 200, generator=rng(), dtype=torch.float64)) > 0.5
    near, far = edges[:100, :100], edges[100:, :100]
    assert (near.sum().item() - 100) / 9900 == pytest.approx(0.7, abs=0.02)
    assert far.double().mean().item() == pytest.approx(0.2, abs=0.02)
    assert edges.diagonal().all()
    assert torch.equal(edges, edges.T)


def test_certain_edges_are_always_there_and_impossible_ones_never() -> None:
    sure = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    assert graph(sure, torch.full((2, 2), 1 - 2**-53, dtype=torch.float64))[0, 1] == 1
    assert graph(1 - sure, torch.zeros(2, 2, dtype=torch.float64))[0, 1].item() == 1e-5


def test_centrality_by_hand() -> None:
    # A path of three: sqrt(2) : 2 : sqrt(2), the eigenvalue is 1 + sqrt(2).
    path = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    assert centrality(path).tolist() == pytest.approx([0.5, math.sqrt(0.5), 0.5], abs=1e-8)


@pytest.mark.parametrize("seed", range(30))
def test_centrality_is_the_leading_eigenvector(seed: int) -> None:
    similar = similarity(features([30, 12, 5], seed))
    edges = graph(similar, torch.rand(47, 47, generator=rng(seed), dtype=torch.float64))
    expected = torch.linalg.eigh(edges).eigenvectors[:, -1].abs()
    assert (centrality(edges) - expected).abs().max() < 1e-5


def test_more_rounds_would_not_change_a_centrality() -> None:
    edges = graph(block(30, 10, 0.8, 0.1), torch.rand(40, 40, generator=rng(), dtype=torch.float64))
    now = centrality(edges)
    after = edges @ now / (edges @ now).norm()
    assert (after - now).abs().max() < CONVERGED


@pytest.mark.parametrize("seed", range(12))
def test_the_filter_is_its_twin(seed: int) -> None:
    y = torch.tensor([4] * 22 + [1] * 11 + [7] * 9 + [0] * 10)
    y = y[torch.randperm(len(y), generator=rng(seed))]
    z = features([20, 12, 20], seed).double()
    found = clean_probability(z, y, rng(seed))
    again, uniforms = rng(seed), {}
    for label in (0, 1, 4):  # in this order, and nothing is drawn for the nine rows of 7
        count = int((y == label).sum())
        shape = (GRAPHS, count, count)
        uniforms[label] = torch.rand(shape, generator=again, dtype=torch.float64).numpy()
    expected = reference.clean_probability(z.numpy(), y.tolist(), uniforms)
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("seed", range(10))
def test_wrong_labels_are_less_probable(seed: int) -> None:
    generator = np.random.default_rng(seed)
    true = np.repeat([0, 1, 2], 40)
    y = true.copy()
    wrong = generator.permutation(120)[:30]
    y[wrong] = (y[wrong] + generator.integers(1, 3, 30)) % 3
    z = features([40, 40, 40], seed, spread=0.4, size=32)
    clean = clean_probability(z, torch.from_numpy(y), rng(seed))
    is_right = torch.from_numpy(y == true)
    assert clean[is_right].mean() > 0.7
    assert clean[~is_right].mean() < 0.15


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_a_small_class_is_not_judged_and_draws_nothing(count: int) -> None:
    generator = rng()
    before = generator.get_state()
    clean = clean_probability(torch.randn(count, 4), torch.zeros(count, dtype=torch.long), generator)
    assert clean.tolist() == [0.5] * count
    assert torch.equal(generator.get_state(), before)


def test_ten_rows_are_judged() -> None:
    z = torch.cat([torch.ones(8, 3) + 0.1 * torch.randn(8, 3, generator=rng()), -torch.ones(2, 3)])
    clean = clean_probability(z, torch.zeros(10, dtype=torch.long), rng())
    assert clean.isfinite().all()
    assert not (clean == 0.5).all()


@pytest.mark.parametrize("count", [10, 11, 50])
@pytest.mark.parametrize(
    "kind", ["identical", "orthogonal", "opposite", "zero", "two halves", "one apart"]
)
def test_degenerate_features_never_give_nan(kind: str, count: int) -> None:
    z = {
        "identical": torch.ones(count, 4),
        "orthogonal": torch.eye(count),
        "opposite": torch.ones(count, 4) * torch.tensor([1.0, -1.0]).repeat(count)[:count, None],
        "zero": torch.zeros(count, 4),
        "two halves": torch.eye(2).repeat_interleave(count, 0)[count // 2 :][:count],
        "one apart": torch.eye(2)[[0] * (count - 1) + [1]],
    }[kind]
    clean = clean_probability(z, torch.zeros(count, dtype=torch.long), rng())
    assert ((clean >= 0) & (clean <= 1)).all()
    if kind in ("identical", "orthogonal", "zero"):
        assert (clean == 0.5).all()  # nobody is more central than anybody else


@pytest.mark.parametrize("seed", range(20))
def test_features_of_no_structure_never_give_nan(seed: int) -> None:
    z = torch.randn(15 + seed, 6, generator=rng(seed))
    clean = clean_probability(z, torch.arange(len(z)) % 2, rng(seed))
    assert ((clean >= 0) & (clean <= 1)).all()


def test_labels_are_judged_apart() -> None:
    z = features([20, 20], 0)
    y = torch.tensor([0] * 20 + [1] * 20)
    whole = clean_probability(z, y, rng(3))
    assert torch.equal(clean_probability(z[:20], y[:20], rng(3)), whole[:20])


def test_the_names_of_the_labels_and_the_length_of_features_do_not_matter() -> None:
    z = features([15, 20], 1)
    y = torch.tensor([0] * 15 + [1] * 20)
    plain = clean_probability(z, y, rng(3))
    assert torch.equal(clean_probability(z, y + 5, rng(3)), plain)
    longer = clean_probability(z.double() * 4, y, rng(3))
    assert torch.equal(longer, plain)


def test_the_same_generator_gives_the_same_judgement() -> None:
    z, y = features([30], 0), torch.zeros(30, dtype=torch.long)
    assert torch.equal(clean_probability(z, y, rng(1)), clean_probability(z, y, rng(1)))
    assert not torch.equal(clean_probability(z, y, rng(1)), clean_probability(z, y, rng(2)))
