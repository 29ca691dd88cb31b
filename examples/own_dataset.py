"""A custom dataset: describe it with a Spec and wrap its arrays to run any method on it.

remnant run data=examples/own_dataset.py:STRIPES tasks=2
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


STRIPES = remnant.arrays(SPEC, *stripes(400, seed=0), *stripes(100, seed=1))

if __name__ == "__main__":
    print(remnant.run(data=STRIPES, name="stripes", tasks=2, epochs=6, buffer_size=40))
