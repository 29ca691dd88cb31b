import math

import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.metrics import roc_auc_score

from remnant.experiment import metrics

MATRIX = [[90.0], [60.0, 80.0], [40.0, 70.0, 85.0]]


def test_final_average_accuracy_of_an_example() -> None:
    assert metrics.final_average_accuracy(MATRIX) == 65


def test_final_forgetting_of_an_example() -> None:
    assert metrics.final_forgetting(MATRIX) == 30


def test_average_incremental_accuracy_of_an_example() -> None:
    assert metrics.average_incremental_accuracy(MATRIX) == 75


def test_backward_transfer_of_an_example() -> None:
    assert metrics.backward_transfer(MATRIX) == -30


def test_forgetting_is_negative_when_the_last_row_is_the_best() -> None:
    assert metrics.final_forgetting([[50.0], [60.0, 80.0], [70.0, 90.0, 85.0]]) == -10


def test_forgetting_uses_the_best_row_before_the_last() -> None:
    # Task 0 was best after task 1: 95 - 40.
    assert metrics.final_forgetting([[90.0], [95.0, 80.0], [40.0, 80.0, 1.0]]) == 27.5


def test_joint_training_has_no_forgetting() -> None:
    assert metrics.final_forgetting([[50.0, 60.0, 70.0]]) == 0
    assert metrics.backward_transfer([[50.0, 60.0, 70.0]]) == 0


def test_every_task_has_the_same_weight_in_the_average() -> None:
    assert metrics.final_average_accuracy([[100.0, 0.0]]) == 50


def test_standard_error_of_an_example() -> None:
    assert metrics.standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / math.sqrt(3))
    assert math.isnan(metrics.standard_error([1.0]))


def test_purity_of_a_clean_buffer_is_100_and_of_an_empty_one_unknown() -> None:
    assert metrics.purity(torch.ones(7, dtype=torch.bool)) == 100
    assert metrics.purity(torch.ones(0, dtype=torch.bool)) is None


def test_purity_by_group_is_that_of_the_samples_of_each_group() -> None:
    group, is_clean = torch.tensor([3, 1, 3, 1, 1]), torch.tensor([True, False, True, True, False])
    assert metrics.purity_by(group, is_clean) == {1: pytest.approx(100 / 3), 3: 100}


def test_balance_is_one_when_classes_are_equal_and_zero_for_a_single_one() -> None:
    assert metrics.balance(torch.tensor([3, 3, 4, 4, 5, 5]), 3) == pytest.approx(1)
    assert metrics.balance(torch.tensor([3, 3, 3]), 3) == 0
    assert metrics.balance(torch.tensor([], dtype=torch.long), 3) is None


def test_balance_is_lower_when_a_seen_class_is_missing() -> None:
    assert metrics.balance(torch.tensor([0, 0, 1, 1]), 4) == pytest.approx(0.5)


def test_detection_of_an_example() -> None:
    is_trusted = torch.tensor([True, True, True, False, False])
    is_clean = torch.tensor([True, True, False, True, False])
    assert metrics.detection(is_trusted, is_clean) == {
        "precision": pytest.approx(200 / 3),
        "recall": pytest.approx(200 / 3),
        "noisy_precision": 50,
        "noisy_recall": 50,
    }
    assert metrics.detection(~is_trusted & is_trusted, is_clean)["precision"] is None


def test_auroc_of_an_example() -> None:
    clean, noisy = torch.tensor([0.1, 0.2, 0.9]), torch.tensor([0.5, 1.5])
    assert metrics.auroc(clean, noisy) == pytest.approx(5 / 6)


def test_auroc_of_ties_is_a_half() -> None:
    assert metrics.auroc(torch.ones(3), torch.ones(4)) == 0.5


def test_auroc_is_unknown_if_there_are_only_clean_or_only_noisy_samples() -> None:
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
