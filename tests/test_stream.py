import numpy as np
import pytest
import torch
from conftest import tiny_data, tiny_stream

from remnant.data import DATA
from remnant.data.source import subset
from remnant.errors import RemnantError
from remnant.noise import symmetric
from remnant.stream import class_order, make_stream, split_evenly


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_training_rows_are_split_by_the_observed_label() -> None:
    stream = tiny_stream(noise=0.5)
    for task in stream.tasks:
        assert set(task.y.tolist()) <= set(task.classes)
        assert torch.equal(stream.observed[task.id], task.y)


def test_under_noise_a_task_holds_images_of_other_tasks() -> None:
    stream = tiny_stream(noise=0.5)
    task = stream.tasks[0]
    assert not set(stream.truth[task.id].tolist()) <= set(task.classes)


def test_every_training_row_is_in_exactly_one_task() -> None:
    stream = tiny_stream(noise=0.5)
    ids = torch.cat([task.id for task in stream.tasks])
    assert sorted(ids.tolist()) == list(range(72))


def test_tests_are_split_by_the_true_label_and_are_never_noisy() -> None:
    data, stream = tiny_data(), tiny_stream(noise=0.9)
    for test in stream.tests:
        assert np.array_equal(data.test_y[test.id.numpy()], test.y.numpy())
        assert set(test.y.tolist()) == set(test.classes)


def test_classes_are_numbered_in_order_of_arrival() -> None:
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


def test_tasks_may_be_of_unequal_size() -> None:
    data = tiny_data()
    stream = make_stream(data, data.y, range(6), [1, 2, 3], 0.0, rng())
    assert [task.classes for task in stream.tasks] == [(0,), (1, 2), (3, 4, 5)]


def test_joint_has_all_rows_in_one_task_and_all_tests() -> None:
    joint = tiny_stream().joint()
    assert len(joint.tasks) == 1
    assert sorted(joint.tasks[0].id.tolist()) == list(range(72))
    assert len(joint.tests) == 3


def test_validation_rows_leave_training_and_are_tested_by_their_observed_label() -> None:
    data = tiny_data()
    observed = symmetric(data.y, 0.4, 6, rng())
    stream = make_stream(data, observed, range(6), [2, 2, 2], 0.25, rng())
    trained = set(torch.cat([task.id for task in stream.tasks]).tolist())
    tested = set(torch.cat([test.id for test in stream.tests]).tolist())
    assert not trained & tested
    assert len(trained | tested) == 72
    for test in stream.tests:
        assert torch.equal(test.y, stream.observed[test.id])
        assert test.source is stream.tasks[0].source  # and not the test set


def test_a_validation_share_that_leaves_a_task_untested_is_refused() -> None:
    data = tiny_data()
    with pytest.raises(RemnantError, match="Hold out a larger share"):
        make_stream(data, data.y, range(6), [2, 2, 2], 0.01, rng())


def test_a_task_without_rows_is_refused_with_its_classes() -> None:
    data = tiny_data()
    nobody = np.where(data.y == 5, 0, data.y)
    with pytest.raises(RemnantError, match="class-5"):
        make_stream(data, nobody, range(6), [5, 1], 0.0, rng())


def test_the_order_of_classes_can_be_given() -> None:
    spec = tiny_data().spec
    assert class_order("native", spec, rng()) == [0, 1, 2, 3, 4, 5]
    assert class_order([5, 4, 3, 2, 1, 0], spec, rng()) == [5, 4, 3, 2, 1, 0]
    shuffled = class_order("random", spec, rng(1))
    assert sorted(shuffled) == [0, 1, 2, 3, 4, 5]
    assert shuffled == class_order("random", spec, rng(1)) != class_order("random", spec, rng(2))


def test_superclass_order_puts_whole_superclasses_together() -> None:
    spec = DATA["cifar100"].spec
    order = class_order("superclass", spec, rng())
    groups = [spec.superclass[c] for c in order]
    assert groups == sorted(groups)
    assert len(set(order)) == 100


def test_an_order_that_misses_a_class_is_refused() -> None:
    with pytest.raises(RemnantError, match="each of the classes 0 to 5 once"):
        class_order([0, 1, 2, 3, 4, 4], tiny_data().spec, rng())


def test_superclass_order_needs_superclasses() -> None:
    with pytest.raises(RemnantError, match="superclasses"):
        class_order("superclass", tiny_data().spec, rng())


def test_an_uneven_split_must_be_spelled_out() -> None:
    with pytest.raises(RemnantError, match=r"--set split=\[3,3,4\]"):
        split_evenly(10, 3)


def test_another_label_or_another_pixel_is_another_fingerprint() -> None:
    data = tiny_data()
    changed = tiny_data()
    changed.train.take(torch.arange(72))  # the same
    base = make_stream(data, data.y, range(6), [2, 2, 2], 0.0, rng()).fingerprint
    assert base == make_stream(changed, data.y, range(6), [2, 2, 2], 0.0, rng()).fingerprint
    other = data.y.copy()
    other[0] = 1
    assert base != make_stream(data, other, range(6), [2, 2, 2], 0.0, rng()).fingerprint
    image = tiny_data(seed=1)
    assert base != make_stream(image, image.y, range(6), [2, 2, 2], 0.0, rng()).fingerprint


def test_a_subset_is_balanced_ordered_and_remembers_where_it_came_from() -> None:
    data = tiny_data()
    part = subset(data, 3, rng())
    assert np.bincount(part.y).tolist() == [3] * 6
    assert (np.diff(part.index) > 0).all()
    assert np.array_equal(data.y[part.index], part.y)
    everything = torch.arange(len(part.y))
    assert torch.equal(part.train.take(everything), data.train.take(torch.from_numpy(part.index)))
