"""Reader of files written by torch.save: labels or weights, a dict of arrays, tensors or lists by name.

Such a file is a pickle, inside a zip archive since torch 1.6 and plain before. It is read without
running any code that a pickle can refer to: the few numpy and torch types of number arrays are replaced
by stand-ins. Each stand-in has a __setstate__, so that no pickle can change the stand-in itself.
"""

import contextlib
import io
import math
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import numpy as np

from remnant.data.dataset import Labels
from remnant.data.files import ARRAY_READ_ERRORS
from remnant.data.unpickler import UNPICKLING_ERRORS, BoundedUnpickler
from remnant.errors import RemnantError
from remnant.settings import read_file

# Errors raised when a file of another format is read.
TORCH_FILE_ERRORS = (*ARRAY_READ_ERRORS, *UNPICKLING_ERRORS)
LEGACY = 0x1950A86A20F9469CFC6C  # magic number at the start of a plain file


def read_torch(path: Path) -> dict[str, Labels]:
    """Return the one-dimensional integer arrays of a file by name; other values are ignored."""
    with _format_errors(path):
        fields, storage = _read(read_file(path))
        shapes = {value.shape for value in fields.values() if isinstance(value, _Tensor)}
        if wrong := [shape for shape in shapes if len(shape) != 1]:
            raise pickle.UnpicklingError(f"a tensor of shape {wrong[0]}, not 1-D")
        found = {str(name): _numbers(value, storage) for name, value in fields.items()}
    return {name: y.astype(np.int64) for name, y in found.items() if y is not None and _is_integer(y)}


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a state_dict by name, with their shapes; other values are ignored."""
    with _format_errors(path):
        fields, storage = _read(read_file(path))
        found = {str(name): _numbers(value, storage) for name, value in fields.items()}
    return {name: array for name, array in found.items() if array is not None}


@contextlib.contextmanager
def _format_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except TORCH_FILE_ERRORS as error:
        raise RemnantError(
            f"{path}: expected a dict of number arrays written by torch.save, found {error!r}; "
            "use the file as published"
        ) from error


ReadStorage = Callable[["_Storage"], bytes]  # returns the content of a tensor's storage


def _read(content: bytes) -> tuple[Mapping[str, object], ReadStorage]:
    return _read_zip(content) if is_zipfile(io.BytesIO(content)) else _read_plain(content)


def _read_zip(content: bytes) -> tuple[Mapping[str, object], ReadStorage]:
    archive = ZipFile(io.BytesIO(content))
    names = [name for name in archive.namelist() if name.endswith("data.pkl")]
    if len(names) != 1:
        raise pickle.UnpicklingError(f"an archive with {len(names)} files data.pkl")
    root = names[0].removesuffix("data.pkl")
    fields = _TorchUnpickler(io.BytesIO(archive.read(names[0])), encoding="latin1").load()
    return fields, lambda storage: archive.read(f"{root}data/{storage.key}")


def _read_plain(content: bytes) -> tuple[Mapping[str, object], ReadStorage]:
    """Read five pickles (magic number, version, platform, object, keys), then a storage for each key."""
    stream = io.BytesIO(content)
    number, _, _, fields, keys = (_TorchUnpickler(stream, encoding="latin1").load() for _ in range(5))
    if number != LEGACY:
        raise pickle.UnpicklingError("a pickle that torch.save did not write")
    tensors = [value.storage for value in fields.values() if isinstance(value, _Tensor)]
    sizes = {storage.key: storage.kind.itemsize for storage in tensors}
    storages = {}
    for key in keys:
        count = int.from_bytes(stream.read(8), "little")
        storages[key] = stream.read(count * sizes[key])
    return fields, lambda storage: storages[storage.key]


def _numbers(value: object, storage: ReadStorage) -> np.ndarray | None:
    """Return a value of the dict as an array, or None if it is not an array of numbers."""
    if isinstance(value, _NumberArray):
        return value.value
    if isinstance(value, _Tensor):
        return value.of(np.frombuffer(storage(value.storage), value.storage.kind))
    if isinstance(value, list) and all(type(item) is int for item in value):
        return np.array(value, dtype=np.int64)
    return None


def _is_integer(y: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):  # infinite, or beyond int64
        return y.ndim == 1 and np.array_equal(y, y.astype(np.int64))


class _NumberType:
    """Stand-in for numpy.dtype that accepts only types of numbers."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"[iu][1248]|f[48]", code):
            raise pickle.UnpicklingError(f"an array of {code!r}, not of numbers")
        self.code, self.order = code, "<"

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"


class _NumberArray:
    """Stand-in for the numpy.ndarray that a pickle builds."""

    def __init__(self, *_: object) -> None:
        self.value: np.ndarray = np.empty(0, np.int64)

    def __setstate__(self, state: tuple[object, tuple[int, ...], object, object, object]) -> None:
        _, shape, kind, _, content = state
        if not isinstance(kind, _NumberType):
            raise pickle.UnpicklingError(f"an array of {kind!r}, not of numbers")
        raw = content.encode("latin1") if isinstance(content, str) else content
        if not isinstance(raw, bytes):
            raise pickle.UnpicklingError(f"an array made of {type(raw).__name__}, not of bytes")
        self.value = np.frombuffer(raw, kind.order + kind.code).reshape(shape)


class _Bytes:
    """Stand-in for _codecs.encode, which old pickles use for bytes; calling it returns bytes."""

    def __new__(cls, text: str, encoding: str) -> bytes:  # type: ignore[misc]
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"bytes as {encoding!r}, not as latin1")
        return str.encode(text, "latin1")

    def __setstate__(self, state: object) -> None:
        """Ignore the state; no instance of this class exists."""


class _Storage:
    """Stand-in for the numbers of a tensor, which are stored outside the pickle."""

    def __init__(self, kind: str, key: str) -> None:
        self.kind, self.key = np.dtype(kind), key

    def __setstate__(self, state: object) -> None:
        """Ignore the state."""


class _Tensor:
    """Stand-in for the function that rebuilds a tensor and for the tensor, a view of a storage."""

    def __init__(
        self, storage: object, start: int, size: Sequence[int], step: Sequence[int], *_: object
    ) -> None:
        self.start, self.shape, self.strides = int(start), tuple(map(int, size)), tuple(map(int, step))
        numbers = (self.start, *self.shape, *self.strides)
        if not isinstance(storage, _Storage) or len(self.shape) != len(self.strides) or min(numbers) < 0:
            raise pickle.UnpicklingError(f"a tensor that starts at {start}, of shape {size}, strides {step}")
        self.storage = storage

    def __setstate__(self, state: object) -> None:
        """Ignore the state."""

    def of(self, flat: np.ndarray) -> np.ndarray:
        """Return a copy of the numbers of the tensor, after checking that its storage has them."""
        count = math.prod(self.shape)
        reach = sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        if count > len(flat) or (count and self.start + reach >= len(flat)):
            raise pickle.UnpicklingError(f"a tensor of {count} numbers in {len(flat)}")
        steps = [step * flat.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.start :], self.shape, steps).copy()


class _Dict(dict[str, object]):
    """Stand-in for OrderedDict: a state_dict, or the empty dict of hooks stored with every tensor."""

    def __setstate__(self, state: object) -> None:
        """Ignore the state."""


# A storage class is replaced by the name of its dtype: a string, which no pickle can call or change.
_STORAGES: Mapping[tuple[str, str], str] = {
    ("torch", "LongStorage"): "<i8",
    ("torch", "IntStorage"): "<i4",
    ("torch", "ShortStorage"): "<i2",
    ("torch", "CharStorage"): "<i1",
    ("torch", "ByteStorage"): "<u1",
    ("torch", "FloatStorage"): "<f4",
    ("torch", "DoubleStorage"): "<f8",
}
# All names needed for arrays of numbers.
_STAND_INS: Mapping[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _NumberArray,  # before numpy 2
    ("numpy._core.multiarray", "_reconstruct"): _NumberArray,
    ("numpy", "ndarray"): _NumberArray,
    ("numpy", "dtype"): _NumberType,
    ("_codecs", "encode"): _Bytes,
    ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
    ("collections", "OrderedDict"): _Dict,
    **_STORAGES,
}


class _TorchUnpickler(BoundedUnpickler):
    """Unpickler of numbers, strings, lists, dicts and arrays of numbers; any other type is an error."""

    def find_class(self, module: str, name: str) -> object:
        """Return the stand-in for a name in a pickle."""
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"the forbidden name {module}.{name}")
        return _STAND_INS[module, name]

    def persistent_load(self, pid: tuple[object, str, object]) -> _Storage:
        """Return the stand-in for a storage, which is referred to as ("storage", kind, key, ...)."""
        _, kind, key, *_ = pid
        if kind not in _STORAGES.values():
            raise pickle.UnpicklingError(f"a tensor of {kind!r}, not of numbers")
        return _Storage(kind, str(key))
