"""Label noise: values that give each training row the label that is observed.

Noise is drawn once over the whole training set, before it is split into tasks; test rows keep their
true labels.
"""

from remnant.data.source import Spec
from remnant.errors import RemnantError
from remnant.noise.base import Demanding, Noise
from remnant.noise.by_class import (
    Asymmetric,
    Block,
    Clean,
    SuperclassRandom,
    Symmetric,
    next_in_group,
    pair_flip,
    symmetric,
)
from remnant.noise.by_instance import Instance
from remnant.noise.files import FromFile
from remnant.noise.given import Given
from remnant.noise.human import Human
from remnant.noise.matrix import Matrix

__all__ = [
    "NOISES",
    "Asymmetric",
    "Block",
    "Clean",
    "FromFile",
    "Given",
    "Human",
    "Instance",
    "Matrix",
    "Noise",
    "SuperclassRandom",
    "Symmetric",
    "check_fits",
    "next_in_group",
    "pair_flip",
    "symmetric",
]

NOISES: dict[str, Noise] = {
    "none": Clean(),
    "symmetric": Symmetric(),
    "asymmetric": Asymmetric(),
    "block": Block(),
    "superclass-random": SuperclassRandom(),
    "instance": Instance(),
    "matrix": Matrix(path="matrix.npy"),
    "human": Human(),
    "file": FromFile(path="labels.npy"),
    "given": Given(),
}


def check_fits(noise: Noise, spec: Spec) -> None:
    """Refuse noise that needs what is not there."""
    if spec.labels_are_given and not isinstance(noise, Given):
        raise RemnantError(
            f"{spec.name} came with wrong labels, and nobody knows the right ones, which other noise "
            "is made from. Use given."
        )
    if isinstance(noise, Demanding):
        noise.check(spec)
