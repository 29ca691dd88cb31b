"""The self-centred filter: a label is trusted where its row is central among the rows of that label.

Rows of one label are the nodes of random graphs whose edges are as probable as the rows are similar.
Where most labels are right, wrong ones lie at the margin. n rows of D features, E graphs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from remnant.spr.beta_mixture import FEWEST, high_posterior

GRAPHS = 5
NO_EDGE = 1e-5  # every graph is connected, so that one centrality only solves it
ROUNDS = 6000
CONVERGED = 1e-9  # largest change of a centrality in a round


def clean_probability(z: Tensor, y: Tensor, rng: torch.Generator) -> Tensor:
    """Return how probably each label is right, (n,), judged among the features z (n, D) of its label.

    A label with fewer rows than can be judged: 1/2.
    """
    clean = torch.full((len(y),), 0.5, dtype=torch.float64)
    for label in y.unique().tolist():
        rows = torch.nonzero(y == label).flatten()
        if len(rows) >= FEWEST:
            shape = (GRAPHS, len(rows), len(rows))
            uniforms = torch.rand(shape, generator=rng, dtype=torch.float64)
            clean[rows] = mean_posterior(similarity(z[rows]), uniforms)
    return clean


def similarity(z: Tensor) -> Tensor:
    """Return max(0, cos) of each two rows, (n, n).

    >>> similarity(torch.tensor([[2.0, 0.0], [3.0, 4.0], [0.0, -1.0]])).round(decimals=6).tolist()
    [[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    unit = F.normalize(z.double(), dim=1)
    return (unit @ unit.T).clamp(0, 1).fill_diagonal_(1)


def mean_posterior(similar: Tensor, uniforms: Tensor) -> Tensor:
    """Return the mean over random graphs of the posterior to be central; uniforms (E, n, n) -> (n,)."""
    graphs = [graph(similar, uniform) for uniform in uniforms]
    return torch.stack([high_posterior(centrality(edges)) for edges in graphs]).mean(0)


def graph(similar: Tensor, uniform: Tensor) -> Tensor:
    """Return edges that are there with probability `similar`; the lower triangle decides, (n, n)."""
    below = (similar > uniform).to(similar).clamp_min(NO_EDGE).tril(-1)
    return (below + below.T).fill_diagonal_(1)


def centrality(edges: Tensor) -> Tensor:
    """Return the leading eigenvector of a positive symmetric matrix by power iteration, (n,).

    >>> centrality(torch.tensor([[9.0, 12.0], [12.0, 16.0]])).mul(10).round().tolist()
    [6.0, 8.0]
    """
    now = F.normalize(edges.new_ones(len(edges)), dim=0)
    for _ in range(ROUNDS):
        last, now = now, F.normalize(edges @ now, dim=0)
        if (now - last).abs().max() < CONVERGED:
            break
    return now
