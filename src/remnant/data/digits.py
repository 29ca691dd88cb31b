"""The 8 x 8 digits inside scikit-learn: the default, because nothing has to be downloaded."""

import numpy as np

from remnant.augment import View
from remnant.data.source import Dataset, Spec, arrays

SPEC = Spec(
    name="digits",
    shape=(1, 8, 8),
    classes=tuple("0123456789"),
    view=View(mean=(0.3053,), std=(0.3761,), pad=1, flip=False),
)
TEST_SHARE = 0.2


def load() -> Dataset:
    """Split the 1,797 images into training and test, the same way always, class by class."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = np.round(bunch.images / 16 * 255).astype(np.uint8)[:, None]
    y = bunch.target.astype(np.int64)
    rng = np.random.default_rng(0)
    is_test = np.zeros(len(y), dtype=bool)
    for label in range(10):
        rows = rng.permutation(np.flatnonzero(y == label))
        is_test[rows[: round(TEST_SHARE * len(rows))]] = True
    return arrays(SPEC, x[~is_test], y[~is_test], x[is_test], y[is_test])
