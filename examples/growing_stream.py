"""A learner whose classes arrive over time, with 30 % noisy labels: it is saved and loaded between tasks.

python examples/growing_stream.py
"""

import tempfile

import numpy as np
from sklearn.datasets import load_digits

from remnant import Learner

SETTINGS = {"net": "small:16", "buffer_size": 60, "epochs": 6, "batch": 16}


def main(per_class: int = 60) -> float:
    """Learn three pairs of digits, print the most doubtful labels, and return the accuracy."""
    rng, digits = np.random.default_rng(0), load_digits()
    images = (digits.images / 16).astype(np.float32)
    learner = Learner("aer-abs", **SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        for pair in ((0, 1), (2, 3), (4, 5)):
            chosen = np.concatenate([np.flatnonzero(digits.target == c)[:per_class] for c in pair])
            labels = np.where(
                rng.random(len(chosen)) < 0.3, rng.choice(pair, len(chosen)), digits.target[chosen]
            )
            learner.learn(images[chosen], [f"digit {label}" for label in labels])
            learner.save(folder)
            learner = Learner.load(folder)  # next month, in another process
    for row in learner.suspects()[:5]:
        print(f"sample {row.id}: given {row.given}, suggested {row.suggested}, score {row.score:.3f}")
    held_out = np.flatnonzero(digits.target < 6)[-200:]
    return float(
        np.mean(learner.predict(images[held_out]) == [f"digit {c}" for c in digits.target[held_out]])
    )


if __name__ == "__main__":
    print(f"accuracy {100 * main():.1f} %")
