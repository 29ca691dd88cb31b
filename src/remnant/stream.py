"""The stream of tasks, split from a dataset by class. Learners never get true labels.

A learner receives a `Task`: inputs, observed labels and ids. True labels and test splits stay in the
`Stream` and are used by the metrics only. N training samples; C classes, numbered in order of arrival.
"""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from remnant.data.dataset import UNKNOWN, Dataset, InMemory, Labels, Source, Spec
from remnant.errors import RemnantError


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
    """The samples whose observed label is one of the classes of this task."""

    number: int
    classes: tuple[int, ...]
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
    skipped: Mapping[str, str] = field(default_factory=dict)  # file that could not be read -> reason
    files: tuple[str, ...] = ()  # (N,) file of each training sample; empty if they have none

    @property
    def noise_rate(self) -> float | None:
        """Return the fraction of noisy labels among the training samples; None if it is unknown."""
        if self.truth is None:
            return None
        samples = torch.cat([task.id for task in self.tasks])
        return float((self.truth[samples] != self.observed[samples]).double().mean())

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

    If `validation` > 0, this fraction of each observed class is held out of training. The held-out
    samples, with their observed labels, replace the test split for choosing hyperparameters.
    """
    _check_labels(observed, data.spec)
    arrival = np.argsort(order)  # class -> its position in the order of arrival
    truth = None
    if data.truth is not None:
        truth = torch.from_numpy(np.where(data.truth == UNKNOWN, UNKNOWN, arrival[data.truth]))
    y = torch.from_numpy(arrival[observed])
    is_held_out = _held_out(y, validation, rng)
    test, test_y, is_tested = data.test, torch.from_numpy(arrival[data.test_y]), torch.tensor(True)
    if validation:
        test, test_y, is_tested = data.train, y, is_held_out
    tasks, tests = [], []
    for number, (start, end) in enumerate(itertools.pairwise(np.cumsum([0, *sizes]))):
        classes, group = tuple(range(start, end)), torch.arange(start, end)
        index = torch.nonzero(torch.isin(y, group) & ~is_held_out).flatten()
        tasks.append(Task(number, classes, index, y[index], data.train))
        _check_task(tasks[-1], data.spec, order)
        index = torch.nonzero(torch.isin(test_y, group) & is_tested).flatten()
        tests.append(TestSplit(classes, index, test_y[index], test))
        _check_test_split(tests[-1], tasks[-1], data.spec, order, validation)
    return Stream(
        spec=replace(data.spec, classes=tuple(data.spec.classes[c] for c in order)),
        tasks=tuple(tasks),
        tests=tuple(tests),
        truth=truth,
        observed=y,
        index=torch.from_numpy(data.index),
        fingerprint=_fingerprint(data, y),
        skipped=data.skipped,
        files=data.files,
    )


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


def _fingerprint(data: Dataset, observed: Tensor, chunk: int = 128) -> str:
    digest = hashlib.sha256()
    for source in (data.train, data.test):
        for index in torch.arange(len(source)).split(chunk):
            digest.update(source.take(index).numpy().tobytes())
    for labels in (observed.numpy(), data.truth, data.test_y, data.index):
        digest.update(b"" if labels is None else labels.tobytes())
    return digest.hexdigest()
