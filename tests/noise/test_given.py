from dataclasses import replace

import numpy as np
import pytest
from conftest import tiny_data
from noise_helpers import rng

from remnant.errors import RemnantError
from remnant.noise import Given


def test_the_observed_labels_are_a_copy_of_the_published_ones() -> None:
    clean = tiny_data()
    published = (clean.y + 1) % 6
    data = replace(clean, spec=replace(clean.spec, has_noisy_labels=True), y=published)
    observed = Given()(data, rng())
    assert np.array_equal(observed, published)
    assert observed is not data.y


def test_a_dataset_that_is_not_published_with_noisy_labels_raises() -> None:
    with pytest.raises(RemnantError, match="published with noisy labels, and tiny is not one"):
        Given()(tiny_data(), rng())
