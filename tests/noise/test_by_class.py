from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from conftest import tiny_data
from hypothesis import given, settings, strategies as st
from noise_helpers import dataset_like, rng

from remnant.errors import RemnantError
from remnant.noise import (
    Asymmetric,
    Block,
    Clean,
    Given,
    Noise,
    SuperclassRandom,
    Symmetric,
    next_in_group,
    pair_flip,
    symmetric,
)


@given(st.floats(0, 1), st.integers(2, 12), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_symmetric_noise_flips_an_exact_fraction_of_each_class(rate: float, classes: int, n: int) -> None:
    y = np.repeat(np.arange(classes), n)
    observed = symmetric(y, rate, classes, rng())
    for label in range(classes):
        assert (observed[y == label] != label).sum() == round(rate * n)


def test_symmetric_noise_at_rate_one_never_keeps_the_true_label() -> None:
    y = np.repeat(np.arange(10), 200)
    assert (symmetric(y, 1.0, 10, rng()) != y).all()


def test_symmetric_noise_flips_to_all_other_classes_with_equal_probability() -> None:
    y = np.zeros(9000, dtype=np.int64)
    counts = np.bincount(symmetric(y, 1.0, 10, rng()), minlength=10)
    assert counts[0] == 0
    assert counts[1:] == pytest.approx([1000] * 9, abs=150)


def test_noisy_samples_are_spread_over_the_whole_class() -> None:
    y = np.zeros(1000, dtype=np.int64)
    noisy = symmetric(y, 0.4, 10, rng()) != y
    assert noisy[:500].sum() == pytest.approx(200, abs=50)


def test_noise_is_determined_by_the_seed() -> None:
    y = np.repeat(np.arange(5), 50)
    assert np.array_equal(symmetric(y, 0.4, 5, rng(1)), symmetric(y, 0.4, 5, rng(1)))
    assert not np.array_equal(symmetric(y, 0.4, 5, rng(1)), symmetric(y, 0.4, 5, rng(2)))


def test_asymmetric_cifar10_noise_flips_five_classes_to_similar_ones() -> None:
    data = dataset_like("cifar10")
    names = data.spec.classes
    observed = Asymmetric(0.4)(data, rng())
    flips = {(names[a], names[b]) for a, b in zip(data.y, observed, strict=True) if a != b}
    assert flips == {
        ("truck", "automobile"),
        ("bird", "airplane"),
        ("deer", "horse"),
        ("cat", "dog"),
        ("dog", "cat"),
    }
    assert (observed != data.y).mean() == pytest.approx(0.2)


def test_asymmetric_noise_of_digits_flips_the_pairs_of_patrini() -> None:
    data = dataset_like("digits", per_class=10)
    observed = Asymmetric(0.4)(data, rng())
    # Four of ten samples: 2 -> 7, 3 -> 8, 5 <-> 6, 7 -> 1.
    assert np.bincount(observed).tolist() == [10, 14, 6, 6, 10, 10, 10, 10, 14, 10]
    counts = Counter((int(a), int(b)) for a, b in zip(data.y, observed, strict=True) if a != b)
    assert counts == {(2, 7): 4, (3, 8): 4, (5, 6): 4, (6, 5): 4, (7, 1): 4}


def test_asymmetric_noise_of_fashion_mnist_flips_five_classes_to_similar_ones() -> None:
    data = dataset_like("fashion-mnist", per_class=10)
    names = data.spec.classes
    observed = Asymmetric(0.3)(data, rng())
    counts = Counter((names[a], names[b]) for a, b in zip(data.y, observed, strict=True) if a != b)
    assert counts == {
        ("ankle-boot", "sneaker"): 3,
        ("sneaker", "sandal"): 3,
        ("pullover", "shirt"): 3,
        ("coat", "dress"): 3,
        ("dress", "coat"): 3,
    }


def test_asymmetric_cifar100_noise_stays_inside_the_superclass() -> None:
    data = dataset_like("cifar100", per_class=10)
    group = np.array(data.spec.superclass)
    observed = Asymmetric(0.4)(data, rng())
    noisy = observed != data.y
    assert noisy.mean() == pytest.approx(0.4)
    assert (group[observed] == group[data.y]).all()
    targets = {(a, b) for a, b in zip(data.y[noisy], observed[noisy], strict=True)}
    assert len(targets) == 100  # one target for each class


def test_block_noise_flips_to_the_next_class_of_the_block() -> None:
    data = dataset_like("cifar100", per_class=10)
    observed = Block(0.4)(data, rng())
    noisy = observed != data.y
    assert (observed[noisy] // 5 == data.y[noisy] // 5).all()
    assert ((observed[noisy] - data.y[noisy]) % 5 == 1).all()


def test_superclass_random_noise_uses_all_four_other_classes() -> None:
    data = dataset_like("cifar100", per_class=100)
    group = np.array(data.spec.superclass)
    observed = SuperclassRandom(0.4)(data, rng())
    assert (group[observed] == group[data.y]).all()
    of_first = observed[(data.y == 0) & (observed != 0)]
    assert len(np.unique(of_first)) == 4


def test_classes_without_a_target_stay_clean() -> None:
    y = np.repeat(np.arange(3), 10)
    observed = pair_flip(y, 1.0, {0: 2}, rng())
    assert observed.tolist() == [2] * 10 + [1] * 10 + [2] * 10


def test_a_group_of_one_class_has_no_flip_target() -> None:
    assert next_in_group([0, 1, 1]) == {1: 2, 2: 1}


@pytest.mark.parametrize("noise", [Asymmetric(0.2), SuperclassRandom(0.2)])
def test_noise_that_needs_superclasses_or_pairs_raises_without_them(noise: Noise) -> None:
    with pytest.raises(RemnantError, match=r"noise needs superclasses.* tiny has.* Use"):
        noise(tiny_data(), rng())


def test_no_noise_returns_a_copy_of_the_true_labels() -> None:
    data = tiny_data()
    observed = Clean()(data, rng())
    assert np.array_equal(observed, data.y)
    assert observed is not data.y


def test_the_noise_given_returns_a_copy_of_the_published_labels() -> None:
    clean = tiny_data()
    published = (clean.y + 1) % 6
    data = replace(clean, spec=replace(clean.spec, has_noisy_labels=True), y=published)
    observed = Given()(data, rng())
    assert np.array_equal(observed, published)
    assert observed is not data.y


def test_the_noise_given_raises_for_a_dataset_that_is_not_published_with_noisy_labels() -> None:
    with pytest.raises(RemnantError, match="published with noisy labels, and tiny is not one"):
        Given()(tiny_data(), rng())


@pytest.mark.parametrize("rate", [1.2, -0.1, float("nan")])
def test_a_noise_rate_must_be_between_zero_and_one(rate: float) -> None:
    with pytest.raises(ValueError, match=rf"expected a noise rate in \[0, 1\], got {rate:g}"):
        Symmetric(rate)


def test_a_block_has_at_least_two_classes() -> None:
    with pytest.raises(ValueError, match="expected a block size of at least 2 classes, got 1"):
        Block(size=1)


def test_a_noise_rate_in_percent_is_shown_as_a_fraction() -> None:
    with pytest.raises(ValueError, match=r"for 40 % write 0\.4"):
        Symmetric(40)
