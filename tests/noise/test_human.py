from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_data
from noise_helpers import SHIFTS, annotations, rng, sha256, shuffled, write

from remnant.config import resolve
from remnant.data import data_dir, load
from remnant.data.dataset import subset
from remnant.errors import RemnantError
from remnant.noise import Human
from remnant.noise.human_labels import HUMAN_LABELS


@pytest.mark.parametrize("file", ["CIFAR-10_human.pt", "cifar10n_labels.npz"])
def test_each_kind_is_read_from_either_file(tmp_path: Path, file: str) -> None:
    data = shuffled("cifar10", tmp_path)
    write(tmp_path / file, annotations(data.y))
    for kind, shift in SHIFTS.items():
        assert np.array_equal(Human(kind)(data, rng()), (data.y + shift) % 10)


@pytest.mark.parametrize("file", ["CIFAR-100_human.pt", "cifar100n_labels.npz"])
@pytest.mark.parametrize(
    ("name", "kind", "clean"),
    [("cifar100", "noisy", "clean_label"), ("cifar100-coarse", "coarse", "clean_coarse_label")],
)
def test_cifar100_has_fine_and_coarse_labels(
    tmp_path: Path, name: str, kind: str, clean: str, file: str
) -> None:
    data = shuffled(name, tmp_path)
    classes = len(data.spec.classes)
    noisy = {"noisy": "noisy_label", "coarse": "noisy_coarse_label"}[kind]
    write(tmp_path / file, {clean: data.y, noisy: (data.y + 7) % classes})
    assert np.array_equal(Human(kind)(data, rng()), (data.y + 7) % classes)


def test_a_subset_gets_the_labels_of_its_own_samples(tmp_path: Path) -> None:
    data = shuffled("cifar10", tmp_path)
    shifts = np.arange(len(data.y)) % 3
    write(tmp_path / "CIFAR-10_human.pt", annotations(data.y) | {"worse_label": (data.y + shifts) % 10})
    part = subset(data, 2, rng(1))
    assert len(part.y) == 20
    assert np.array_equal(Human("worse")(part, rng()), ((data.y + shifts) % 10)[part.index])


def test_human_labels_do_not_depend_on_the_seed(tmp_path: Path) -> None:
    data = shuffled("cifar10", tmp_path)
    write(tmp_path / "CIFAR-10_human.pt", annotations(data.y))
    assert np.array_equal(Human("aggre")(data, rng(0)), Human("aggre")(data, rng(1)))


@pytest.mark.parametrize("file", ["CIFAR-10_human.pt", "cifar10n_labels.npz"])
def test_samples_in_a_different_order_raise_and_the_first_is_named(tmp_path: Path, file: str) -> None:
    data = shuffled("cifar10", tmp_path)
    other = data.y.copy()
    other[[17, 30]] = (other[[17, 30]] + 1) % 10
    write(tmp_path / file, annotations(other))
    names = data.spec.classes
    message = f"2 of 40 differ, first at index 17: expected {names[data.y[17]]}, got {names[other[17]]}"
    with pytest.raises(RemnantError, match=rf"{file}: expected .* cifar10 in clean_label, but {message}"):
        Human("worse")(data, rng())


def test_labels_of_another_dataset_raise(tmp_path: Path) -> None:
    data = shuffled("cifar10", tmp_path)
    write(tmp_path / "CIFAR-10_human.pt", annotations(data.y[:30]))
    with pytest.raises(RemnantError, match="each of the 40 training samples of cifar10, got 30"):
        Human("worse")(data, rng())
    write(tmp_path / "CIFAR-10_human.pt", annotations(data.y) | {"worse_label": data.y + 5})
    with pytest.raises(RemnantError, match="from 0 to 9, got 5 to 14"):
        Human("worse")(data, rng())


def test_a_kind_must_exist_for_the_dataset() -> None:
    with pytest.raises(ValueError, match="unknown kind of human labels 'worst'; did you mean 'worse'"):
        Human("worst")
    for data, kind in (("cifar100", "worse"), ("cifar10", "noisy"), ("digits", "worse")):
        with pytest.raises(RemnantError, match=f"no human labels '{kind}' for {data}.*cifar100: noisy"):
            resolve({"data": data, "noise": f"human:{kind}"})
    with pytest.raises(RemnantError, match="no human labels"):
        Human()(tiny_data(), rng())


def test_human_labels_are_chosen_by_name() -> None:
    config = resolve({"data": "cifar10", "noise": "human:random2"})
    assert config.noise == Human("random2")
    assert "human-random2" in config.run_id("x")


@pytest.mark.data
@pytest.mark.parametrize(
    ("kind", "percent"),
    [("aggre", 9.01), ("random1", 17.23), ("random2", 18.12), ("random3", 17.64), ("worse", 40.21)],
)
def test_the_noise_rates_of_cifar10n_are_as_published(kind: str, percent: float) -> None:
    data = load("cifar10", data_dir(None))
    observed = Human(kind)(data, rng())
    assert (observed != data.y).mean() * 100 == pytest.approx(percent, abs=0.006)
    source = HUMAN_LABELS["cifar10"]
    assert sha256(observed) == source.sha256[source.kinds[kind]]
    part = subset(data, 500, rng())
    assert np.array_equal(Human(kind)(part, rng()), observed[part.index])
