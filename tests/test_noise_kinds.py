"""What holds for every kind of noise, on data that all of them fit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_noise import rng

from remnant.data import DATA
from remnant.data.source import Dataset, arrays, subset
from remnant.noise import NOISES, Human, Matrix, Noise
from remnant.noise.files import FromFile
from remnant.stream import make_stream
from remnant.transition import rates, transitions

ROWS = 40  # of each class
RATED = ("symmetric", "asymmetric", "block", "superclass-random", "instance")  # at their default, 0.4
DRAWN = (*RATED, "matrix")
GIVEN = ("human", "file")
KINDS = ("none", *DRAWN, *GIVEN)  # but for labels that come with the data, which only some data has


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    """CIFAR-100's classes with a few random pixels, in random order, and files of labels beside them."""
    spec = replace(DATA["cifar100"].spec, shape=(3, 4, 4))
    y = rng(5).permutation(np.repeat(np.arange(100), ROWS))
    x = rng(6).integers(0, 256, (len(y), *spec.shape), dtype=np.uint8)
    shifted = np.where(rng(7).random(len(y)) < 0.4, (y + 1) % 100, y)
    np.save(tmp_path / "labels.npy", shifted)
    np.save(tmp_path / "matrix.npy", np.eye(100) * 0.6 + np.roll(np.eye(100), 3, axis=1) * 0.4)
    torch.save({"clean_label": y, "noisy_label": shifted}, tmp_path / "CIFAR-100_human.pt")
    return replace(arrays(spec, x, y, x[:200], y[:200]), folder=tmp_path)


def noise_called(name: str, folder: Path) -> Noise:
    files: dict[str, Noise] = {
        "file": FromFile(str(folder / "labels.npy")),
        "matrix": Matrix(str(folder / "matrix.npy")),
        "human": Human("noisy"),
    }
    return files.get(name, NOISES[name])


def test_every_kind_is_looked_at_here() -> None:
    assert {*KINDS, "given"} == set(NOISES)


@pytest.mark.parametrize("name", KINDS)
def test_labels_are_whole_numbers_of_classes_one_for_each_row(
    name: str, data: Dataset, tmp_path: Path
) -> None:
    observed = noise_called(name, tmp_path)(data, rng())
    assert observed.dtype == np.int64
    assert observed.shape == data.y.shape
    assert observed.min() >= 0
    assert observed.max() < 100


@pytest.mark.parametrize("name", RATED)
def test_of_each_class_the_share_that_was_asked_for_is_wrong(
    name: str, data: Dataset, tmp_path: Path
) -> None:
    shares = rates(transitions(data.y, noise_called(name, tmp_path)(data, rng()), 100))
    assert shares.sum(axis=1) == pytest.approx(1)
    # The rates of forty rows of instance noise have a mean of their own.
    slack = 0.08 if name == "instance" else 1e-9
    assert shares.diagonal() == pytest.approx(0.6, abs=slack)
    assert shares.diagonal().mean() == pytest.approx(0.6, abs=0.01)


def test_a_matrix_is_realised_row_by_row(data: Dataset, tmp_path: Path) -> None:
    shares = rates(transitions(data.y, noise_called("matrix", tmp_path)(data, rng()), 100))
    assert shares == pytest.approx(np.load(tmp_path / "matrix.npy"))


@pytest.mark.parametrize("name", RATED)
def test_at_a_rate_of_one_nearly_no_label_is_true(name: str, data: Dataset) -> None:
    noise = replace(NOISES[name], rate=1.0)  # type: ignore[type-var]
    wrong = noise(data, rng()) != data.y
    # Rates of instance noise are cut off at 1, hence below it in the mean: 1 - 0.1 * sqrt(2 / pi).
    assert wrong.mean() == pytest.approx(0.92, abs=0.005) if name == "instance" else wrong.all()


@pytest.mark.parametrize("name", KINDS)
def test_the_same_seed_gives_the_same_labels(name: str, data: Dataset, tmp_path: Path) -> None:
    noise = noise_called(name, tmp_path)
    first, again, other = (noise(data, rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == (name not in DRAWN)


@pytest.mark.parametrize("name", KINDS)
def test_the_truth_and_the_test_set_stay_as_they_are(name: str, data: Dataset, tmp_path: Path) -> None:
    truth, test_truth = data.y.copy(), data.test_y.copy()
    observed = noise_called(name, tmp_path)(data, rng())
    observed_copy = observed.copy()
    stream = make_stream(data, observed, range(100), [10] * 10, 0.0, rng())
    assert np.array_equal(data.y, truth)
    assert np.array_equal(data.test_y, test_truth)
    assert np.array_equal(observed, observed_copy)
    for test in stream.tests:
        assert torch.equal(test.y, torch.from_numpy(test_truth)[test.id])
    observed[:] = 0
    assert np.array_equal(data.y, truth)


@pytest.mark.parametrize("name", GIVEN)
def test_given_labels_follow_the_rows_of_a_subset(name: str, data: Dataset, tmp_path: Path) -> None:
    noise, part = noise_called(name, tmp_path), subset(data, 7, rng())
    assert np.array_equal(noise(part, rng()), noise(data, rng())[part.index])
