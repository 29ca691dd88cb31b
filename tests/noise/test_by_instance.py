import numpy as np
import pytest
from conftest import tiny_data
from hypothesis import given, settings, strategies as st
from noise_helpers import rng

from remnant.config import resolve
from remnant.data import data_dir, load
from remnant.data.dataset import Dataset, subset
from remnant.noise import NOISES, Instance
from remnant.noise.by_instance import draw_flip_rates, draw_noisy_labels, load_pixels, select_noisy


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits", None)


@pytest.mark.parametrize("shared", [False, True])
def test_the_fraction_of_noisy_labels_is_the_noise_rate(digits: Dataset, shared: bool) -> None:
    for rate in (0.2, 0.4, 0.8):
        noisy = Instance(rate, shared)(digits, rng()) != digits.y
        assert noisy.mean() == pytest.approx(rate, abs=0.01)


@pytest.mark.slow
def test_the_fraction_of_noisy_labels_is_the_noise_rate_for_many_seeds(digits: Dataset) -> None:
    for rate in (0.2, 0.3, 0.4, 0.6, 0.8):
        for seed in range(8):
            for shared in (False, True):
                noisy = Instance(rate, shared)(digits, rng(seed)) != digits.y
                assert noisy.mean() == pytest.approx(rate, abs=0.01)


def test_truncation_at_zero_raises_the_mean_of_low_flip_rates() -> None:
    # The mean of a normal (0.1, 0.1) above 0 is 0.1 + 0.1 * 0.24197 / 0.84134.
    assert draw_flip_rates(0.1, 20_000, rng()).mean() == pytest.approx(0.1288, abs=1e-4)


@given(st.floats(0, 1))
@settings(max_examples=30)
def test_every_sample_has_its_own_flip_rate_in_zero_to_one(rate: float) -> None:
    rates = draw_flip_rates(rate, 200, rng())
    assert ((rates >= 0) & (rates <= 1)).all()
    assert len(np.unique(rates)) > 190


def test_flip_rates_have_a_standard_deviation_of_a_tenth() -> None:
    rates = draw_flip_rates(0.5, 20_000, rng())
    assert rates.mean() == pytest.approx(0.5, abs=1e-4)
    assert rates.std() == pytest.approx(0.1, abs=1e-3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.integers(0, 99))
@settings(max_examples=60)
def test_the_number_of_noisy_samples_is_the_sum_of_the_flip_rates(rates: list[float], seed: int) -> None:
    noisy = select_noisy(np.array(rates), rng(seed)).sum()
    assert abs(noisy - sum(rates)) < 1 + 1e-9


def test_each_sample_is_selected_with_its_own_flip_rate() -> None:
    rates, draws = np.array([0.0, 0.1, 0.5, 0.9, 1.0]), rng()
    frequency = np.mean([select_noisy(rates, draws) for _ in range(4000)], axis=0)
    assert frequency == pytest.approx(rates, abs=0.03)
    assert frequency[0] == 0
    assert frequency[4] == 1


def test_a_noisy_label_is_never_the_true_label() -> None:
    x, weights = rng().standard_normal((500, 4)), rng(1).standard_normal((4, 3))
    for label in range(3):
        assert label not in draw_noisy_labels(x, label, weights, rng())


def test_noisy_labels_are_drawn_from_the_softmax_of_the_scores() -> None:
    # Scores 0 (the true class), 0 and log 3: odds of one to three for the other classes.
    weights = np.array([[0.0, 0.0, np.log(3)]])
    counts = np.bincount(draw_noisy_labels(np.ones((8000, 1)), 0, weights, rng()), minlength=3)
    assert counts / 8000 == pytest.approx([0, 0.25, 0.75], abs=0.02)


def test_noisy_labels_equal_a_loop_over_samples() -> None:
    x, weights = rng().standard_normal((60, 5)) / 2, rng(1).standard_normal((5, 4))
    draws, expected = rng(2), []
    for sample in x:
        score = sample @ weights
        p = [0.0 if c == 1 else float(np.exp(score[c])) for c in range(4)]
        left, label = draws.random() * sum(p), 0
        while left >= p[label]:
            left -= p[label]
            label += 1
        expected.append(label)
    assert draw_noisy_labels(x, 1, weights, rng(2)).tolist() == expected


def test_similar_samples_get_the_same_noisy_label_more_often(digits: Dataset) -> None:
    """Class-dependent noise would not depend on the distance between samples."""
    data = subset(digits, 50, rng())
    runs = [Instance(1.0)(data, rng(0)) for _ in range(2)]
    assert np.array_equal(*runs)
    flat = np.concatenate([x for _, x in load_pixels(data, np.arange(len(data.y)))])
    near, far = [], []
    for label in range(10):
        index = np.flatnonzero(data.y == label)
        distance = ((flat[index, None] - flat[None, index]) ** 2).sum(2)
        np.fill_diagonal(distance, np.inf)
        neighbour = index[distance.argmin(1)]
        near.append((runs[0][index] == runs[0][neighbour]).mean())
        far.append((runs[0][index] == runs[0][rng().permutation(index)]).mean())
    assert np.mean(near) > np.mean(far) + 0.1


def test_each_class_has_its_own_matrix_unless_it_is_shared() -> None:
    """All samples are the same image, so the noisy labels of a class depend only on its matrix."""
    data = tiny_data(classes=6, rows=40)
    data.train.x[:] = 255  # type: ignore[attr-defined]

    def most_frequent(shared: bool) -> list[int]:
        observed = Instance(1.0, shared)(data, rng(3))
        noisy = [observed[(data.y == c) & (observed != c)] for c in range(6)]
        return [int(np.bincount(labels).argmax()) for labels in noisy]

    # With one matrix all classes get the same noisy label, except the class of that label.
    assert len(set(most_frequent(shared=True))) == 2
    assert len(set(most_frequent(shared=False))) > 2


def test_noise_is_determined_by_the_seed(digits: Dataset) -> None:
    first, again, other = (Instance(0.4)(digits, rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_chunk_size_does_not_change_the_labels(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Instance(0.4)(digits, rng())
    monkeypatch.setattr("remnant.noise.by_instance.CHUNK", 7)
    assert np.array_equal(Instance(0.4)(digits, rng()), whole)


def test_pixels_are_normalised_and_flat(digits: Dataset) -> None:
    (index, x), *_ = load_pixels(digits, np.arange(1024))
    assert index.tolist() == list(range(1024))
    assert x.shape == (1024, 64)
    assert x.mean() == pytest.approx(0, abs=0.05)
    assert x.std() == pytest.approx(1, abs=0.05)


def test_the_dataset_is_not_modified(digits: Dataset) -> None:
    truth, test_truth = digits.y.copy(), digits.test_y.copy()
    Instance(0.9)(digits, rng())
    assert np.array_equal(digits.y, truth)
    assert np.array_equal(digits.test_y, test_truth)


def test_instance_noise_is_chosen_by_name() -> None:
    assert resolve({"noise": "instance:0.3"}).noise == Instance(0.3)
    shared = resolve({"noise": {"name": "instance", "rate": 0.3, "shared": True}})
    assert shared.noise == Instance(0.3, shared=True)
    assert "instance-0.3-shared=True" in shared.run_id("x")
    assert NOISES["instance"] == Instance()
    with pytest.raises(ValueError, match=r"noise rate in \[0, 1\]"):
        Instance(1.5)


@pytest.mark.data
@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_every_class_of_cifar10_has_the_noise_rate(rate: float) -> None:
    data = load("cifar10", data_dir(None))
    noisy = Instance(rate)(data, rng()) != data.y
    for label in range(10):
        assert noisy[data.y == label].mean() == pytest.approx(rate, abs=0.01)
