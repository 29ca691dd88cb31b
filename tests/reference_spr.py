"""Reference implementation of self-purified replay: slow and simple, one number at a time."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def nt_xent(z: Array, temperature: float) -> float:
    """NT-Xent, where features i and i + n are two views of image i."""
    count = len(z)
    unit = [feature / math.sqrt(float(feature @ feature)) for feature in z]
    total = 0.0
    for i in range(count):
        partner = (i + count // 2) % count
        terms = {j: math.exp(float(unit[i] @ unit[j]) / temperature) for j in range(count) if j != i}
        total -= math.log(terms[partner] / sum(terms.values()))
    return total / count


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between the two nearest values."""
    ordered = sorted(values)
    position = percent / 100 * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def log_beta_density(x: float, a: float, b: float) -> float:
    log_norm = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return (a - 1) * math.log(x) + (b - 1) * math.log(1 - x) - log_norm


Component = tuple[float, float, float]  # weight, alpha, beta


def em(x: Sequence[float], iterations: int = 10) -> list[Component]:
    """Expectation-maximisation by weighted moments; the low component first."""
    components = [(0.5, 1.0, 2.0), (0.5, 2.0, 1.0)]
    for _ in range(iterations):
        responsibilities: list[list[float]] = [[], []]
        for value in x:
            joint = [math.log(w) + log_beta_density(value, a, b) for w, a, b in components]
            joint = [math.exp(j - max(joint)) for j in joint]
            for k in range(2):
                responsibilities[k].append(max(joint[k] / sum(joint), 1e-12))
        whole, components = sum(map(sum, responsibilities)), []
        for part in responsibilities:
            total = sum(part)
            mean = sum(r * value for r, value in zip(part, x, strict=True)) / total
            variance = sum(r * (value - mean) ** 2 for r, value in zip(part, x, strict=True)) / total
            a = mean * (mean * (1 - mean) / max(variance, 1e-6) - 1)
            components.append((total / whole, a, a * (1 - mean) / mean))
    return components


def high_posterior(values: Sequence[float]) -> list[float]:
    low, high = percentile(values, 5), percentile(values, 95)
    if len(values) < 10 or high - low <= 1e-6 * max(abs(v) for v in values):
        return [0.5] * len(values)
    scaled = [(v - low) / (high - low) for v in values]
    clipped = [min(max(s, 0.001), 0.999) for s in scaled]
    components = em([c for c, s in zip(clipped, scaled, strict=True) if -1e-9 < s < 1 + 1e-9])
    table = posterior_table(components)
    return [table[int(100 * c)] for c in clipped]


def posterior_table(components: Sequence[Component]) -> list[float]:
    """Posterior of the second component, constant above its maximum and below an inner minimum."""
    (v, a, b), (w, c, d) = components
    table = []
    for k in range(100):
        x = (k + 0.5) / 100
        odds = math.log(w / v) + log_beta_density(x, c, d) - log_beta_density(x, a, b)
        table.append(1 / (1 + math.exp(-odds)) if odds > -700 else 0.0)
    bottom = min(range(100), key=lambda k: table[k]) if c < a else 0
    top = max(range(bottom, 100), key=lambda k: table[k])
    return [table[min(max(k, bottom), top)] for k in range(100)]


def graph(z: Array, uniform: Array) -> Array:
    """Edges between features, from the lower triangle of the random numbers."""
    count = len(z)
    edges = np.ones((count, count))
    for i in range(count):
        for j in range(i):
            cosine = float(z[i] @ z[j]) / math.sqrt(float(z[i] @ z[i]) * float(z[j] @ z[j]))
            edges[i, j] = edges[j, i] = 1.0 if max(0.0, cosine) > uniform[i, j] else 1e-5
    return edges


def leading_eigenvector(edges: Array) -> Array:
    return np.abs(np.linalg.eigh(edges)[1][:, -1])


def clean_probability(z: Array, y: Sequence[int], uniforms: dict[int, Array]) -> list[float]:
    """`uniforms` has five matrices for each label with at least ten samples."""
    clean = [0.5] * len(y)
    for label, draws in uniforms.items():
        index = [i for i, other in enumerate(y) if other == label]
        each = [high_posterior(leading_eigenvector(graph(z[index], u)).tolist()) for u in draws]
        for position, i in enumerate(index):
            clean[i] = sum(posterior[position] for posterior in each) / len(each)
    return clean


def partitioned(
    y: Sequence[int], ids: Sequence[int], clean: Sequence[float], capacity: int,
    uniforms: Sequence[Sequence[float]],
) -> list[int]:  # fmt: skip
    """The slot of each candidate, -1 for those that are discarded."""
    stored: dict[int, tuple[int, int, float]] = {}  # slot -> label, id, clean probability
    offered: dict[int, int] = {}
    slots = []
    for label, sample, p, (accept, group) in zip(y, ids, clean, uniforms, strict=True):
        offered[label] = offered.get(label, 0) + 1
        part = capacity / len(offered)
        if sample in [other for _, other, _ in stored.values()]:
            slots.append(-1)
            continue
        if len(stored) < capacity:
            slot = len(stored)
        elif accept < min(1.0, part / offered[label]):
            slot = _least_clean(stored, part, group)
        else:
            slots.append(-1)
            continue
        stored[slot] = (label, sample, p)
        slots.append(slot)
    return slots


def _least_clean(stored: dict[int, tuple[int, int, float]], part: float, uniform: float) -> int:
    labels = sorted({label for label, _, _ in stored.values()})
    counts = [sum(label == other for other, _, _ in stored.values()) for label in labels]
    weights = [math.exp(count - part) for count in counts]
    height, chosen = uniform * sum(weights), 0
    while height >= weights[chosen] and chosen < len(labels) - 1:
        height -= weights[chosen]
        chosen += 1
    slots = [slot for slot in sorted(stored) if stored[slot][0] == labels[chosen]]
    return min(slots, key=lambda slot: stored[slot][2])
