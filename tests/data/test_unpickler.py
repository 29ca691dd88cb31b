import io
import pickle
import tracemalloc

import pytest

from remnant.data.unpickler import UNPICKLING_ERRORS, BoundedUnpickler


def peak_of(content: bytes) -> int:
    """Return the most bytes that are allocated while a pickle is read."""
    tracemalloc.start()
    try:
        BoundedUnpickler(io.BytesIO(content)).load()
    except UNPICKLING_ERRORS:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def test_the_number_of_an_object_reserves_no_memory() -> None:
    number = (2**22).to_bytes(4, "little")
    assert peak_of(b"\x80\x02K\x01" + pickle.LONG_BINPUT + number + b".") < 1e5


@pytest.mark.parametrize("code", [pickle.BYTEARRAY8, pickle.BINBYTES8, pickle.BINUNICODE8, pickle.FRAME])
def test_a_size_that_is_not_in_the_file_reserves_no_memory(code: bytes) -> None:
    assert peak_of(b"\x80\x05" + code + (2**24).to_bytes(8, "little") + b".") < 1e5


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_values_are_read_as_by_the_unpickler_of_the_standard_library(protocol: int) -> None:
    value = {"a": [1, 2.5, "x", None, True, 2**70], "b": ((1,), {}, -3)}
    assert BoundedUnpickler(io.BytesIO(pickle.dumps(value, protocol))).load() == value
