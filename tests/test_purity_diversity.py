from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from remnant.memory import Memory
from remnant.predict import Embedding
from remnant.replacement import Candidates, PurityDiversity, purity_diversity
from remnant.replacement.purity_diversity import Class, choose, scores, standardised
from remnant.stream import Batch


def embedding_of(y: list[int], seed: int = 0, classes: int = 3, features: int = 6) -> Embedding:
    rng = torch.Generator().manual_seed(seed)
    return Embedding(
        torch.rand(len(y), features, generator=rng),
        torch.tensor(y),
        torch.rand(len(y), generator=rng, dtype=torch.float64) * 2,
        torch.randn(classes, features, generator=rng),
    )


def everyone(embedding: Embedding) -> Tensor:
    return torch.ones(len(embedding.y), dtype=torch.bool)


def test_the_score_by_hand() -> None:
    loss, alike = torch.tensor([0.1, 0.2, 2.0]), torch.tensor([0.9, 0.8, 0.1])
    even = scores(loss, alike, 0.5)
    assert even.tolist() == pytest.approx([0.0397, -0.0436, 0.0039], abs=5e-5)
    assert even.argmax() == 0  # one of many alike
    purity = scores(loss, alike, 0.1)
    assert purity.tolist() == pytest.approx([-0.603, -0.528, 1.131], abs=5e-4)
    assert purity.argmax() == 2  # a doubtful label


def test_equal_values_have_no_say() -> None:
    assert standardised(torch.tensor([2.0, 2.0, 2.0])).tolist() == [0, 0, 0]
    assert scores(torch.tensor([1.0]), torch.tensor([1.0]), 0.5).tolist() == [0]


def test_a_redundant_row_is_more_alike_than_a_lone_one() -> None:
    features = torch.tensor([[1.0, 0, 0], [1.0, 0.1, 0], [1.0, -0.1, 0], [0, 0, 1.0]])
    embedding = Embedding(
        features, torch.zeros(4, dtype=torch.long), torch.ones(4).double(),
        torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]),
    )  # fmt: skip
    group = Class.of(embedding, everyone(embedding), 0)
    alike = group.unit @ group.total / len(group)
    assert alike[3] == alike.min()
    assert alike[0] > 2 * alike[3]
    assert group.drop(1.0) == 0  # in the middle of the three


def test_only_features_that_speak_for_the_class_count() -> None:
    embedding = embedding_of([0, 0, 0, 1, 2])
    own = embedding.weight[0] > embedding.weight.mean(0)
    blind = embedding.features.clone()
    blind[:, ~own] = 100.0
    a = Class.of(embedding, everyone(embedding), 0)
    b = Class.of(embedding._replace(features=blind), everyone(embedding), 0)
    assert torch.equal(a.unit, b.unit)


def literal(embedding: Embedding, present: list[int], alpha: float, ties: list[float]) -> list[int]:
    """The update as it is printed: all similarities anew for each row that leaves."""
    present, leaving = list(present), []
    weight, y = embedding.weight.numpy(), embedding.y.tolist()
    for tie in ties:
        counts = {c: sum(y[i] == c for i in present) for c in sorted({y[i] for i in present})}
        largest = [c for c in counts if counts[c] == max(counts.values())]
        label = largest[int(tie * len(largest))]
        rows = [i for i in present if y[i] == label]
        dims = [d for d in range(weight.shape[1]) if weight[label, d] > weight[:, d].mean()]
        alike = []
        for i in rows:
            a = embedding.features[i].double().numpy()[dims]
            cosines = []
            for j in rows:
                b = embedding.features[j].double().numpy()[dims]
                norm = np.linalg.norm(a) * np.linalg.norm(b)
                cosines.append(float(a @ b / norm) if norm else 0.0)
            alike.append(sum(cosines) / len(rows))
        loss = [float(embedding.loss[i]) for i in rows]
        score = [(1 - alpha) * u + alpha * v for u, v in zip(z(loss), z(alike), strict=True)]
        leaving.append(rows[score.index(max(score))])
        present.remove(leaving[-1])
    return leaving


def z(values: list[float]) -> list[float]:
    mean, spread = np.mean(values), np.std(values)
    return [(v - mean) / spread if spread > 1e-12 else 0.0 for v in values]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0, 1))
def test_the_updated_similarity_is_the_recomputed_one(seed: int, drops: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=20).tolist()
    embedding, ties = embedding_of(y, seed), rng.random(drops).tolist()
    assert choose(embedding, everyone(embedding), alpha, ties) == literal(
        embedding, list(range(20)), alpha, ties
    )


def offered(memory: Memory, ids: list[int], y: list[int], seed: int = 0) -> Candidates:
    labels = memory.rows().y.tolist() + y
    unknown = torch.full((len(ids),), torch.nan, dtype=torch.float64)
    embedding = embedding_of(labels, seed)
    return Candidates(
        torch.arange(len(ids)), torch.tensor(y), torch.tensor(ids), unknown, lambda: embedding
    )


def no_losses(slots: Tensor) -> Tensor:
    raise AssertionError("all losses come with the features")


def update(memory: Memory, ids: list[int], y: list[int], seed: int = 0) -> Tensor:
    offer = offered(memory, ids, y, seed)
    uniforms = torch.rand(len(ids), 3, generator=torch.Generator().manual_seed(seed))
    slots = PurityDiversity()(memory, lambda: offer, no_losses, 0, uniforms)
    batch = Batch(torch.zeros(len(ids), 1, dtype=torch.uint8), torch.tensor(y), torch.tensor(ids))
    memory.put(slots, batch, 0, offer.loss, torch.empty(len(ids), 0))
    return slots


def test_what_fits_is_appended() -> None:
    memory = Memory(6, (1,))
    assert update(memory, [10, 11, 12], [0, 1, 1]).tolist() == [0, 1, 2]
    assert update(memory, [13, 14], [0, 1]).tolist() == [3, 4]


@pytest.mark.parametrize("seed", range(20))
def test_the_memory_stays_exactly_full_and_balanced(seed: int) -> None:
    rng, memory = np.random.default_rng(seed), Memory(9, (1,))
    for step in range(12):
        ids = list(range(10 * step, 10 * step + 6))
        update(memory, ids, [*rng.permutation(3), *rng.permutation(3)], seed + step)
        assert len(memory) == min(9, 6 * (step + 1))
        assert len(set(memory.rows().id.tolist())) == len(memory)
    counts = torch.bincount(memory.rows().y, minlength=3)
    assert counts.max() - counts.min() <= 1


def test_a_row_that_is_stored_is_not_offered_again() -> None:
    memory = Memory(4, (1,))
    update(memory, [0, 1, 2, 3], [0, 0, 1, 1])
    before = memory.rows().id.tolist()
    assert update(memory, [0, 1, 2, 3], [0, 0, 1, 1]).tolist() == [-1] * 4
    assert memory.rows().id.tolist() == before


@pytest.mark.parametrize(("level", "expected"), [(0.5, 0.4), (4.0, 0.1)])
def test_diversity_counts_less_while_the_loss_of_the_candidates_is_high(
    level: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(3, (1,))
    update(memory, [0, 1, 2], [0, 0, 0])
    offer = offered(memory, [7, 8], [0, 0])
    loss = torch.tensor([9.0, 9.0, 9.0, level - 0.2, level + 0.2], dtype=torch.float64)
    changed = replace(offer, embed=lambda: offer.embed()._replace(loss=loss))
    seen = []

    def watch(embedding: Embedding, present: Tensor, alpha: float, ties: list[float]) -> list[int]:
        seen.append(alpha)
        return choose(embedding, present, alpha, ties)

    monkeypatch.setattr(purity_diversity, "choose", watch)
    PurityDiversity(0.4)(memory, lambda: changed, no_losses, 0, torch.rand(2, 3))
    assert seen == [pytest.approx(expected)]
