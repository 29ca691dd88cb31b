import itertools

import numpy as np
import reference_consolidation as reference
import torch
from hypothesis import given, strategies as st

from remnant.methods.consolidation.division import NO_TRUSTED_LABEL, Division, paired_batches


def test_a_division_without_trusted_labels_falls_back_to_all_labels() -> None:
    low, one_high = torch.full((5,), 0.2), torch.tensor([0.9, 0.1, 0.1, 0.1, 0.1])
    assert Division.from_posteriors([low, one_high]).fallback == (NO_TRUSTED_LABEL, "")
    assert Division.from_posteriors(["too few"]).fallback == ("too few",)


def test_a_network_without_a_posterior_trusts_all_labels() -> None:
    division = Division.from_posteriors(["too few", torch.tensor([0.9, 0.1])])
    assert division.fallback == ("too few", "")
    assert division.clean.dtype == torch.float64
    assert division.clean[0].tolist() == [1, 1]
    assert division.relabel is None


@given(st.integers(1, 60), st.lists(st.integers(0, 200), min_size=1, max_size=2), st.integers(3, 20))
def test_paired_batches_match_the_reference(first: int, others: list[int], size: int) -> None:
    edges = np.cumsum([0, first, *others])
    groups = [torch.arange(a, b) for a, b in itertools.pairwise(edges)]
    found = [batch.tolist() for batch in paired_batches(groups, size)]
    assert found == reference.batches_of_groups([group.tolist() for group in groups], size)
