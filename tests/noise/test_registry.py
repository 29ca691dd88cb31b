"""Tests of all noises in the registry, on a dataset that fits all of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from noise_helpers import rng

from remnant.data import DATA
from remnant.data.dataset import Dataset, Labels, arrays, subset
from remnant.errors import RemnantError
from remnant.noise import NOISES, FromFile, Human, Matrix, Noise, check_fits
from remnant.report.transition import rates, transitions
from remnant.stream import make_stream

PER_CLASS = 40
RATED = (
    "symmetric",
    "asymmetric",
    "block",
    "superclass-random",
    "instance",
)  # at their default rate, 0.4
RANDOM = (*RATED, "matrix")
READ = ("human", "file")
KINDS = ("none", *RANDOM, *READ)  # without `given`, which fits only some datasets, and `open-set`


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    """Return the classes of CIFAR-100 in random order with random pixels, and write label files."""
    spec = replace(DATA["cifar100"].spec, shape=(3, 4, 4))
    y = rng(5).permutation(np.repeat(np.arange(100), PER_CLASS))
    x = rng(6).integers(0, 256, (len(y), *spec.shape), dtype=np.uint8)
    shifted = np.where(rng(7).random(len(y)) < 0.4, (y + 1) % 100, y)
    np.save(tmp_path / "labels.npy", shifted)
    np.save(tmp_path / "matrix.npy", np.eye(100) * 0.6 + np.roll(np.eye(100), 3, axis=1) * 0.4)
    torch.save({"clean_label": y, "noisy_label": shifted}, tmp_path / "CIFAR-100_human.pt")
    return replace(arrays(spec, x, y, x[:200], y[:200], truth=y), folder=tmp_path)


def make_noise(name: str, folder: Path) -> Noise:
    files: dict[str, Noise] = {
        "file": FromFile(str(folder / "labels.npy")),
        "matrix": Matrix(str(folder / "matrix.npy")),
        "human": Human("noisy"),
    }
    return files.get(name, NOISES[name])


def test_every_registered_noise_is_tested_here() -> None:
    assert {*KINDS, "given", "open-set"} == set(NOISES)


@pytest.mark.parametrize("name", KINDS)
def test_observed_labels_are_one_class_index_per_sample(name: str, data: Dataset, tmp_path: Path) -> None:
    observed = make_noise(name, tmp_path)(data, rng())
    assert observed.dtype == np.int64
    assert observed.shape == data.y.shape
    assert observed.min() >= 0
    assert observed.max() < 100


@pytest.mark.parametrize("name", RATED)
def test_every_class_has_the_noise_rate(name: str, data: Dataset, tmp_path: Path) -> None:
    fractions = rates(transitions(data.y, make_noise(name, tmp_path)(data, rng()), 100))
    assert fractions.sum(axis=1) == pytest.approx(1)
    # The mean flip rate of the forty samples of a class varies in instance noise.
    tolerance = 0.08 if name == "instance" else 1e-9
    assert fractions.diagonal() == pytest.approx(0.6, abs=tolerance)
    assert fractions.diagonal().mean() == pytest.approx(0.6, abs=0.01)


def test_a_transition_matrix_is_realised_exactly(data: Dataset, tmp_path: Path) -> None:
    fractions = rates(transitions(data.y, make_noise("matrix", tmp_path)(data, rng()), 100))
    assert fractions == pytest.approx(np.load(tmp_path / "matrix.npy"))


@pytest.mark.parametrize("name", RATED)
def test_at_a_noise_rate_of_one_nearly_all_labels_are_noisy(name: str, data: Dataset) -> None:
    noise = replace(NOISES[name], rate=1.0)  # type: ignore[type-var]
    noisy = noise(data, rng()) != data.y
    # Flip rates of instance noise are truncated at 1, so that their mean is 1 - 0.1 * sqrt(2 / pi).
    assert noisy.mean() == pytest.approx(0.92, abs=0.005) if name == "instance" else noisy.all()


@pytest.mark.parametrize("name", KINDS)
def test_noise_is_determined_by_the_seed(name: str, data: Dataset, tmp_path: Path) -> None:
    noise = make_noise(name, tmp_path)
    first, again, other = (noise(data, rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == (name not in RANDOM)


@pytest.mark.parametrize("name", KINDS)
def test_true_labels_and_test_labels_are_not_modified(name: str, data: Dataset, tmp_path: Path) -> None:
    truth, test_truth = data.y.copy(), data.test_y.copy()
    observed = make_noise(name, tmp_path)(data, rng())
    observed_copy = observed.copy()
    stream = make_stream(data, observed, range(100), [10] * 10, 0.0, rng())
    assert np.array_equal(data.y, truth)
    assert np.array_equal(data.test_y, test_truth)
    assert np.array_equal(observed, observed_copy)
    for test in stream.tests:
        assert torch.equal(test.y, torch.from_numpy(test_truth)[test.id])
    observed[:] = 0
    assert np.array_equal(data.y, truth)


@pytest.mark.parametrize("name", READ)
def test_labels_from_files_follow_the_samples_of_a_subset(name: str, data: Dataset, tmp_path: Path) -> None:
    noise, part = make_noise(name, tmp_path), subset(data, 7, rng())
    assert np.array_equal(noise(part, rng()), noise(data, rng())[part.index])


def test_a_plain_function_is_a_noise(data: Dataset) -> None:
    def all_zero(dataset: Dataset, generator: np.random.Generator) -> Labels:
        return np.zeros_like(dataset.y)

    noise: Noise = all_zero
    check_fits(noise, data.spec)
    assert not noise(data, rng()).any()
    with pytest.raises(RemnantError, match="whose true classes are unknown"):
        check_fits(noise, replace(data.spec, has_noisy_labels=True))


def test_a_dataset_with_noisy_labels_allows_only_the_noise_given(data: Dataset) -> None:
    noisy = replace(data.spec, has_noisy_labels=True)
    for name, noise in NOISES.items():
        if name != "given":
            with pytest.raises(RemnantError, match=r"cifar100 has noisy labels.* Use the noise `given`"):
                check_fits(noise, noisy)
    check_fits(NOISES["given"], noisy)
    with pytest.raises(RemnantError, match="published with noisy labels, and cifar100 is not one"):
        check_fits(NOISES["given"], data.spec)
