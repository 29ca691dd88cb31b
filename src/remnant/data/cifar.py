"""CIFAR-10 and CIFAR-100 from the published Python files.

The files are pickles. They are read without running any code that a pickle can refer to: the two numpy
types they need are replaced by stand-ins that accept only arrays of bytes.
"""

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.data.dataset import Dataset, Labels, Spec, arrays
from remnant.data.files import DataFiles, Download, Place, prepare, read
from remnant.data.unpickler import UNPICKLING_ERRORS, BoundedUnpickler
from remnant.errors import RemnantError
from remnant.transforms.image import ImageTransform

SHAPE = (3, 32, 32)

CLASSES_10 = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SIMILAR = {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
# The fine classes are numbered in alphabetical order, the superclasses in this order.
SUPERCLASSES: Mapping[str, tuple[str, ...]] = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
# Name of a fine class -> number of its superclass.
COARSE_OF = {fine: coarse for coarse, fines in enumerate(SUPERCLASSES.values()) for fine in fines}
CLASSES_100 = tuple(sorted(COARSE_OF))

CIFAR10 = Spec(
    name="cifar10",
    shape=SHAPE,
    classes=CLASSES_10,
    transform=ImageTransform(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2615), pad=4, flip=True),
    confused_with={CLASSES_10.index(a): CLASSES_10.index(b) for a, b in SIMILAR.items()},
)
CIFAR100 = Spec(
    name="cifar100",
    shape=SHAPE,
    classes=CLASSES_100,
    transform=ImageTransform(mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761), pad=4, flip=True),
    superclass=tuple(COARSE_OF[name] for name in CLASSES_100),
)
CIFAR100_COARSE = Spec("cifar100-coarse", SHAPE, tuple(SUPERCLASSES), CIFAR100.transform)

MD5_10 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
}
CIFAR10_FILES = DataFiles(
    name="cifar10",
    md5=MD5_10,
    downloads=(
        Download(
            url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            md5="c58f30108f718f92721af3b95e74349a",
            files=tuple(MD5_10),
            folder="cifar-10-batches-py",
        ),
    ),
    places=("cifar-10-batches-py", "."),
)
MD5_100 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}
CIFAR100_FILES = DataFiles(
    name="cifar100",
    md5=MD5_100,
    downloads=(
        Download(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            md5="eb9058c3a382ffc7106e4002c42a8d85",
            files=tuple(MD5_100),
            folder="cifar-100-python",
        ),
    ),
    places=("cifar-100-python", "."),
)


@dataclass(frozen=True, eq=False)
class CifarFile:
    """The samples of one file."""

    path: Path
    x: NDArray[np.uint8]  # (N, 3, 32, 32)
    labels: Mapping[str, Labels]  # field -> (N,): "labels", or "fine_labels" and "coarse_labels"


def load_cifar10(folder: Path | None, files: DataFiles = CIFAR10_FILES) -> Dataset:
    """Load CIFAR-10 from a data folder or, if it is None, from the cache, downloading missing files."""
    place = prepare(files, folder)
    read(place, "batches.meta")  # only its hash is checked: the class names are those of the spec
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    *train, test = (_read_file(place, name, {"labels": len(CLASSES_10)}) for name in names)
    x = np.concatenate([file.x for file in train])
    y = np.concatenate([file.labels["labels"] for file in train])
    return arrays(CIFAR10, x, y, test.x, test.labels["labels"], truth=y)


def load_cifar100(folder: Path | None, coarse: bool = False, files: DataFiles = CIFAR100_FILES) -> Dataset:
    """Load CIFAR-100 with its 100 fine classes or, if `coarse`, its 20 superclasses as labels."""
    place = prepare(files, folder)
    read(place, "meta")  # only its hash is checked: the class names are those of the spec
    kinds = {"fine_labels": len(CLASSES_100), "coarse_labels": len(SUPERCLASSES)}
    train, test = (_read_file(place, name, kinds) for name in ("train", "test"))
    for file in (train, test):
        _require_consistency(file)
    kind = "coarse_labels" if coarse else "fine_labels"
    spec = CIFAR100_COARSE if coarse else CIFAR100
    y = train.labels[kind]
    return arrays(spec, train.x, y, test.x, test.labels[kind], truth=y)


def _read_file(place: Place, name: str, classes: Mapping[str, int]) -> CifarFile:
    """Read one file; `classes` maps each of its label fields to the number of classes."""
    path = place.path / name
    content = read(place, name)
    try:
        fields = _CifarUnpickler(io.BytesIO(content), encoding="bytes").load()
        x = fields[b"data"].value.reshape(-1, *SHAPE)
        labels = {kind: np.array(fields[kind.encode()], dtype=np.int64) for kind in classes}
    except UNPICKLING_ERRORS as error:
        raise RemnantError(
            f"{path}: expected a pickle with the fields data, {', '.join(classes)}; "
            f"found {error!r}; use the file as published"
        ) from error
    for kind, count in classes.items():
        y = labels[kind]
        if y.shape != (len(x),) or not np.isin(y, np.arange(count)).all():
            raise RemnantError(
                f"{path}: expected {len(x):,} {kind} from 0 to {count - 1}, found an array "
                f"{y.shape} with values {np.unique(y)}; use the file as published"
            )
    return CifarFile(path, x, labels)


def _require_consistency(file: CifarFile) -> None:
    """Raise an error if a superclass label contradicts the fine label."""
    fine, coarse = file.labels["fine_labels"], file.labels["coarse_labels"]
    expected = np.array(CIFAR100.superclass)[fine]
    different = np.flatnonzero(expected != coarse)
    if len(different):
        i = different[0]
        raise RemnantError(
            f"{file.path}: sample {i} is a {CLASSES_100[fine[i]]}, expected superclass "
            f"{expected[i]}, found {coarse[i]}; use the file as published"
        )


class _ByteType:
    """Stand-in for numpy.dtype that accepts only bytes (u1)."""

    def __init__(self, code: object, *_: object) -> None:
        if code != b"u1":
            raise pickle.UnpicklingError(f"an array of {code!r}, not of bytes (u1)")

    def __setstate__(self, state: object) -> None:
        """Ignore byte order, alignment and flags, which do not matter for a byte."""


class _ByteArray:
    """Stand-in for the numpy.ndarray that a pickle builds."""

    def __init__(self, *_: object) -> None:
        self.value: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], object, bool, bytes]) -> None:
        _, shape, kind, is_fortran, content = state
        if not isinstance(kind, _ByteType):
            raise pickle.UnpicklingError(f"an array of {kind!r}, not of bytes (u1)")
        flat = np.frombuffer(content, np.uint8)
        self.value = flat.reshape(shape, order="F" if is_fortran else "C").copy()


# All names that occur in the published files.
_STAND_INS: Mapping[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _ByteArray,
    ("numpy", "ndarray"): _ByteArray,
    ("numpy", "dtype"): _ByteType,
}


class _CifarUnpickler(BoundedUnpickler):
    """Unpickler of numbers, strings, lists, dicts and arrays of bytes; any other type is an error."""

    def find_class(self, module: str, name: str) -> type:
        """Return the stand-in for a name in a pickle."""
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"the forbidden name {module}.{name}")
        return _STAND_INS[module, name]
