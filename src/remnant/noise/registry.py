"""The registry of label noises by name."""

from remnant.data.dataset import Spec
from remnant.errors import RemnantError
from remnant.noise.base import ChecksDataset, Noise
from remnant.noise.by_class import Asymmetric, Block, Clean, SuperclassRandom, Symmetric
from remnant.noise.by_instance import Instance
from remnant.noise.from_file import FromFile
from remnant.noise.given import Given
from remnant.noise.human import Human
from remnant.noise.matrix import Matrix

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
    """Raise RemnantError if this noise cannot be applied to this dataset."""
    if spec.has_noisy_labels and not isinstance(noise, Given):
        raise RemnantError(
            f"{spec.name} has noisy labels whose true classes are unknown, but this noise needs true "
            "labels. Use the noise `given`."
        )
    if isinstance(noise, ChecksDataset):
        noise.check(spec)
