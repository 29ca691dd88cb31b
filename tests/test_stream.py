import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import tiny_data, tiny_stream

from remnant.data import DATA
from remnant.data.dataset import UNKNOWN
from remnant.errors import RemnantError
from remnant.noise import symmetric
from remnant.stream import class_order, make_stream, split_evenly


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
