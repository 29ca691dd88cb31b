import numpy as np
import torch

from remnant.data import Dataset, load


def images(data: Dataset) -> np.ndarray:
    return data.train.take(torch.arange(len(data.train))).numpy()


def test_digits_have_1438_training_and_359_test_images() -> None:
    data = load("digits", None)
    assert (len(data.train), len(data.test)) == (len(data.y), len(data.test_y)) == (1_438, 359)
    assert data.train.take(torch.arange(3)).shape == (3, *data.spec.shape)


def test_the_test_split_has_a_fifth_of_each_class() -> None:
    data = load("digits", None)
    train, test = np.bincount(data.y), np.bincount(data.test_y)
    assert np.abs(test / (train + test) - 0.2).max() < 0.005


def test_the_split_is_the_same_every_time() -> None:
    one, two = load("digits", None), load("digits", None)
    assert np.array_equal(images(one), images(two))
    assert np.array_equal(one.y, two.y)
    assert np.array_equal(one.test_y, two.test_y)


def test_pixels_use_the_full_range_of_a_byte() -> None:
    x = images(load("digits", None))
    assert x.dtype == np.uint8
    assert (x.min(), x.max()) == (0, 255)


def test_normalised_images_have_mean_zero_and_standard_deviation_one() -> None:
    data = load("digits", None)
    x = data.spec.transform.plain(torch.from_numpy(images(data)))
    assert abs(x.mean().item()) < 0.01
    assert abs(x.std().item() - 1) < 0.01
