"""Named random generators, all derived from one seed.

Draws in one part of a run never affect another part: the noise, for example, is the same for all methods.
The generators used in training can be saved and restored.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def derive(seed: int, name: str) -> int:
    """Return the seed of the generator called `name`."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def numpy_generator(seed: int, name: str) -> np.random.Generator:
    """Return the named NumPy generator, for data, noise and class order."""
    return np.random.default_rng(derive(seed, name))


def torch_generator(seed: int, name: str) -> torch.Generator:
    """Return the named torch generator."""
    return torch.Generator().manual_seed(derive(seed, name))


@dataclass(frozen=True, eq=False)
class Generators:
    """The random generators that training uses."""

    order: torch.Generator  # order of the samples within an epoch
    augment: torch.Generator  # augmentation of the stream and of replayed samples
    buffer: torch.Generator  # replay, insertion, replacement
    consolidate: torch.Generator  # order, augmentation and mixing in training on the buffer alone

    @classmethod
    def from_seed(cls, seed: int) -> "Generators":
        """Derive all generators from one seed."""
        # These names determine all random numbers of a run: renaming one changes all results.
        names = ("order", "augment", "memory", "consolidate")
        return cls(*(torch_generator(seed, name) for name in names))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of each generator."""
        return {name: rng.get_state() for name, rng in vars(self).items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a saved state."""
        for name, rng in vars(self).items():
            rng.set_state(state[name])
