"""A learner that has learned one small task."""

import numpy as np

from remnant import Learner


def some_images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 1, 8, 8), dtype=np.uint8)


def small_learner(labels: tuple[str, str] | tuple[int, int] = (4, 7)) -> Learner:
    learner = Learner("er", net="small:4", buffer_size=10, epochs=1, batch=8)
    return learner.learn(some_images(8), list(labels) * 4)
