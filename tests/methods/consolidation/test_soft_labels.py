import math

import numpy as np
import pytest
import reference_consolidation as reference
import torch
from hypothesis import given, strategies as st

from remnant.methods.consolidation.soft_labels import (
    refine,
    sharpen,
    soft_cross_entropy,
    squared_error,
    uniformity,
)


def test_sharpening_matches_hand_computed_values() -> None:
    three = sharpen(torch.tensor([[0.5, 0.3, 0.2]]), 0.5)
    assert three[0].tolist() == pytest.approx([0.6579, 0.2368, 0.1053], abs=5e-5)
    two = sharpen(torch.tensor([[0.2, 0.8]]), 0.5)
    assert two[0].tolist() == pytest.approx([0.0588, 0.9412], abs=5e-5)


def test_sharpening_one_hot_predictions_stays_finite() -> None:
    p = torch.tensor([[1.0, 0.0, 0.0], [1e-30, 1e-30, 1.0]])
    assert torch.allclose(sharpen(p, 0.1), torch.tensor([[1.0, 0, 0], [0, 0, 1]]))


def test_refining_matches_hand_computed_values() -> None:
    clean, onehot = torch.tensor([0.25]), torch.tensor([[1.0, 0.0]])
    assert refine(clean, onehot, torch.tensor([[0.2, 0.8]]))[0].tolist() == pytest.approx([0.4, 0.6])
    sharp = sharpen(torch.tensor([[0.2, 0.8]]), 0.5)
    found = refine(clean, onehot, sharp)[0].tolist()
    assert found == pytest.approx([0.2941, 0.7059], abs=5e-5)
    assert sum(found) == pytest.approx(1)


def test_soft_losses_match_hand_computed_values() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)]], dtype=torch.float64)  # probabilities 1/4, 3/4
    target = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    expected = -0.5 * math.log(0.25) - 0.5 * math.log(0.75)
    assert float(soft_cross_entropy(logits, target)) == pytest.approx(expected)
    assert float(squared_error(logits, target)) == pytest.approx(0.0625)
    assert float(soft_cross_entropy(logits[:0], target[:0])) == 0
    assert float(squared_error(logits[:0], target[:0])) == 0


def test_uniformity_is_zero_only_for_a_uniform_mean_over_the_classes_seen() -> None:
    seen = torch.tensor([True, True, False])
    certain = torch.tensor([[50.0, 0.0, 0.0], [0.0, 50.0, 0.0]])  # one sample each: a uniform mean
    assert float(uniformity(certain, seen)) == pytest.approx(0, abs=1e-6)
    assert float(uniformity(certain[:1].repeat(2, 1), seen)) > 1
    # A uniform mean over all three classes has a third of the mass on the class that was not seen.
    assert float(uniformity(torch.zeros(2, 3), seen)) == pytest.approx(math.log(1.5), abs=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_uniformity_matches_the_reference(seed: int, samples: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(samples, 5, generator=rng, dtype=torch.float64)
    seen = torch.tensor([True, False, True, True, False])
    mean = np.mean([reference.softmax(z) for z in logits.numpy()], axis=0)
    expected = reference.uniform_penalty(mean.tolist(), seen.tolist())
    assert float(uniformity(logits, seen)) == pytest.approx(expected, abs=1e-12)
    assert uniformity(logits.float(), seen).dtype == torch.float32
