"""Tasks that follow from the rows of a table: from a column of it, or from the order of its rows.

N training samples, T test samples.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remnant.errors import RemnantError

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that the samples of a dataset come from, in their order of arrival."""

    test: Numbers  # (T,) row of each test sample; that of a training sample is its published position
    are_held_out: bool  # whether test samples were drawn from rows between those of training samples
    task: Numbers | None = None  # (rows,) task of each row, from a column of the table


def row_tasks(rows: Rows, train: Numbers, tasks: str) -> tuple[Numbers, Numbers | None]:
    """Return the task of each training sample, and of each test sample unless these have no order.

    `train` are the rows of the training samples, ascending. `tasks` is "column" or "arrival:N", which
    makes N tasks of equally many training samples.

    >>> rows = Rows(test=np.array([1, 5]), are_held_out=True)
    >>> row_tasks(rows, np.array([0, 2, 3, 4]), "arrival:2")
    (array([0, 0, 1, 1]), array([0, 1]))
    """
    if tasks == "column":
        if rows.task is None:
            raise RemnantError(no_rows(tasks, "this one"))
        return _from_zero(rows.task[train], rows.task[rows.test])
    count = int(tasks.partition(":")[2])
    if 2 * count > len(train):
        raise RemnantError(
            f"tasks={tasks}: expected at least 2 training samples per task, got {len(train)} in all. Use "
            "fewer tasks."
        )
    number = np.arange(len(train)) * count // len(train)
    if not rows.are_held_out:
        return number, None
    starts = train[np.searchsorted(number, np.arange(1, count))]  # first row of each task but the first
    return number, np.searchsorted(starts, rows.test, side="right")


def _from_zero(train: Numbers, test: Numbers) -> tuple[Numbers, Numbers]:
    """Number the tasks that have training samples from 0; others, which have only test samples, get -1."""
    found = np.unique(train)
    place = np.minimum(np.searchsorted(found, test), len(found) - 1)
    return np.searchsorted(found, train), np.where(found[place] == test, place, -1)


def no_rows(tasks: str, name: str) -> str:
    """Return the error message for a dataset that has no column of tasks, or no order of arrival."""
    needs = "a table with a column `task`" if tasks == "column" else "a table, whose rows have an order"
    return f"tasks={tasks} needs {needs}, and {name} has none. Set the number of tasks, such as tasks=2."
