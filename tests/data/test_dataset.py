from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from remnant.data.dataset import UNKNOWN, InMemory, MemoryMapped, Spec, arrays, subset
from remnant.errors import RemnantError
from remnant.transforms.image import ImageTransform

SPEC = Spec(
    name="tiny",
    shape=(1, 2, 2),
    classes=("a", "b"),
    transform=ImageTransform((0.5,), (0.3,), 0, flip=False),
)


class Unchanged:
    """A transform for inputs that are not images."""

    def plain(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def augmented(self, x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        return x

    strong = augmented


FLOATS = replace(SPEC, transform=Unchanged(), dtype=torch.float32)
X, Y = np.zeros((4, 1, 2, 2), np.uint8), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [1, 2, 2]}, r"shape: expected a tuple of sizes, got \[1, 2, 2\]"),
        ({"shape": (1, 0, 2)}, "shape: expected a tuple of sizes"),
        ({"classes": ("a",)}, "classes: expected a tuple of at least two different names"),
        ({"classes": 4}, "classes: expected a tuple of at least two different names, got 4"),
        ({"classes": ["a", "b"]}, "classes: expected a tuple"),
        ({"classes": (1, 2)}, "classes: expected a tuple of at least two different names"),
        ({"classes": ("a", "a")}, "classes: expected a tuple of at least two different names"),
        ({"name": 3}, "name: expected a string, got 3"),
        ({"transform": None}, "transform: expected an ImageTransform, or an object with plain"),
        ({"dtype": torch.float32}, "dtype: expected torch.uint8 for ImageTransform, .* got torch.float32"),
        ({"superclass": 2}, "superclass: expected a tuple of numbers, got 2"),
        ({"superclass": (0,)}, "superclass: expected none, or one for each of 2 classes, got 1"),
        ({"confused_with": {0: 7}}, r"confused_with: expected classes from 0 to 1, got \[0, 7\]"),
    ],
)
def test_an_inconsistent_spec_is_an_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SPEC, **change)


def test_inputs_that_are_not_finite_are_an_error() -> None:
    x = np.full((4, 1, 2, 2), np.nan, np.float32)
    with pytest.raises(RemnantError, match="finite training inputs"):
        arrays(FLOATS, x, Y, x, Y)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((X[:, 0], Y, X, Y), r"training inputs \(N, 1, 2, 2\) of uint8, got \(4, 2, 2\) of uint8"),
        ((X, Y, X.astype(float), Y), r"test inputs .* got \(4, 1, 2, 2\) of float64"),
        ((X, Y[:3], X, Y), r"4 training labels, got \(3,\)"),
        ((X, Y, X, Y + 1), "test labels from 0 to 1, got 1 to 2"),
        ((X, Y / 2, X, Y), r"integer training labels \(numbers of classes, from 0\), got float64"),
        ((X, Y, X[:0], Y[:0]), "test inputs, got none"),
    ],
)
def test_arrays_that_do_not_match_the_spec_are_an_error(data: tuple[np.ndarray, ...], words: str) -> None:
    with pytest.raises(RemnantError, match=f"tiny: expected {words}"):
        arrays(SPEC, *data)


def test_a_subset_has_random_samples_of_each_class_in_their_order() -> None:
    x = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1) * np.ones((1, 1, 2, 2), np.uint8)
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 0])
    data = subset(arrays(SPEC, x, y, x, y), 3, np.random.default_rng(0))
    assert np.bincount(data.y).tolist() == [3, 3]
    assert data.published == 10
    assert data.index.tolist() == sorted(data.index)
    assert np.array_equal(data.y, y[data.index])
    assert torch.equal(data.train.take(torch.arange(6)), torch.from_numpy(x[data.index]))
    assert len(subset(data, 5, np.random.default_rng(0)).y) == 6


def test_a_subset_of_noisy_data_goes_by_the_provided_label() -> None:
    noisy = np.array([1, 1, 1, 0])
    found = subset(arrays(SPEC, X, noisy, X, Y, truth=Y), 1, np.random.default_rng(0))
    assert sorted(found.y) == [0, 1]
    assert np.array_equal(found.y, noisy[found.index])
    assert found.truth is not None
    assert np.array_equal(found.truth, Y[found.index])
    assert subset(arrays(SPEC, X, noisy, X, Y), 1, np.random.default_rng(0)).truth is None


def test_labels_are_clean_if_they_are_known_to_be_the_true_labels() -> None:
    assert arrays(SPEC, X, Y, X, Y, truth=Y).is_clean
    assert not arrays(SPEC, X, Y, X, Y).is_clean
    assert not arrays(SPEC, X, Y, X, Y, truth=1 - Y).is_clean
    assert not arrays(SPEC, X, Y, X, Y, truth=[0, 1, UNKNOWN, 1]).is_clean


def test_lists_and_tensors_are_arrays() -> None:
    plain = arrays(SPEC, X + 7, Y, X, Y, truth=Y)
    for convert in (np.ndarray.tolist, torch.from_numpy, list):
        found = arrays(SPEC, *(convert(a) for a in (X + 7, Y, X, Y)), truth=convert(Y))
        for ours, theirs in ((found.train, plain.train), (found.test, plain.test)):
            assert torch.equal(ours.take(torch.arange(4)), theirs.take(torch.arange(4)))
        assert np.array_equal(found.y, Y)
        assert found.is_clean
    floats = arrays(FLOATS, (X / 3).tolist(), Y.tolist(), X.tolist(), Y.tolist())
    assert floats.train.take(torch.arange(4)).dtype == torch.float32


def test_strides_of_the_given_array_do_not_reach_the_network() -> None:
    x = torch.from_numpy(X)  # one channel: both strides describe the same bytes
    for given in (x, x.as_strided(x.shape, (4, 1, 2, 1)), np.zeros((4, 2, 2), np.uint8)[:, None]):
        taken = arrays(SPEC, given, Y, given, Y).train.take(torch.arange(4))
        assert taken.stride() == torch.empty(taken.shape).stride()


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ((X + 0.5).tolist(), Y, r"training inputs .* of uint8 in \[0, 255\], got .* of float64"),
        ((X.astype(int) - 1).tolist(), Y, "training inputs .* of uint8, got .* of int64"),
        ([[1], [1, 2]], Y, "an array of training inputs"),
        (3, Y, r"training inputs \(N, 1, 2, 2\) of uint8, got \(\)"),
        (X, 3, r"4 training labels, got \(\)"),
        (X, ["a", "b", "a", "b"], r"integer training labels \(.*\), got <U1"),
        (X, None, r"4 training labels, got \(\)"),
    ],
)
def test_values_that_are_no_arrays_are_an_error(x: Any, y: Any, words: str) -> None:  # noqa: ANN401
    with pytest.raises(RemnantError, match=f"tiny: expected {words}.*Fix the loader"):
        arrays(SPEC, x, y, X, Y)


def test_true_labels_are_checked() -> None:
    with pytest.raises(RemnantError, match=r"4 true training labels, got \(3,\)"):
        arrays(SPEC, X, Y, X, Y, truth=Y[:3])
    with pytest.raises(RemnantError, match="true training labels from -1 to 1, got 0 to 2"):
        arrays(SPEC, X, Y, X, Y, truth=2 * Y)


def test_sources_in_memory_and_on_disk_return_the_same_inputs() -> None:
    x = np.arange(5, dtype=np.uint8).reshape(5, 1, 1, 1)
    memory, disk = InMemory(torch.from_numpy(x)), MemoryMapped(x, np.arange(5))
    chosen, index = np.array([4, 0, 2]), torch.tensor([2, 0])
    assert len(memory.select(chosen)) == len(disk.select(chosen)) == 3
    for source in (memory, disk):
        assert source.take(index).flatten().tolist() == [2, 0]
        assert source.select(chosen).take(index).flatten().tolist() == [2, 4]
