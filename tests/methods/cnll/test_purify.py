import math

import numpy as np
import pytest
import reference_cnll as reference
import torch
from hypothesis import given, strategies as st
from torch import nn

from remnant.methods.cnll.purify import disagreement, divergence, split


def distributions(samples: int, classes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), samples)


def test_divergence_matches_hand_computed_values() -> None:
    e1, e2 = torch.eye(2, dtype=torch.float64)[:, None]
    assert divergence(e1, e1).item() == 0
    assert divergence(e1, e2).item() == pytest.approx(math.log(2), abs=1e-15)
    # Half of 0.75 log(0.75 / 0.875) + 0.25 log(0.25 / 0.125) and of log(1 / 0.875).
    assert divergence(torch.tensor([[0.75, 0.25]]), e1).item() == pytest.approx(0.095602, abs=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_divergence_is_symmetric_and_matches_the_reference(seed: int, classes: int) -> None:
    p, q = distributions(4, classes, seed), distributions(4, classes, seed + 1)
    expected = [reference.jensen_shannon(a, b) for a, b in zip(p, q, strict=True)]
    found = divergence(torch.from_numpy(p), torch.from_numpy(q))
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    assert torch.equal(found, divergence(torch.from_numpy(q), torch.from_numpy(p)))


@given(st.integers(0, 10**6), st.booleans())
def test_disagreement_and_split_match_the_reference(seed: int, hardened: bool) -> None:
    rng = np.random.default_rng(seed)
    classes, count = sorted(rng.permutation(6)[: rng.integers(1, 7)].tolist()), int(rng.integers(1, 40))
    logits, y = rng.normal(size=(count, 6)) * 3, rng.choice(classes, count)
    found = disagreement(torch.from_numpy(logits), torch.from_numpy(y), torch.tensor(classes), hardened)
    expected = reference.disagreements(logits, y.tolist(), classes, hardened)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    if len(set(found.tolist())) > 1 or found[0] == 0:  # the mean of equal values may be rounded
        clean, noisy = split(found)
        assert (clean.tolist(), noisy.tolist()) == reference.split(found.tolist())


@pytest.mark.parametrize(("agreeing", "samples"), [(30, 50), (29, 50), (1, 7), (6, 7), (299, 500)])
def test_with_hardened_predictions_exactly_the_agreeing_labels_are_clean(agreeing: int, samples: int) -> None:
    y = torch.arange(samples) % 2
    agrees = torch.randperm(samples, generator=torch.Generator().manual_seed(samples)) < agreeing
    logits = torch.randn(samples, 4) + 20 * nn.functional.one_hot(torch.where(agrees, y, 1 - y) + 1, 4)
    logits[:, 3] = 99  # a class of another task, which is ignored
    clean, noisy = split(disagreement(logits, y + 1, torch.tensor([1, 2]), hardened=True))
    assert clean.tolist() == agrees.nonzero().flatten().tolist()  # ties in order of arrival
    assert sorted(clean.tolist() + noisy.tolist()) == list(range(samples))


def test_an_uncertain_prediction_makes_an_agreeing_label_noisy() -> None:
    p = torch.tensor([0.99, 0.97, 0.55, 0.02, 0.98])  # of the observed label, of two classes
    logits = torch.stack([p, 1 - p], 1).log()
    clean, noisy = split(disagreement(logits, torch.zeros(5, dtype=int), torch.tensor([0, 1]), False))
    # Divergences .003 .010 .189 .644 .007 with mean .171: the third one agrees, but not enough.
    assert clean.tolist() == [0, 4, 1]
    assert noisy.tolist() == [3, 2]


@pytest.mark.parametrize("samples", [1, 2, 50, 500])
def test_equal_disagreements_are_all_clean_if_they_are_zero_and_all_noisy_otherwise(
    samples: int,
) -> None:
    assert len(split(torch.zeros(samples, dtype=torch.float64)).clean) == samples
    assert len(split(torch.full((samples,), math.log(2), dtype=torch.float64)).clean) == 0
    assert len(split(torch.full((samples,), 0.1, dtype=torch.float64)).noisy) == samples


def test_a_single_class_has_no_disagreement() -> None:
    found = disagreement(torch.randn(5, 3), torch.full((5,), 1), torch.tensor([1]), hardened=False)
    assert found.tolist() == [0] * 5
