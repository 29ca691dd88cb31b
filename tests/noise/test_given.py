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
    data = replace(clean, spec=replace(clean.spec, has_noisy_labels=True), given=published)
    observed = Given()(data, rng())
    assert np.array_equal(observed, published)
    assert observed is not data.given


def test_a_dataset_with_clean_labels_raises() -> None:
    with pytest.raises(RemnantError, match="needs a dataset with noisy labels, but tiny has clean labels"):
        Given()(tiny_data(), rng())
