"""The 8 x 8 digits of scikit-learn: the default dataset, which needs no download."""

from pathlib import Path

import numpy as np

from remnant.data.dataset import Dataset, Spec, arrays
from remnant.transforms.image import ImageTransform

SIMILAR = {2: 7, 3: 8, 5: 6, 6: 5, 7: 1}  # the pairs of Patrini et al. (2017) for MNIST

DIGITS = Spec(
    name="digits",
    shape=(1, 8, 8),
    classes=tuple("0123456789"),
    transform=ImageTransform(mean=(0.3053,), std=(0.3761,), pad=1, flip=False),
    confused_with=SIMILAR,
)
TEST_FRACTION = 0.2


def load_digits(_: Path | None = None) -> Dataset:
    """Load the 1,797 images, split into training and test split by class, with a fixed seed."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    x = np.round(bunch.images / 16 * 255).astype(np.uint8)[:, None]
    y = bunch.target.astype(np.int64)
    rng = np.random.default_rng(0)
    is_test = np.zeros(len(y), dtype=bool)
    for label in range(10):
        index = rng.permutation(np.flatnonzero(y == label))
        is_test[index[: round(TEST_FRACTION * len(index))]] = True
    return arrays(DIGITS, x[~is_test], y[~is_test], x[is_test], y[is_test], truth=y[~is_test])
