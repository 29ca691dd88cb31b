"""A custom loss: generalised cross-entropy (Zhang and Sabuncu, 2018), which is robust to noisy labels.

remnant run --method er --set objective=examples/own_loss.py:GCE objective.q=0.5
"""

from dataclasses import dataclass

import remnant
from torch import Tensor


@dataclass(frozen=True)
class GeneralisedCrossEntropy(remnant.CrossEntropy):
    """(1 - p^q) / q on the stream: cross-entropy for q -> 0, the mean absolute error for q = 1."""

    q: float = remnant.setting(0.7, "robustness to noisy labels, in (0, 1]")

    def sample_loss(self, logits: Tensor, y: Tensor, seen: Tensor) -> Tensor:
        """Return the loss of each sample."""
        p = logits.softmax(1).gather(1, y[:, None]).flatten()
        return (1 - p**self.q) / self.q


GCE = GeneralisedCrossEntropy()

if __name__ == "__main__":
    print(remnant.run(method="er", objective=GCE, epochs=6))
