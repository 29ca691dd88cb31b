import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from remnant import metrics

MATRIX = [[90.0], [60.0, 80.0], [40.0, 70.0, 85.0]]


def test_final_average_accuracy_by_hand() -> None:
    assert metrics.final_average_accuracy(MATRIX) == 65


def test_final_forgetting_by_hand() -> None:
    assert metrics.final_forgetting(MATRIX) == 30


def test_average_incremental_accuracy_by_hand() -> None:
    assert metrics.average_incremental_accuracy(MATRIX) == 75


def test_backward_transfer_by_hand() -> None:
    assert metrics.backward_transfer(MATRIX) == -30


def test_forgetting_is_negative_when_the_last_row_is_the_best() -> None:
    assert metrics.final_forgetting([[50.0], [60.0, 80.0], [70.0, 90.0, 85.0]]) == -10


def test_forgetting_takes_the_best_row_before_the_last() -> None:
    # Task 0 was best after task 1: 95 - 40.
    assert metrics.final_forgetting([[90.0], [95.0, 80.0], [40.0, 80.0, 1.0]]) == 27.5


def test_joint_training_forgets_nothing() -> None:
    assert metrics.final_forgetting([[50.0, 60.0, 70.0]]) == 0
    assert metrics.backward_transfer([[50.0, 60.0, 70.0]]) == 0


def test_tasks_count_alike_whatever_their_size() -> None:
    assert metrics.final_average_accuracy([[100.0, 0.0]]) == 50


def test_standard_error_by_hand() -> None:
    assert metrics.standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / math.sqrt(3))
    assert math.isnan(metrics.standard_error([1.0]))


def test_purity_of_a_clean_memory_is_100() -> None:
    assert metrics.purity(torch.ones(7, dtype=torch.bool)) == 100
    assert metrics.purity(torch.ones(0, dtype=torch.bool)) is None


def test_balance_is_one_when_classes_are_equal_and_zero_for_a_single_one() -> None:
    assert metrics.balance(torch.tensor([3, 3, 4, 4, 5, 5]), 3) == pytest.approx(1)
    assert metrics.balance(torch.tensor([3, 3, 3]), 3) == 0


def test_balance_falls_when_a_seen_class_is_missing() -> None:
    assert metrics.balance(torch.tensor([0, 0, 1, 1]), 4) == pytest.approx(0.5)


def test_auroc_by_hand() -> None:
    clean, noisy = torch.tensor([0.1, 0.2, 0.9]), torch.tensor([0.5, 1.5])
    assert metrics.auroc(clean, noisy) == pytest.approx(5 / 6)


def test_auroc_of_ties_is_a_half() -> None:
    assert metrics.auroc(torch.ones(3), torch.ones(4)) == 0.5


def test_auroc_of_one_empty_side_is_unknown() -> None:
    assert metrics.auroc(torch.ones(3), torch.ones(0)) is None
    assert metrics.auroc(torch.ones(0), torch.ones(3)) is None


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
)
def test_auroc_agrees_with_scikit_learn(clean: list[int], noisy: list[int]) -> None:
    expected = roc_auc_score([0] * len(clean) + [1] * len(noisy), clean + noisy)
    found = metrics.auroc(torch.tensor(clean).float(), torch.tensor(noisy).float())
    assert found == pytest.approx(expected)


def test_duplicates_are_counted_beyond_the_first() -> None:
    assert metrics.duplicates(torch.tensor([1, 2, 3])) == 0
    assert metrics.duplicates(torch.tensor([1, 1, 2, 2, 2])) == 3
