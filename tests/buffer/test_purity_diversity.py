from dataclasses import replace

import numpy as np
import pytest
import torch
from buffer_helpers import choice_of, offer_of, samples
from hypothesis import given, settings, strategies as st
from torch import Tensor

from remnant.buffer import purity_diversity
from remnant.buffer.base import Candidates
from remnant.buffer.buffer import Buffer
from remnant.buffer.purity_diversity import ClassSamples, PurityDiversity, evict, scores, standardised
from remnant.engine.inference import Embedding


def embedding_of(y: list[int], seed: int = 0, classes: int = 3, features: int = 6) -> Embedding:
    rng = torch.Generator().manual_seed(seed)
    return Embedding(
        torch.rand(len(y), features, generator=rng),
        torch.tensor(y),
        torch.rand(len(y), generator=rng, dtype=torch.float64) * 2,
        torch.randn(classes, features, generator=rng),
    )


def all_present(embedding: Embedding) -> Tensor:
    return torch.ones(len(embedding.y), dtype=torch.bool)


def test_scores_are_those_computed_by_hand() -> None:
    loss, similarity = torch.tensor([0.1, 0.2, 2.0]), torch.tensor([0.9, 0.8, 0.1])
    even = scores(loss, similarity, 0.5)
    assert even.tolist() == pytest.approx([0.0397, -0.0436, 0.0039], abs=5e-5)
    assert even.argmax() == 0  # it resembles many others
    purity = scores(loss, similarity, 0.1)
    assert purity.tolist() == pytest.approx([-0.603, -0.528, 1.131], abs=5e-4)
    assert purity.argmax() == 2  # its loss is high


def test_equal_values_do_not_affect_the_score() -> None:
    assert standardised(torch.tensor([2.0, 2.0, 2.0])).tolist() == [0, 0, 0]
    assert scores(torch.tensor([1.0]), torch.tensor([1.0]), 0.5).tolist() == [0]


def test_a_redundant_sample_is_evicted_before_a_unique_one() -> None:
    features = torch.tensor([[1.0, 0, 0], [1.0, 0.1, 0], [1.0, -0.1, 0], [0, 0, 1.0]])
    weight = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    embedding = Embedding(features, torch.zeros(4, dtype=torch.long), torch.ones(4).double(), weight)
    group = ClassSamples.of(embedding, all_present(embedding), 0)
    similarity = group.unit @ group.total / len(group)
    assert similarity[3] == similarity.min()
    assert similarity[0] > 2 * similarity[3]
    assert group.drop(1.0) == 0  # in the middle of the three similar ones
    assert group.index.tolist() == [1, 2, 3]


def test_only_features_relevant_to_the_class_are_compared() -> None:
    embedding = embedding_of([0, 0, 0, 1, 2])
    own = embedding.weight[0] > embedding.weight.mean(0)
    changed = embedding.features.clone()
    changed[:, ~own] = 100.0
    a = ClassSamples.of(embedding, all_present(embedding), 0)
    b = ClassSamples.of(embedding._replace(features=changed), all_present(embedding), 0)
    assert torch.equal(a.unit, b.unit)


def test_a_feature_with_the_same_weight_in_all_classes_is_not_relevant() -> None:
    weight = torch.tensor([[1.0, 0.0], [1.0, 2.0]])
    embedding = Embedding(torch.tensor([[3.0, 4.0]]), torch.tensor([1]), torch.ones(1).double(), weight)
    assert ClassSamples.of(embedding, all_present(embedding), 1).unit.tolist() == [[1.0]]


def literal(embedding: Embedding, present: list[int], alpha: float, ties: list[float]) -> list[int]:
    """The update as printed in the paper: all similarities are recomputed for each evicted sample."""
    present, evicted = list(present), []
    weight, y = embedding.weight.numpy(), embedding.y.tolist()
    for tie in ties:
        counts = {c: sum(y[i] == c for i in present) for c in sorted({y[i] for i in present})}
        largest = [c for c in counts if counts[c] == max(counts.values())]
        label = largest[int(tie * len(largest))]
        group = [i for i in present if y[i] == label]
        dims = [d for d in range(weight.shape[1]) if weight[label, d] > weight[:, d].mean()]
        similarity = []
        for i in group:
            a = embedding.features[i].double().numpy()[dims]
            cosines = []
            for j in group:
                b = embedding.features[j].double().numpy()[dims]
                norm = np.linalg.norm(a) * np.linalg.norm(b)
                cosines.append(float(a @ b / norm) if norm else 0.0)
            similarity.append(sum(cosines) / len(group))
        loss = [float(embedding.loss[i]) for i in group]
        score = [(1 - alpha) * u + alpha * v for u, v in zip(z(loss), z(similarity), strict=True)]
        evicted.append(group[score.index(max(score))])
        present.remove(evicted[-1])
    return evicted


def z(values: list[float]) -> list[float]:
    mean, spread = np.mean(values), np.std(values)
    return [(v - mean) / spread if spread > 1e-12 else 0.0 for v in values]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0, 1))
def test_the_same_samples_are_evicted_as_with_recomputed_similarities(
    seed: int, evictions: int, alpha: float
) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=20).tolist()
    embedding, ties = embedding_of(y, seed), rng.random(evictions).tolist()
    found = evict(embedding, all_present(embedding), alpha, ties)
    assert found == literal(embedding, list(range(20)), alpha, ties)


def offered(buffer: Buffer, ids: list[int], y: list[int], seed: int = 0) -> Candidates:
    embedding = embedding_of(buffer.samples().y.tolist() + y, seed)
    return offer_of(ids, [torch.nan] * len(ids), y, lambda: embedding)()


def update(buffer: Buffer, ids: list[int], y: list[int], seed: int = 0) -> Tensor:
    """Offer candidates to the buffer; losses come with the features, so none is asked for."""
    offer = offered(buffer, ids, y, seed)
    uniforms = torch.rand(len(ids), 3, generator=torch.Generator().manual_seed(seed))
    slots = PurityDiversity()(choice_of(buffer, uniforms, lambda: offer))
    buffer.put(slots, samples(ids, y), 0)
    return slots


def test_candidates_that_fit_are_appended() -> None:
    buffer = Buffer(6, (1,))
    assert update(buffer, [10, 11, 12], [0, 1, 1]).tolist() == [0, 1, 2]
    assert update(buffer, [13, 14], [0, 1]).tolist() == [3, 4]


def test_the_buffer_stays_full_and_balanced_without_duplicates() -> None:
    for seed in range(5):
        rng, buffer = np.random.default_rng(seed), Buffer(9, (1,))
        for step in range(12):
            ids = list(range(10 * step, 10 * step + 6))
            update(buffer, ids, [*rng.permutation(3), *rng.permutation(3)], seed + step)
            assert len(buffer) == min(9, 6 * (step + 1))
            assert len(set(buffer.samples().id.tolist())) == len(buffer)
        counts = torch.bincount(buffer.samples().y, minlength=3)
        assert counts.max() - counts.min() <= 1


def test_a_sample_that_is_stored_already_is_discarded() -> None:
    buffer = Buffer(4, (1,))
    update(buffer, [0, 1, 2, 3], [0, 0, 1, 1])
    before = buffer.samples().id.tolist()
    assert update(buffer, [0, 1, 2, 3], [0, 0, 1, 1]).tolist() == [-1] * 4
    assert buffer.samples().id.tolist() == before


@pytest.mark.parametrize(("level", "expected"), [(0.5, 0.4), (4.0, 0.1)])
def test_similarity_has_less_weight_while_the_loss_of_the_candidates_is_high(
    level: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = Buffer(3, (1,))
    update(buffer, [0, 1, 2], [0, 0, 0])
    offer = offered(buffer, [7, 8], [0, 0])
    loss = torch.tensor([9.0, 9.0, 9.0, level - 0.2, level + 0.2], dtype=torch.float64)
    changed = replace(offer, embed=lambda: offer.embed()._replace(loss=loss))
    found = []

    def record(embedding: Embedding, present: Tensor, alpha: float, ties: list[float]) -> list[int]:
        found.append(alpha)
        return evict(embedding, present, alpha, ties)

    monkeypatch.setattr(purity_diversity, "evict", record)
    PurityDiversity(0.4)(choice_of(buffer, torch.rand(2, 3), lambda: changed))
    assert found == [pytest.approx(expected)]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, torch.nan])
def test_alpha_must_be_a_weight(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"weight in \[0, 1\]"):
        PurityDiversity(alpha)
