import math

import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.metrics import f1_score, roc_auc_score

from remnant.data.dataset import UNKNOWN
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


def test_forward_transfer_of_an_example() -> None:
    # Task 1: 12 before it is learned, 9 untrained; task 2: 5 and 10. The first task does not count.
    assert metrics.forward_transfer([12.0, 5.0], [99.0, 9.0, 10.0]) == -1
    assert metrics.forward_transfer([], [50.0]) is None
    assert metrics.forward_transfer([], []) is None


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


def test_distinct_purity_counts_a_sample_once() -> None:
    id, is_clean = torch.tensor([9, 9, 9, 2, 5]), torch.tensor([True, True, True, False, False])
    assert metrics.purity(is_clean) == 60
    assert metrics.purity_of_distinct(id, is_clean) == pytest.approx(100 / 3)
    assert metrics.purity_of_distinct(id[:0], is_clean[:0]) is None


def test_scaling_by_occurrence_changes_nothing_in_a_balanced_buffer() -> None:
    y, is_clean = torch.tensor([0, 0, 3, 3]), torch.tensor([True, False, True, True])
    purity, counts = metrics.purity_by(y, is_clean), metrics.class_counts(y)
    assert counts == {0: 2, 3: 2}
    assert metrics.scaled_by_occurrence(purity, counts, classes_seen=2) == purity
    # Two of four seen classes are missing: those that are stored take twice their share.
    assert metrics.scaled_by_occurrence(purity, counts, classes_seen=4) == {0: 100, 3: 200}


def test_the_scaled_purities_have_the_overall_purity_as_their_mean() -> None:
    y = torch.tensor([0, 0, 0, 1, 2, 2])
    is_clean = torch.tensor([True, False, True, True, False, True])
    scaled = metrics.scaled_by_occurrence(metrics.purity_by(y, is_clean), metrics.class_counts(y), 3)
    assert sum(scaled.values()) / 3 == pytest.approx(metrics.purity(is_clean))


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
        "f1": pytest.approx(200 / 3),
        "noisy_precision": 50,
        "noisy_recall": 50,
        "noisy_f1": 50,
    }
    nothing = metrics.detection(~is_trusted & is_trusted, is_clean)
    assert nothing["precision"] is None
    assert nothing["f1"] == 0  # there are clean labels, and none was found


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_f1_agrees_with_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    found, wanted = torch.tensor(pairs).unbind(1)
    measured = metrics.f1(found, wanted)
    if measured is None:
        assert not (found | wanted).any()
    else:
        assert measured == pytest.approx(100 * f1_score(wanted.numpy(), found.numpy()))


def test_mean_losses_of_an_example() -> None:
    loss, is_clean = torch.tensor([0.5, 2.0, 1.5, 6.0]), torch.tensor([True, False, True, False])
    assert metrics.mean_losses(loss, is_clean) == {"loss_clean": 1, "loss_noisy": 4}
    assert metrics.mean_losses(loss[:1], is_clean[:1]) == {"loss_clean": 0.5, "loss_noisy": None}


def test_a_noisy_sample_is_memorised_recovered_or_neither() -> None:
    observed, truth = torch.tensor([0, 1, 1, 1, 1]), torch.tensor([0, 0, 0, 0, 2])
    predicted = torch.tensor([0, 1, 0, 2, 2])  # clean, memorised, recovered, neither, recovered
    assert metrics.memorised(predicted, observed, truth) == 25
    assert metrics.recovered(predicted, observed, truth) == 50
    assert metrics.memorised(predicted[:1], observed[:1], truth[:1]) is None
    assert metrics.recovered(predicted[:1], observed[:1], truth[:1]) is None


def test_a_sample_of_unknown_class_can_be_memorised_but_not_recovered() -> None:
    observed, truth = torch.tensor([0, 1]), torch.tensor([UNKNOWN, UNKNOWN])
    assert metrics.memorised(torch.tensor([0, 0]), observed, truth) == 50
    assert metrics.recovered(torch.tensor([0, 0]), observed, truth) is None


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


def test_rows_of_an_accuracy_matrix_are_padded() -> None:
    assert metrics.padded([[1.0], [2.0, 3.0]], 3) == [[1.0, None, None], [2.0, 3.0, None]]


def test_precision_at_errors_looks_at_the_most_doubtful_labels() -> None:
    doubt, is_noisy = torch.tensor([0.1, 0.9, 0.5, 0.2]), torch.tensor([False, True, True, False])
    assert metrics.precision_at_errors(doubt, is_noisy) == 1.0
    assert metrics.precision_at_errors(-doubt, is_noisy) == 0.0
