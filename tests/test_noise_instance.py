import numpy as np
import pytest
from conftest import tiny_data
from hypothesis import given, settings
from hypothesis import strategies as st
from test_noise import rng

from remnant.config import resolve
from remnant.data import data_dir, load
from remnant.data.source import Dataset, subset
from remnant.noise import NOISES, Instance
from remnant.noise.by_instance import choose, mistaken, own_rates, pixels


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits", None)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rate", [0.2, 0.3, 0.4, 0.6, 0.8])
def test_the_realised_rate_is_the_one_asked_for(digits: Dataset, rate: float, shared: bool) -> None:
    for seed in range(8):
        wrong = Instance(rate, shared)(digits, rng(seed)) != digits.y
        assert wrong.mean() == pytest.approx(rate, abs=0.01)


def test_rates_cut_off_at_zero_lift_low_ones() -> None:
    # The mean of a normal (0.1, 0.1) above 0 is 0.1 + 0.1 * 0.24197 / 0.84134.
    assert own_rates(0.1, 20_000, rng()).mean() == pytest.approx(0.1288, abs=1e-4)


@given(st.floats(0, 1))
@settings(max_examples=30)
def test_every_row_has_a_rate_of_its_own_in_zero_to_one(rate: float) -> None:
    rates = own_rates(rate, 200, rng())
    assert ((rates >= 0) & (rates <= 1)).all()
    assert len(np.unique(rates)) > 190


def test_rates_deviate_by_a_tenth() -> None:
    rates = own_rates(0.5, 20_000, rng())
    assert rates.mean() == pytest.approx(0.5, abs=1e-4)
    assert rates.std() == pytest.approx(0.1, abs=1e-3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.integers(0, 99))
@settings(max_examples=60)
def test_as_many_are_chosen_as_the_rates_add_up_to(rates: list[float], seed: int) -> None:
    chosen = choose(np.array(rates), rng(seed)).sum()
    assert abs(chosen - sum(rates)) < 1 + 1e-9


def test_each_row_is_chosen_as_often_as_its_rate_says() -> None:
    rates, draws = np.array([0.0, 0.1, 0.5, 0.9, 1.0]), rng()
    often = np.mean([choose(rates, draws) for _ in range(4000)], axis=0)
    assert often == pytest.approx(rates, abs=0.03)
    assert often[0] == 0
    assert often[4] == 1


def test_the_true_class_is_no_mistake() -> None:
    x, weights = rng().standard_normal((500, 4)), rng(1).standard_normal((4, 3))
    for label in range(3):
        assert label not in mistaken(x, label, weights, rng())


def test_a_row_is_mistaken_by_the_softmax_of_its_scores() -> None:
    # Scores 0 (the true class), 0 and log 3: the others are one to three.
    weights = np.array([[0.0, 0.0, np.log(3)]])
    counts = np.bincount(mistaken(np.ones((8000, 1)), 0, weights, rng()), minlength=3)
    assert counts / 8000 == pytest.approx([0, 0.25, 0.75], abs=0.02)


def test_mistakes_are_those_of_the_rule_written_row_by_row() -> None:
    x, weights = rng().standard_normal((60, 5)) / 2, rng(1).standard_normal((5, 4))
    draws, literal = rng(2), []
    for row in x:
        score = row @ weights
        p = [0.0 if c == 1 else float(np.exp(score[c])) for c in range(4)]
        left, label = draws.random() * sum(p), 0
        while left >= p[label]:
            left -= p[label]
            label += 1
        literal.append(label)
    assert mistaken(x, 1, weights, rng(2)).tolist() == literal


def test_rows_that_look_alike_are_mistaken_alike(digits: Dataset) -> None:
    """Class-dependent noise would spread over nine classes; pixels choose among few."""
    twice = subset(digits, 50, rng())
    runs = [Instance(1.0)(twice, rng(0)) for _ in range(2)]
    assert np.array_equal(*runs)
    flat = np.concatenate([x for _, x in pixels(twice, np.arange(len(twice.y)))])
    near, far = [], []
    for label in range(10):
        rows = np.flatnonzero(twice.y == label)
        distance = ((flat[rows, None] - flat[None, rows]) ** 2).sum(2) + np.diag([np.inf] * len(rows))
        neighbour = rows[distance.argmin(1)]
        near.append((runs[0][rows] == runs[0][neighbour]).mean())
        far.append((runs[0][rows] == runs[0][rng().permutation(rows)]).mean())
    assert np.mean(near) > np.mean(far) + 0.1


def test_each_class_has_a_matrix_of_its_own_unless_it_is_shared() -> None:
    """Rows that are all the same image: what each class becomes tells the matrices apart."""
    data = tiny_data(classes=6, rows=40)
    data.train.x[:] = 255  # type: ignore[attr-defined]

    def favourites(shared: bool) -> list[int]:
        observed = Instance(1.0, shared)(data, rng(3))
        wrong = [observed[(data.y == c) & (observed != c)] for c in range(6)]
        return [int(np.bincount(labels).argmax()) for labels in wrong]

    # With one matrix all classes are taken for the same one, but for that one itself.
    assert len(set(favourites(shared=True))) == 2
    assert len(set(favourites(shared=False))) > 2


def test_the_same_seed_gives_the_same_labels_and_another_seed_others(digits: Dataset) -> None:
    first, again, other = (Instance(0.4)(digits, rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_size_of_a_chunk_changes_nothing(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Instance(0.4)(digits, rng())
    monkeypatch.setattr("remnant.noise.by_instance.CHUNK", 7)
    assert np.array_equal(Instance(0.4)(digits, rng()), whole)


def test_pixels_are_normalised_and_flat(digits: Dataset) -> None:
    (rows, x), *_ = pixels(digits, np.arange(1024))
    assert rows.tolist() == list(range(1024))
    assert x.shape == (1024, 64)
    assert x.mean() == pytest.approx(0, abs=0.05)
    assert x.std() == pytest.approx(1, abs=0.05)


def test_the_data_set_is_left_as_it_was(digits: Dataset) -> None:
    truth, test_truth = digits.y.copy(), digits.test_y.copy()
    Instance(0.9)(digits, rng())
    assert np.array_equal(digits.y, truth)
    assert np.array_equal(digits.test_y, test_truth)


def test_it_is_chosen_by_name() -> None:
    assert resolve({"noise": "instance:0.3"}).noise == Instance(0.3)
    shared = resolve({"noise": {"name": "instance", "rate": 0.3, "shared": True}})
    assert shared.noise == Instance(0.3, shared=True)
    assert "instance-0.3-shared=True" in shared.run_id("x")
    assert NOISES["instance"] == Instance()
    with pytest.raises(ValueError, match=r"share in \[0, 1\]"):
        Instance(1.5)


@pytest.mark.data
@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_real_cifar10_gets_the_rate_asked_for_in_every_class(rate: float) -> None:
    data = load("cifar10", data_dir(None))
    wrong = Instance(rate)(data, rng()) != data.y
    for label in range(10):
        assert wrong[data.y == label].mean() == pytest.approx(rate, abs=0.01)
