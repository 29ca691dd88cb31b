"""Transform for feature vectors: standardisation, and Gaussian noise as augmentation.

Shapes: B vectors of D values.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

EPSILON = 1e-6  # of a vector whose values are all equal
STRONG = 2.0  # strength of strong augmentation, as a multiple of that of weak augmentation


@dataclass(frozen=True)
class VectorTransform:
    """Standardisation of each vector by its own mean and deviation; `noise` is relative to the deviation."""

    noise: float = 0.0

    def plain(self, x: Tensor) -> Tensor:
        """Standardise vectors (B, D), without augmentation."""
        return standardised(x.float())

    def augmented(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Apply weak augmentation: add noise to each value independently."""
        return self._noisy(x, self.noise, rng)

    def strong(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Apply strong augmentation: add stronger noise."""
        return self._noisy(x, STRONG * self.noise, rng)

    def _noisy(self, x: Tensor, strength: float, rng: torch.Generator) -> Tensor:
        if not strength:
            return self.plain(x)
        return self.plain(x) + strength * torch.randn(x.shape, generator=rng).to(x.device)


def standardised(x: Tensor) -> Tensor:
    """Return vectors with mean 0 and standard deviation 1 over their values.

    >>> standardised(torch.tensor([[1.0, 3.0]]))
    tensor([[-1.0000,  1.0000]])
    """
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True).sqrt() + EPSILON)
