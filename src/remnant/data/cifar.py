"""CIFAR-10 and CIFAR-100 from the published python files.

The files are pickles. They are opened without running any of the code a pickle can name: the two
numpy types they need are replaced by stand-ins that accept arrays of bytes and nothing else.
"""

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remnant.augment import View
from remnant.data.files import Download, Place, Published, read, ready
from remnant.data.source import Dataset, Labels, Spec, arrays
from remnant.errors import RemnantError

SHAPE = (3, 32, 32)

TEN = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
# The fine classes are numbered in alphabetical order, the superclasses in this one.
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
COARSE_OF = {
    fine: coarse for coarse, fines in enumerate(SUPERCLASSES.values()) for fine in fines
}  # fine name -> superclass number
HUNDRED = tuple(sorted(COARSE_OF))

CIFAR10 = Spec(
    name="cifar10",
    shape=SHAPE,
    classes=TEN,
    view=View(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2615), pad=4, flip=True),
    mistaken_for={
        TEN.index(mistaken): TEN.index(taken_for)
        for mistaken, taken_for in (
            ("truck", "automobile"),
            ("bird", "airplane"),
            ("deer", "horse"),
            ("cat", "dog"),
            ("dog", "cat"),
        )
    },
)
CIFAR100 = Spec(
    name="cifar100",
    shape=SHAPE,
    classes=HUNDRED,
    view=View(mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761), pad=4, flip=True),
    superclass=tuple(COARSE_OF[name] for name in HUNDRED),
)
CIFAR100_COARSE = Spec(
    name="cifar100-coarse",
    shape=SHAPE,
    classes=tuple(SUPERCLASSES),
    view=CIFAR100.view,
)

MD5_10 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
}
CIFAR10_FILES = Published(
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
CIFAR100_FILES = Published(
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


# What reading a pickle of the wrong form can raise.
UNREADABLE = (
    *(pickle.UnpicklingError, EOFError),
    *(AttributeError, LookupError, TypeError, ValueError),
)


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of one file."""

    path: Path
    x: NDArray[np.uint8]  # (N, 3, 32, 32)
    labels: Mapping[str, Labels]  # kind -> (N,): "labels", or "fine_labels" and "coarse_labels"


def load_cifar10(folder: Path | None, files: Published = CIFAR10_FILES) -> Dataset:
    """Load CIFAR-10 from a data folder, or from the cache, which is filled if need be."""
    place = ready(files, folder)
    read(place, "batches.meta")
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    *train, test = (_batch(place, name, {"labels": len(TEN)}) for name in names)
    x = np.concatenate([batch.x for batch in train])
    y = np.concatenate([batch.labels["labels"] for batch in train])
    return arrays(CIFAR10, x, y, test.x, test.labels["labels"])


def load_cifar100(
    folder: Path | None, coarse: bool = False, files: Published = CIFAR100_FILES
) -> Dataset:
    """Load CIFAR-100 with its 100 fine labels, or with its 20 superclasses as the labels."""
    place = ready(files, folder)
    read(place, "meta")
    kinds = {"fine_labels": len(HUNDRED), "coarse_labels": len(SUPERCLASSES)}
    train, test = (_batch(place, name, kinds) for name in ("train", "test"))
    for batch in (train, test):
        _require_agreement(batch)
    kind = "coarse_labels" if coarse else "fine_labels"
    spec = CIFAR100_COARSE if coarse else CIFAR100
    return arrays(spec, train.x, train.labels[kind], test.x, test.labels[kind])


def _batch(place: Place, name: str, classes: Mapping[str, int]) -> Batch:
    """Read one file; `classes` is the number of classes of each kind of label in it."""
    path = place.path / name
    content = read(place, name)
    try:
        fields = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        x = fields[b"data"].value.reshape(-1, *SHAPE)
        labels = {kind: np.array(fields[kind.encode()], dtype=np.int64) for kind in classes}
    except UNREADABLE as error:
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
    return Batch(path, x, labels)


def _require_agreement(batch: Batch) -> None:
    fine, coarse = batch.labels["fine_labels"], batch.labels["coarse_labels"]
    expected = np.array(CIFAR100.superclass)[fine]
    rows = np.flatnonzero(expected != coarse)
    if len(rows):
        row = rows[0]
        raise RemnantError(
            f"{batch.path}: row {row} is a {HUNDRED[fine[row]]}, expected superclass "
            f"{expected[row]}, found {coarse[row]}; use the file as published"
        )


class _ByteType:
    """Stands in for numpy.dtype: the type of a byte, and no other."""

    def __init__(self, code: object, *_: object) -> None:
        if code != b"u1":
            raise pickle.UnpicklingError(f"an array of {code!r}, not of bytes (u1)")

    def __setstate__(self, state: object) -> None:
        """Take byte order, alignment and flags, none of which a byte has."""


class _ByteArray:
    """Stands in for numpy.ndarray while a pickle builds one."""

    def __init__(self, *_: object) -> None:
        self.value: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], object, bool, bytes]) -> None:
        _, shape, kind, is_fortran, content = state
        if not isinstance(kind, _ByteType):
            raise pickle.UnpicklingError(f"an array of {kind!r}, not of bytes (u1)")
        flat = np.frombuffer(content, np.uint8)
        self.value = flat.reshape(shape, order="F" if is_fortran else "C").copy()


# The only names in the published files.
_STAND_INS: Mapping[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _ByteArray,
    ("numpy", "ndarray"): _ByteArray,
    ("numpy", "dtype"): _ByteType,
}


class _Unpickler(pickle.Unpickler):
    """Builds numbers, texts, lists, dicts and arrays of bytes; knows no other name."""

    def find_class(self, module: str, name: str) -> type:
        """Return the stand-in for a name in a pickle."""
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"the forbidden name {module}.{name}")
        return _STAND_INS[module, name]
