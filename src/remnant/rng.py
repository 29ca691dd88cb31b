"""Random streams with names, all derived from one seed.

What one part draws never shifts what another part sees: a method that augments more does not get other
noise. The streams that run through training can be saved and restored.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def derive(seed: int, name: str) -> int:
    """Return the seed of the stream called `name`."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def numpy_generator(seed: int, name: str) -> np.random.Generator:
    """Return the named stream for numpy: data, noise, class order."""
    return np.random.default_rng(derive(seed, name))


def torch_generator(seed: int, name: str) -> torch.Generator:
    """Return the named stream for torch."""
    return torch.Generator().manual_seed(derive(seed, name))


@dataclass(frozen=True, eq=False)
class Generators:
    """The random streams that training consumes."""

    order: torch.Generator  # of the rows within an epoch
    augment: torch.Generator  # crops and flips
    memory: torch.Generator  # which rows are replayed, who enters, who leaves
    consolidate: torch.Generator  # order, crops and mixing where the memory alone is learned from

    @classmethod
    def from_seed(cls, seed: int) -> "Generators":
        """Derive all of them from one seed."""
        names = ("order", "augment", "memory", "consolidate")
        return cls(*(torch_generator(seed, name) for name in names))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the position of each stream."""
        return {name: rng.get_state() for name, rng in vars(self).items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from these positions."""
        for name, rng in vars(self).items():
            rng.set_state(state[name])
