"""A custom dataset: describe it with a Spec and wrap its arrays to run any method on it.

remnant run data=examples/own_dataset.py:STRIPES tasks=2 --noise symmetric:0.4
remnant run data=examples/own_dataset.py:UNVERIFIED tasks=2
"""

import numpy as np
import remnant

SPEC = remnant.Spec(
    name="stripes",
    shape=(1, 8, 8),  # of one image, channels first
    classes=("horizontal", "vertical", "rising", "falling"),
    transform=remnant.ImageTransform(mean=(0.5,), std=(0.4,), pad=1, flip=False),
)


def stripes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images of stripes in four directions, with pixel noise, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 4
    row, column = np.mgrid[:8, :8]
    phase = np.stack([row, column, row + column, row - column])[y] + rng.integers(4, size=(count, 1, 1))
    x = 255 * (phase % 4 < 2) + rng.normal(0, 60, phase.shape)
    return x.clip(0, 255).astype(np.uint8)[:, None], y


x, y = stripes(400, seed=0)
test_x, test_y = stripes(100, seed=1)

# Labels that are known to be clean: noise can be added, and buffer purity is measured.
STRIPES = remnant.arrays(SPEC, x, y, test_x, test_y, truth=y)

# Labels of which some may be wrong: they are used as they are, and whatever needs true labels is unknown.
observed = np.where(np.arange(400) % 5, y, (y + 1) % 4)
UNVERIFIED = remnant.arrays(SPEC, x, observed, test_x, test_y)

if __name__ == "__main__":
    print(remnant.run(data=STRIPES, noise="symmetric:0.4", tasks=2, epochs=6, buffer_size=40))
    print(remnant.run(data=UNVERIFIED, tasks=2, epochs=6, buffer_size=40))
