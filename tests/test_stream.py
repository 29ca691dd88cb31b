import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_data, tiny_stream

from remnant.data import DATA, Dataset
from remnant.data.dataset import UNKNOWN
from remnant.data.rows import Rows
from remnant.errors import RemnantError
from remnant.noise import symmetric
from remnant.stream import class_order, make_row_stream, make_stream, split_evenly


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_training_samples_are_split_by_the_observed_label() -> None:
    stream = tiny_stream(noise=0.5)
    for task in stream.tasks:
        assert set(task.y.tolist()) <= set(task.classes)
        assert torch.equal(stream.observed[task.id], task.y)


def test_with_noise_a_task_has_samples_of_other_tasks() -> None:
    stream = tiny_stream(noise=0.5)
    task = stream.tasks[0]
    assert not set(stream.truth[task.id].tolist()) <= set(task.classes)


def test_every_training_sample_is_in_exactly_one_task() -> None:
    for seed in range(5):
        stream = tiny_stream(noise=0.5, seed=seed)
        ids = torch.cat([task.id for task in stream.tasks])
        assert sorted(ids.tolist()) == list(range(72))


def test_a_task_returns_samples_with_their_labels_and_ids() -> None:
    data, stream = tiny_data(), tiny_stream()
    index = torch.tensor([3, 0, 5])
    batch = stream.tasks[1].take(index)
    assert len(batch) == 3
    assert torch.equal(batch.id, stream.tasks[1].id[index])
    assert torch.equal(batch.y, stream.observed[batch.id])
    assert torch.equal(batch.x, data.train.take(batch.id))
    assert torch.equal(batch[torch.tensor([2])].id, batch.id[2:])


def test_test_samples_are_split_by_the_true_label_and_are_never_noisy() -> None:
    data, stream = tiny_data(), tiny_stream(noise=0.9)
    for test in stream.tests:
        assert np.array_equal(data.test_y[test.id.numpy()], test.y.numpy())
        assert set(test.y.tolist()) == set(test.classes)


def test_classes_are_numbered_in_the_order_of_arrival() -> None:
    data = tiny_data()
    stream = make_stream(data, data.y, [5, 3, 1, 0, 2, 4], [2, 2, 2], 0.0, rng())
    assert stream.spec.classes[:2] == ("class-5", "class-3")
    first = stream.tasks[0]
    assert set(first.y.tolist()) == {0, 1}
    assert set(data.y[first.id.numpy()]) == {5, 3}
    assert torch.equal(stream.truth, stream.observed)


def test_noise_does_not_depend_on_the_class_order() -> None:
    data = tiny_data()
    observed = symmetric(data.y, 0.4, 6, rng())
    a = make_stream(data, observed, range(6), [2, 2, 2], 0.0, rng())
    b = make_stream(data, observed, [5, 4, 3, 2, 1, 0], [2, 2, 2], 0.0, rng())
    assert torch.equal(a.truth == a.observed, b.truth == b.observed)


def test_tasks_can_have_different_numbers_of_classes() -> None:
    data = tiny_data()
    stream = make_stream(data, data.y, range(6), [1, 2, 3], 0.0, rng())
    assert [task.classes for task in stream.tasks] == [(0,), (1, 2), (3, 4, 5)]


def test_the_joint_stream_has_all_samples_in_one_task_and_all_test_splits() -> None:
    stream = tiny_stream()
    joint = stream.joint()
    (task,) = joint.tasks
    assert sorted(task.id.tolist()) == list(range(72))
    assert torch.equal(task.y, stream.observed[task.id])
    assert task.classes == tuple(range(6))
    assert len(joint.tests) == 3


def test_held_out_samples_are_not_trained_on_and_are_tested_by_their_observed_label() -> None:
    data = tiny_data()
    observed = symmetric(data.y, 0.4, 6, rng())
    stream = make_stream(data, observed, range(6), [2, 2, 2], 0.25, rng())
    trained = set(torch.cat([task.id for task in stream.tasks]).tolist())
    tested = set(torch.cat([test.id for test in stream.tests]).tolist())
    assert not trained & tested
    assert len(trained | tested) == 72
    for test in stream.tests:
        assert torch.equal(test.y, stream.observed[test.id])
        assert set(test.y.tolist()) <= set(test.classes)
        assert test.source is stream.tasks[0].source  # and not the test set


def test_the_same_fraction_of_each_observed_class_is_held_out() -> None:
    data = tiny_data()
    stream = make_stream(data, data.y, range(6), [2, 2, 2], 0.25, rng())
    held_out = torch.cat([test.y for test in stream.tests])
    assert torch.bincount(held_out).tolist() == [3] * 6


def test_a_validation_split_without_samples_is_an_error() -> None:
    data = tiny_data()
    with pytest.raises(RemnantError, match=r"task 1 .*: expected at least 1 test sample.*larger fraction"):
        make_stream(data, data.y, range(6), [2, 2, 2], 0.01, rng())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": [0, 1, 2, 3, 4, 4]}, "each of the classes 0 to 5 once"),
        ({"order": range(5)}, "each of the classes 0 to 5 once"),
        ({"sizes": [2, 2]}, "add up to 6"),
        ({"sizes": [6, 0]}, "sizes of 1 or more"),
        ({"sizes": []}, "sizes of 1 or more"),
        ({"validation": 1.0}, "in [0, 1), got"),
        ({"validation": -0.1}, "in [0, 1), got"),
        ({"observed": np.zeros(3, dtype=int)}, "an observed label for each of the"),
    ],
)
def test_a_split_that_does_not_fit_the_data_is_an_error(change: dict[str, Any], message: str) -> None:
    data = tiny_data()
    given = {"observed": data.y, "order": range(6), "sizes": [2, 2, 2], "validation": 0.0} | change
    with pytest.raises(RemnantError, match=re.escape(message)):
        make_stream(data, **given, rng=rng())


def test_a_task_without_training_samples_is_an_error_with_its_classes() -> None:
    data = tiny_data()
    observed = np.where(data.y == 5, 0, data.y)
    with pytest.raises(RemnantError, match=r"class-5.*expected at least 2 training samples, got 0"):
        make_stream(data, observed, range(6), [5, 1], 0.0, rng())


def test_a_task_without_test_samples_is_an_error() -> None:
    data = tiny_data()
    few = replace(data, test_y=np.where(data.test_y == 5, 0, data.test_y))
    with pytest.raises(RemnantError, match=r"task 2 \(class-5\): expected at least 1 test sample, got none"):
        make_stream(few, data.y, range(6), [5, 1], 0.0, rng())


def test_unknown_true_labels_stay_unknown_and_are_not_observed() -> None:
    data = tiny_data()
    partly = replace(data, truth=np.where(np.arange(72) % 2, data.y, UNKNOWN))
    stream = make_stream(partly, data.y, [5, 4, 3, 2, 1, 0], [2, 2, 2], 0.0, rng())
    assert (stream.truth[::2] == UNKNOWN).all()
    assert torch.equal(stream.truth[1::2], stream.observed[1::2])
    with pytest.raises(
        RemnantError, match=r"expected an observed label for each sample of tiny.*noise=given"
    ):
        make_stream(partly, partly.truth, range(6), [2, 2, 2], 0.0, rng())


def test_class_orders_are_native_random_or_given() -> None:
    spec = tiny_data().spec
    assert class_order("native", spec, rng()) == [0, 1, 2, 3, 4, 5]
    assert class_order([5, 4, 3, 2, 1, 0], spec, rng()) == [5, 4, 3, 2, 1, 0]
    shuffled = class_order("random", spec, rng(1))
    assert sorted(shuffled) == [0, 1, 2, 3, 4, 5]
    assert shuffled == class_order("random", spec, rng(1)) != class_order("random", spec, rng(2))


def test_the_superclass_order_keeps_superclasses_together() -> None:
    spec = DATA["cifar100"].spec
    order = class_order("superclass", spec, rng())
    groups = [spec.superclass[c] for c in order]
    assert groups == sorted(groups)
    assert len(set(order)) == 100


def test_a_class_order_without_one_of_the_classes_is_an_error() -> None:
    with pytest.raises(RemnantError, match="each of the classes 0 to 5 once"):
        class_order([0, 1, 2, 3, 4, 4], tiny_data().spec, rng())


def test_the_superclass_order_of_a_dataset_without_superclasses_is_an_error() -> None:
    with pytest.raises(RemnantError, match="needs superclasses, but tiny has none"):
        class_order("superclass", tiny_data().spec, rng())


def test_an_unknown_class_order_is_an_error() -> None:
    with pytest.raises(RemnantError, match="got 'alphabetic'"):
        class_order("alphabetic", tiny_data().spec, rng())


def test_an_uneven_split_must_be_given_in_numbers() -> None:
    with pytest.raises(RemnantError, match=r"split=\[3,3,4\]"):
        split_evenly(10, 3)


@pytest.mark.parametrize("tasks", [0, 11, 10**12])
def test_there_are_at_most_as_many_tasks_as_classes(tasks: int) -> None:
    with pytest.raises(RemnantError, match=f"expected 1 to 10 tasks.* got {tasks}"):
        split_evenly(10, tasks)


def test_every_proposed_split_is_valid() -> None:
    for classes, tasks in ((c, t) for c in range(1, 30) for t in range(1, c + 1) if c % t):
        with pytest.raises(RemnantError) as caught:
            split_evenly(classes, tasks)
        sizes = json.loads(str(caught.value).partition("split=")[2])
        assert (len(sizes), sum(sizes)) == (tasks, classes)
        assert min(sizes) >= 1


def test_the_fingerprint_depends_on_labels_and_pixels_only() -> None:
    data, same = tiny_data(), tiny_data()
    base = make_stream(data, data.y, range(6), [2, 2, 2], 0.0, rng()).fingerprint
    assert base == make_stream(same, data.y, range(6), [2, 2, 2], 0.0, rng(1)).fingerprint
    other = data.y.copy()
    other[0] = 1
    assert base != make_stream(data, other, range(6), [2, 2, 2], 0.0, rng()).fingerprint
    image = tiny_data(seed=1)
    assert base != make_stream(image, image.y, range(6), [2, 2, 2], 0.0, rng()).fingerprint


def arriving(rows: Rows) -> Dataset:
    """Twelve training samples whose classes are 0, 1, then 1, 2, then 2, 0."""
    data, y = tiny_data(classes=3, rows=4), np.array([0, 1] * 2 + [1, 2] * 2 + [2, 0] * 2)
    return replace(data, y=y, truth=None, test_y=np.arange(4) % 3, rows=rows)


def test_tasks_by_arrival_may_have_classes_in_common() -> None:
    data = arriving(Rows(test=np.array([0, 3, 5, 11]), are_held_out=True))
    stream = make_row_stream(data, data.y, "arrival:3", 0.0, np.random.default_rng(0))
    assert [task.classes for task in stream.tasks] == [(0, 1), (1, 2), (0, 2)]
    assert [task.id.tolist() for task in stream.tasks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [stream.classes_seen(number) for number in range(3)] == [2, 3, 3]


def test_held_out_samples_are_tested_with_the_rows_around_them() -> None:
    data = arriving(Rows(test=np.array([0, 5, 5, 11]), are_held_out=True))
    stream = make_row_stream(data, data.y, "arrival:3", 0.0, np.random.default_rng(0))
    assert [test.id.tolist() for test in stream.tests] == [[0], [1, 2], [3]]
    assert stream.tests[2].classes == (0, 2)


def test_a_separate_test_split_is_used_for_every_task_that_has_the_class() -> None:
    data = arriving(Rows(test=np.arange(12, 16), are_held_out=False))
    stream = make_row_stream(data, data.y, "arrival:3", 0.0, np.random.default_rng(0))
    assert [test.y.tolist() for test in stream.tests] == [[0, 1, 0], [1, 2], [0, 2, 0]]


def test_tasks_by_column_number_the_classes_in_the_order_of_their_first_task() -> None:
    column = np.array([1] * 4 + [0] * 8 + [0, 1, 0, 1])
    data = arriving(Rows(test=np.arange(12, 16), are_held_out=False, task=column))
    stream = make_row_stream(data, data.y, "column", 0.0, np.random.default_rng(0))
    assert [task.id.tolist() for task in stream.tasks] == [[4, 5, 6, 7, 8, 9, 10, 11], [0, 1, 2, 3]]
    assert stream.spec.classes == ("class-0", "class-1", "class-2")
    assert [test.id.tolist() for test in stream.tests] == [[0, 2], [1, 3]]


def test_rows_without_test_samples_are_an_error() -> None:
    data = arriving(Rows(test=np.array([0, 0, 0, 0]), are_held_out=True))
    with pytest.raises(RemnantError, match=r"task 2 .*: expected at least 1 test sample, got none"):
        make_row_stream(data, data.y, "arrival:3", 0.0, np.random.default_rng(0))
    with pytest.raises(RemnantError, match="tasks=arrival:2 needs a table"):
        make_row_stream(replace(data, rows=None), data.y, "arrival:2", 0.0, np.random.default_rng(0))


def test_held_out_training_samples_of_tasks_by_rows_replace_the_test_split() -> None:
    data = arriving(Rows(test=np.array([0, 5, 5, 11]), are_held_out=True))
    stream = make_row_stream(data, data.y, "arrival:2", 0.5, np.random.default_rng(0))
    ids = [*(task.id for task in stream.tasks), *(test.id for test in stream.tests)]
    assert sorted(torch.cat(ids).tolist()) == list(range(12))
