"""An unpickler for files of unknown origin, whose memory is bounded by the size of the file.

The one of the standard library that is written in C reserves memory for the highest number that a pickle
gives to an object: twelve bytes make it reserve 64 GB. The one in Python stores objects in a dict. Both
reserve memory for a bytearray before they read it, which no file of numbers contains.
"""

import pickle
import struct
from typing import ClassVar

UNPICKLING_ERRORS = (
    *(pickle.UnpicklingError, struct.error, EOFError, AttributeError, LookupError, TypeError, ValueError),
    *(OverflowError, MemoryError, RecursionError),
)


class BoundedUnpickler(pickle._Unpickler):
    """Base of unpicklers; they define `find_class`, which returns the object for a name in a pickle."""

    dispatch: ClassVar = {
        code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]
    }
