"""The stream of tasks, split from a dataset by class or by time of arrival. Learners never get true labels.

A learner receives a `Task`: inputs, observed labels and ids. True labels and test splits stay in the
`Stream` and are used by the metrics only. N training samples; C classes, numbered in order of arrival.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from remnant.data.dataset import UNKNOWN, Dataset, InMemory, Labels, Source, Spec, fingerprint
from remnant.data.rows import no_rows, row_tasks
from remnant.errors import RemnantError, unmet


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples of the stream or of a buffer."""

    x: Tensor  # (B, *shape) raw inputs, on the device
    y: Tensor  # (B,) observed labels, on the device
    id: Tensor  # (B,) positions in the training set, on the CPU

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor) -> "Batch":
        return Batch(self.x[index], self.y[index], self.id[index])


@dataclass(frozen=True, eq=False)
class Task:
    """Samples that arrive together: those of some classes, or those of some rows of a table."""

    number: int
    classes: tuple[int, ...]  # observed labels; tasks by time of arrival may have classes in common
    id: Tensor  # (n,) positions in the training set
    y: Tensor  # (n,) observed labels
    source: Source
    device: torch.device = torch.device("cpu")  # of the samples that are taken

    def __len__(self) -> int:
        return len(self.id)

    def take(self, index: Tensor) -> Batch:
        """Return the samples at these positions of the task, on its device."""
        id = self.id[index]
        return Batch(self.source.take(id).to(self.device), self.y[index].to(self.device), id)


@dataclass(frozen=True, eq=False)
class TestSplit:
    """The samples on which the accuracy of a task is measured."""

    classes: tuple[int, ...]
    id: Tensor  # (n,) positions in the source
    y: Tensor  # (n,) true labels, or observed labels of a validation split
    source: Source


@dataclass(frozen=True, eq=False)
class Stream:
    """Tasks for the learner, with true labels and test splits for the metrics."""

    spec: Spec  # its class names are in the order of arrival
    tasks: tuple[Task, ...]
    tests: tuple[TestSplit, ...]
    truth: Tensor | None  # (N,) true labels, if known; UNKNOWN is not equal to any class
    observed: Tensor  # (N,) observed labels
    index: Tensor  # (N,) positions in the published dataset
    fingerprint: str  # digest of all inputs and labels
    skipped: Mapping[str, str] = field(default_factory=dict)  # file that is left out -> reason
    notes: tuple[str, ...] = ()  # what a user should know of the samples
    files: tuple[str, ...] = ()  # (N,) file of each training sample; empty if they have none
    tested_on: str = "test split"  # which samples, and which labels if these may be noisy

    @property
    def noise_rate(self) -> float | None:
        """Return the fraction of noisy labels among the training samples; None if it is unknown."""
        if self.truth is None:
            return None
        samples = torch.cat([task.id for task in self.tasks])
        return float((self.truth[samples] != self.observed[samples]).double().mean())

    def classes_seen(self, task: int) -> int:
        """Return the number of classes in the tasks up to this one."""
        return len({label for t in self.tasks[: task + 1] for label in t.classes})

    def on(self, device: torch.device) -> "Stream":
        """Return the stream with training samples on a device; memory-mapped ones are moved when taken."""
        source = self.tasks[0].source  # all tasks have the same one
        source = InMemory(source.x.to(device)) if isinstance(source, InMemory) else source
        return replace(self, tasks=tuple(replace(t, source=source, device=device) for t in self.tasks))

    def joint(self) -> "Stream":
        """Return the same samples as a single task, for joint training."""
        together = replace(
            self.tasks[0],
            classes=tuple(range(len(self.spec.classes))),
            id=torch.cat([task.id for task in self.tasks]),
            y=torch.cat([task.y for task in self.tasks]),
        )
        return replace(self, tasks=(together,))


def class_order(kind: str | Sequence[int], spec: Spec, rng: np.random.Generator) -> list[int]:
    """Return the order in which classes arrive: native, superclass, random, or a given list."""
    classes = list(range(len(spec.classes)))
    if kind == "native":
        return classes
    if kind == "random":
        return [int(c) for c in rng.permutation(classes)]
    if kind == "superclass":
        if not spec.superclass:
            raise RemnantError(
                f"the class order 'superclass' needs superclasses, but {spec.name} has none. "
                "Use 'native', 'random' or a list of class numbers."
            )
        return sorted(classes, key=lambda c: (spec.superclass[c], c))
    if isinstance(kind, str):
        raise RemnantError(f"expected native, superclass, random or a list of class numbers, got {kind!r}.")
    order = [int(c) for c in kind]
    if sorted(order) != classes:
        raise RemnantError(f"expected each of the classes 0 to {len(classes) - 1} once, got {order}.")
    return order


def split_evenly(classes: int, tasks: int) -> list[int]:
    """Return the number of classes in each task.

    >>> split_evenly(10, 5)
    [2, 2, 2, 2, 2]
    """
    if not 1 <= tasks <= classes:
        raise RemnantError(
            f"expected 1 to {classes} tasks, because each needs a class and there are {classes}, got {tasks}."
        )
    size, larger = divmod(classes, tasks)
    if larger:
        sizes = [size] * (tasks - larger) + [size + 1] * larger
        raise RemnantError(
            f"{classes} classes cannot be split evenly into {tasks} tasks. Give the number of "
            f"classes of each task: split=[{','.join(map(str, sizes))}]"
        )
    return [size] * tasks


def make_stream(
    data: Dataset,
    observed: Labels,
    order: Sequence[int],
    sizes: Sequence[int],
    validation: float,
    rng: np.random.Generator,
) -> Stream:
    """Split training samples by observed label and test samples by true label into tasks.

    `order` lists all classes in their order of arrival, and `sizes` the number of classes of each task. If
    `validation` > 0, this fraction of each observed class, with these labels, replaces the test split.
    """
    order = class_order(order, data.spec, rng)
    _check_split(observed, sizes, validation, data)
    number = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(order)]  # class -> its task
    groups = _Groups(len(sizes), number[observed], number[data.test_y], tuple(sizes))
    return _make_stream(data, observed, order, groups, validation, rng)


def make_row_stream(
    data: Dataset,
    observed: Labels,
    tasks: str,
    validation: float,
    rng: np.random.Generator,
) -> Stream:
    """Split samples into tasks by the rows of a table: by its column `task`, or in their order.

    `tasks` is "column" or "arrival:N", which makes N tasks of equally many training samples. Classes may
    occur in several tasks, and are numbered in the order of their first task. Test samples that were held
    out belong to the task of the rows around them; those of a separate test split have tasks of their own
    if there is a column, and are otherwise used for every task that has their class.
    """
    if data.rows is None:
        raise RemnantError(no_rows(tasks, data.spec.name))
    train, test = row_tasks(data.rows, data.index, tasks)
    last = int(train.max()) + 1
    first = [min(train[observed == c], default=last) for c in range(len(data.spec.classes))]
    order = sorted(range(len(first)), key=lambda c: (first[c], c))
    return _make_stream(data, observed, order, _Groups(last, train, test), validation, rng)


@dataclass(frozen=True, eq=False)
class _Groups:
    """The assignment of samples to tasks."""

    count: int
    train: Labels  # (N,) task of each training sample
    test: Labels | None  # (T,) task of each test sample; None: all tasks that have its class
    sizes: tuple[int, ...] = ()  # number of classes of each task; empty: the classes of its samples


def _make_stream(
    data: Dataset,
    observed: Labels,
    order: Sequence[int],
    groups: _Groups,
    validation: float,
    rng: np.random.Generator,
) -> Stream:
    _check_labels(observed, data.spec)
    arrival = np.argsort(order)  # class -> its position in the order of arrival
    truth = None
    if data.truth is not None:
        truth = torch.from_numpy(np.where(data.truth == UNKNOWN, UNKNOWN, arrival[data.truth]))
    y, task_of = torch.from_numpy(arrival[observed]), torch.from_numpy(groups.train)
    is_held_out = _held_out(y, validation, rng)
    test, test_y, is_tested = data.test, torch.from_numpy(arrival[data.test_y]), torch.tensor(True)
    test_task = None if groups.test is None else torch.from_numpy(groups.test)
    if validation:
        test, test_y, test_task, is_tested = data.train, y, task_of, is_held_out
    tasks, tests = [], []
    ends = np.cumsum(groups.sizes)
    for number in range(groups.count):
        index = torch.nonzero((task_of == number) & ~is_held_out).flatten()
        classes = tuple(sorted(set(y[index].tolist())))
        if groups.sizes:
            classes = tuple(range(ends[number] - groups.sizes[number], ends[number]))
        tasks.append(Task(number, classes, index, y[index], data.train))
        _check_task(tasks[-1], data.spec, order)
        is_own = torch.isin(test_y, torch.tensor(classes)) if test_task is None else test_task == number
        index = torch.nonzero(is_own & is_tested).flatten()
        tested = classes if groups.sizes else tuple(sorted({*classes, *test_y[index].tolist()}))
        tests.append(TestSplit(tested, index, test_y[index], test))
        _check_test_split(tests[-1], tasks[-1], data.spec, order, validation)
    return Stream(
        spec=replace(data.spec, classes=tuple(data.spec.classes[c] for c in order)),
        tasks=tuple(tasks),
        tests=tuple(tests),
        truth=truth,
        observed=y,
        index=torch.from_numpy(data.index),
        fingerprint=fingerprint(data, y),
        skipped=data.skipped,
        notes=data.notes,
        files=data.files,
        tested_on=data.tested_on,
    )


def _check_split(observed: Labels, sizes: Sequence[int], validation: float, data: Dataset) -> None:
    samples, classes, smallest = len(data.index), len(data.spec.classes), min(sizes, default=0)
    expected = {
        f"an observed label for each of the {samples} samples": len(observed) == samples,
        f"sizes of 1 or more that add up to {classes}": smallest > 0 and sum(sizes) == classes,
        "a validation fraction in [0, 1)": 0 <= validation < 1,
    }
    if wrong := unmet(expected):
        found = f"{len(observed)} labels, sizes {list(sizes)}, validation {validation}"
        raise RemnantError(f"{data.spec.name}: expected {' and '.join(wrong)}, got {found}.")


def _check_labels(observed: Labels, spec: Spec) -> None:
    if (observed == UNKNOWN).any():
        raise RemnantError(
            f"expected an observed label for each sample of {spec.name}, got samples without one, because "
            "their true class is unknown. Use the labels provided with the dataset: noise=given."
        )


def _held_out(y: Tensor, fraction: float, rng: np.random.Generator) -> Tensor:
    is_chosen = torch.zeros(len(y), dtype=torch.bool)
    for label in y.unique().tolist() if fraction else []:
        index = rng.permutation(torch.nonzero(y == label).flatten().numpy())
        is_chosen[torch.from_numpy(index[: round(fraction * len(index))])] = True
    return is_chosen


def _names(task: Task, spec: Spec, order: Sequence[int]) -> str:
    return ", ".join(spec.classes[order[c]] for c in task.classes)


def _check_task(task: Task, spec: Spec, order: Sequence[int]) -> None:
    if len(task) < 2:
        raise RemnantError(
            f"task {task.number + 1} ({_names(task, spec, order)}): expected at least 2 training samples, "
            f"got {len(task)}. Use more samples per class, another class order, or larger tasks."
        )


def _check_test_split(
    test: TestSplit, task: Task, spec: Spec, order: Sequence[int], validation: float
) -> None:
    if not len(test.id):
        advice = "Hold out a larger fraction." if validation else "Add some, or use larger tasks."
        raise RemnantError(
            f"task {task.number + 1} ({_names(task, spec, order)}): expected at least 1 test sample, got "
            f"none. {advice}"
        )
