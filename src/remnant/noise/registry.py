"""The registry of label noises by name."""

from remnant.data.dataset import Spec
from remnant.errors import RemnantError
from remnant.noise.base import ChecksDataset, Noise
from remnant.noise.by_class import Asymmetric, Block, Clean, Given, SuperclassRandom, Symmetric
from remnant.noise.by_instance import Instance
from remnant.noise.from_file import FromFile
from remnant.noise.human import Human
from remnant.noise.matrix import Matrix
from remnant.noise.open_set import OpenSet

NOISES: dict[str, Noise] = {
    "none": Clean(),
    "symmetric": Symmetric(),
    "asymmetric": Asymmetric(),
    "block": Block(),
    "superclass-random": SuperclassRandom(),
    "instance": Instance(),
    "open-set": OpenSet(),
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


def check_clean(noise: Noise, name: str, *, is_clean: bool, has_truth: bool) -> None:
    """Raise RemnantError if this noise would be added to labels that are not known to be clean.

    The noise rate and the purity of such labels would be unknown, and a rate of 0.4 would not mean 40 %.
    """
    if is_clean or isinstance(noise, Clean | Given):
        return
    found = "differ from its labels, which are noisy already" if has_truth else "are unknown"
    raise RemnantError(
        f"noise is added to clean labels only, but the true labels of {name} {found}. Set "
        "noise=none to train on its labels as they are or, if they are clean, declare that: "
        "data.clean=true for own data, arrays(..., truth=y) in Python."
    )
