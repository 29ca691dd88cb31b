"""Label noise: values that give each training row the label that is observed.

Noise is drawn once over the whole training set, before it is split into tasks; test rows keep their
true labels.
"""

from remnant.noise.base import Noise, check_fits
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
from remnant.noise.human import Human
from remnant.noise.matrix import Matrix

__all__ = [
    "NOISES",
    "Asymmetric",
    "Block",
    "Clean",
    "FromFile",
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
}
