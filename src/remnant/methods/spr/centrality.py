"""The self-centred filter: a label is probably clean if its sample is central in the class.

Samples with the same label are the nodes of random graphs, and their similarities are the probabilities
of edges. If most labels are clean, mislabelled samples have a low centrality.
n samples with D features, E graphs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.methods.spr.beta_mixture import MIN_VALUES, high_posterior

GRAPHS = 5
NO_EDGE = 1e-5  # weight of a missing edge; positive, so that the centrality is unique
MAX_ITERATIONS = 6000
CONVERGED = 1e-9  # largest change of a centrality in an iteration


def clean_probability(z: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
    """Return the probability that each label y (n,) is clean, (n,), given the features z (n, D).

    It is 1/2 for labels with fewer than MIN_VALUES samples.
    """
    clean = torch.full((len(y),), 0.5, dtype=torch.float64)
    for label in y.unique().tolist():
        index = torch.nonzero(y == label).flatten()
        if len(index) >= MIN_VALUES:
            shape = (GRAPHS, len(index), len(index))
            uniforms = torch.rand(shape, generator=rng, dtype=torch.float64)
            clean[index] = mean_posterior(similarity(z[index]), uniforms)
    return clean


def similarity(z: Tensor) -> Tensor:
    """Return max(0, cos) of each pair of samples, (n, n).

    >>> similarity(torch.tensor([[2.0, 0.0], [3.0, 4.0], [0.0, -1.0]])).round(decimals=6).tolist()
    [[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    unit = F.normalize(z.double(), dim=1)
    return (unit @ unit.T).clamp(0, 1).fill_diagonal_(1)


def mean_posterior(similar: Tensor, uniforms: Tensor) -> Tensor:
    """Return the posterior of being central, averaged over random graphs; uniforms (E, n, n) -> (n,)."""
    graphs = [random_graph(similar, uniform) for uniform in uniforms]
    return torch.stack([high_posterior(centrality(edges)) for edges in graphs]).mean(0)


def random_graph(similar: Tensor, uniform: Tensor) -> Tensor:
    """Return the edges of a graph with edge probabilities `similar`, from the lower triangle, (n, n)."""
    below = (similar > uniform).to(similar).clamp_min(NO_EDGE).tril(-1)
    return (below + below.T).fill_diagonal_(1)


def centrality(edges: Tensor) -> Tensor:
    """Return the leading eigenvector of a positive symmetric matrix by power iteration, (n,).

    >>> centrality(torch.tensor([[9.0, 12.0], [12.0, 16.0]])).mul(10).round().tolist()
    [6.0, 8.0]
    """
    vector = F.normalize(edges.new_ones(len(edges)), dim=0)
    for _ in range(MAX_ITERATIONS):
        last, vector = vector, F.normalize(edges @ vector, dim=0)
        if (vector - last).abs().max() < CONVERGED:
            break
    return vector
