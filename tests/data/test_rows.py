import numpy as np
import pytest

from remnant.data.rows import Rows, row_tasks
from remnant.errors import RemnantError


def test_tasks_by_arrival_have_equally_many_training_samples() -> None:
    rows = Rows(test=np.array([0, 4, 9]), are_held_out=True)
    train, test = row_tasks(rows, np.array([1, 2, 3, 5, 6, 7, 8]), "arrival:3")
    assert train.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert test is not None
    assert test.tolist() == [0, 0, 2]  # row 4 is before row 5, the first of task 1


def test_samples_of_a_separate_test_split_have_no_time_of_arrival() -> None:
    rows = Rows(test=np.array([8, 9]), are_held_out=False)
    assert row_tasks(rows, np.arange(8), "arrival:2")[1] is None


def test_tasks_by_column_are_numbered_without_those_that_have_no_training_samples() -> None:
    rows = Rows(test=np.array([1, 3, 5]), are_held_out=False, task=np.array([0, 0, 2, 2, 3, 1]))
    train, test = row_tasks(rows, np.array([0, 2, 4]), "column")
    assert train.tolist() == [0, 1, 2]
    assert test is not None
    assert test.tolist() == [0, 1, -1]


def test_more_tasks_than_pairs_of_samples_are_an_error() -> None:
    rows = Rows(test=np.array([4]), are_held_out=True)
    with pytest.raises(RemnantError, match="expected at least 2 training samples per task, got 4 in all"):
        row_tasks(rows, np.arange(4), "arrival:3")
    with pytest.raises(RemnantError, match="tasks=column needs a table with a column `task`"):
        row_tasks(rows, np.arange(4), "column")
