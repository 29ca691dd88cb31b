"""Tasks that arrive one after another. True labels stop here.

A `Task` is all that a learner is given: inputs, observed labels, row numbers. What is true, and what is
tested on, stays in the `Stream`, for the metrics. N training rows, C classes, numbered in order of
arrival.
"""

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from remnant.data.source import UNKNOWN, Dataset, Labels, Source, Spec
from remnant.errors import RemnantError


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of the stream or of the memory."""

    x: Tensor  # (B, *shape) raw
    y: Tensor  # (B,) observed label
    id: Tensor  # (B,) row number in the training set

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Tensor) -> "Batch":
        return Batch(self.x[rows], self.y[rows], self.id[rows])


@dataclass(frozen=True, eq=False)
class Task:
    """The rows whose observed label belongs to the classes of this task."""

    number: int
    classes: tuple[int, ...]
    id: Tensor  # (n,) row numbers in the training set
    y: Tensor  # (n,) observed labels
    source: Source

    def __len__(self) -> int:
        return len(self.id)

    def take(self, rows: Tensor) -> Batch:
        """Return these rows of the task."""
        return Batch(self.source.take(self.id[rows]), self.y[rows], self.id[rows])


@dataclass(frozen=True, eq=False)
class Test:
    """What a task is tested on."""

    classes: tuple[int, ...]
    id: Tensor
    y: Tensor
    source: Source


@dataclass(frozen=True, eq=False)
class Stream:
    """The tasks for the learner; the truth and the tests for the metrics."""

    spec: Spec  # classes named in order of arrival
    tasks: tuple[Task, ...]
    tests: tuple[Test, ...]
    truth: Tensor  # (N,) true labels of all training rows; UNKNOWN, which is no class, equals none
    observed: Tensor  # (N,)
    index: Tensor  # (N,) position in the published data set
    fingerprint: str  # of all inputs and labels
    skipped: Mapping[str, str] = field(default_factory=dict)  # file that could not be read -> why

    def joint(self) -> "Stream":
        """Return the same rows as a single task: the upper bound of the tables."""
        together = replace(
            self.tasks[0],
            classes=tuple(range(len(self.spec.classes))),
            id=torch.cat([task.id for task in self.tasks]),
            y=torch.cat([task.y for task in self.tasks]),
        )
        return replace(self, tasks=(together,))


def even_batches(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """Split rows into the fewest batches of at most `size`, as equal in length as can be.

    A last batch of two or three rows would take a full step, and a full part in the statistics of
    BatchNorm, on almost no evidence.

    >>> [len(rows) for rows in even_batches(torch.arange(67), 32)]
    [23, 22, 22]
    """
    return order.tensor_split(math.ceil(len(order) / size))


def class_order(kind: str | Sequence[int], spec: Spec, rng: np.random.Generator) -> list[int]:
    """Return the order in which classes arrive: native, superclass, random, or as given."""
    classes = list(range(len(spec.classes)))
    if kind == "native":
        return classes
    if kind == "random":
        return [int(c) for c in rng.permutation(classes)]
    if kind == "superclass":
        if not spec.superclass:
            raise RemnantError(
                f"the order 'superclass' needs superclasses, which {spec.name} has not. "
                "Use 'native', 'random' or a list of class numbers."
            )
        return sorted(classes, key=lambda c: (spec.superclass[c], c))
    if isinstance(kind, str):
        raise RemnantError(
            f"expected native, superclass, random or a list of class numbers, got {kind!r}."
        )
    order = [int(c) for c in kind]
    if sorted(order) != classes:
        raise RemnantError(f"expected each of the classes 0 to {len(classes) - 1} once, got {order}.")
    return order


def split_evenly(classes: int, tasks: int) -> list[int]:
    """Return the number of classes of each task.

    >>> split_evenly(10, 5)
    [2, 2, 2, 2, 2]
    """
    if tasks < 1 or classes % tasks:
        raise RemnantError(
            f"{classes} classes cannot be split evenly into {tasks} tasks. Say how many classes each "
            f"task has: --set split={_example_split(classes, tasks)}"
        )
    return [classes // tasks] * tasks


def _example_split(classes: int, tasks: int) -> str:
    small, more = divmod(classes, max(1, tasks))
    sizes = [small] * (max(1, tasks) - more) + [small + 1] * more
    return "[" + ",".join(map(str, sizes)) + "]"


def make_stream(
    data: Dataset,
    observed: Labels,
    order: Sequence[int],
    sizes: Sequence[int],
    validation: float,
    rng: np.random.Generator,
) -> Stream:
    """Split training rows by observed label and test rows by true label into tasks.

    With `validation` > 0 that share of each observed class is held out of training and tested on, by
    its observed label, in place of the test set: for choosing settings without ever looking at it.
    """
    _refuse_unlabelled(observed, data.spec)
    arrival = np.empty(len(order), dtype=np.int64)
    arrival[list(order)] = np.arange(len(order))
    y, test_y = torch.from_numpy(arrival[observed]), torch.from_numpy(arrival[data.test_y])
    truth, is_known = data.y.copy(), data.y != UNKNOWN
    truth[is_known] = arrival[data.y[is_known]]
    edges = np.cumsum([0, *sizes])
    groups = [tuple(range(a, b)) for a, b in itertools.pairwise(edges)]
    held_out = _held_out(y, validation, rng)
    tasks, tests = [], []
    for number, classes in enumerate(groups):
        inside = torch.isin(y, torch.tensor(classes))
        rows = torch.nonzero(inside & ~held_out).flatten()
        tasks.append(Task(number, classes, rows, y[rows], data.train))
        _refuse_empty(tasks[-1], data.spec, order)
        if validation:
            rows = torch.nonzero(inside & held_out).flatten()
            tests.append(Test(classes, rows, y[rows], data.train))
        else:
            rows = torch.nonzero(torch.isin(test_y, torch.tensor(classes))).flatten()
            tests.append(Test(classes, rows, test_y[rows], data.test))
        _refuse_untested(tests[-1], number, validation)
    return Stream(
        spec=replace(data.spec, classes=tuple(data.spec.classes[c] for c in order)),
        tasks=tuple(tasks),
        tests=tuple(tests),
        truth=torch.from_numpy(truth),
        observed=y,
        index=torch.from_numpy(data.index),
        fingerprint=_fingerprint(data, y),
        skipped=data.skipped,
    )


def _refuse_unlabelled(observed: Labels, spec: Spec) -> None:
    if (observed == UNKNOWN).any():
        raise RemnantError(
            f"expected an observed label for each row of {spec.name}, found rows without one: their "
            "true class is not known. Observe the labels that the data came with: the noise `given`."
        )


def _held_out(y: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    chosen = torch.zeros(len(y), dtype=torch.bool)
    for label in y.unique().tolist() if share else []:
        rows = rng.permutation(torch.nonzero(y == label).flatten().numpy())
        chosen[torch.from_numpy(rows[: round(share * len(rows))])] = True
    return chosen


def _refuse_empty(task: Task, spec: Spec, order: Sequence[int]) -> None:
    if len(task) < 2:
        names = ", ".join(spec.classes[order[c]] for c in task.classes)
        raise RemnantError(
            f"task {task.number} ({names}) has {len(task)} training rows, at least 2 are needed. "
            "Take more rows per class, another class order, or larger tasks."
        )


def _refuse_untested(test: Test, number: int, validation: float) -> None:
    if not len(test.id):
        cure = "Hold out a larger share." if validation else "Take another class order or larger tasks."
        raise RemnantError(f"task {number} has no row to be tested on, at least 1 is needed. {cure}")


def _fingerprint(data: Dataset, observed: Tensor, chunk: int = 128) -> str:
    digest = hashlib.sha256()
    for source in (data.train, data.test):
        for rows in torch.arange(len(source)).split(chunk):
            digest.update(source.take(rows).numpy().tobytes())
    for labels in (observed.numpy(), data.y, data.test_y, data.index):
        digest.update(labels.tobytes())
    return digest.hexdigest()
