"""Small files in the format of the published CIFAR files."""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from remnant.data.files import DataFiles

SAMPLES = 4  # in each file


def pickle2(value: object) -> bytes:
    """Pickle like Python 2 did when the datasets were published."""
    return b"\x80\x02" + encode(value, itertools.count(1)) + b"."


def encode(value: object, memo: Iterator[int]) -> bytes:
    if isinstance(value, dict):
        start = b"}" + put(memo) + b"("
        pairs = (encode(k, memo) + encode(v, memo) for k, v in value.items())
        return start + b"".join(pairs) + b"u"
    if isinstance(value, list):
        start = b"]" + put(memo) + b"("
        return start + b"".join(encode(v, memo) for v in value) + b"e"
    if isinstance(value, bytes):
        return text(value) + put(memo)
    if isinstance(value, int):
        return b"K%c" % value if value < 256 else b"M" + value.to_bytes(2, "little")
    assert isinstance(value, np.ndarray)
    return encode_array(value, memo)


def encode_array(x: np.ndarray, memo: Iterator[int]) -> bytes:
    empty = b"cnumpy.core.multiarray\n_reconstruct\n" + put(memo) + b"cnumpy\nndarray\n"
    empty += put(memo) + b"K\x00\x85U\x01b\x87R" + put(memo)
    shape = b"".join(encode(n, memo) for n in x.shape) + b"\x86"
    kind = b"cnumpy\ndtype\n" + put(memo) + text(x.dtype.str[1:].encode()) + b"K\x00K\x01\x87R"
    kind += put(memo) + b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return empty + b"(K\x01" + shape + kind + b"\x89" + text(x.tobytes()) + b"tb"


def text(value: bytes) -> bytes:
    if len(value) < 256:
        return b"U%c" % len(value) + value
    return b"T" + len(value).to_bytes(4, "little") + value


def put(memo: Iterator[int]) -> bytes:
    number = next(memo)
    return b"q%c" % number if number < 256 else b"r" + number.to_bytes(4, "little")


def pixels(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (SAMPLES, 3072), dtype=np.uint8)


def write(folder: Path, files: DataFiles, contents: dict[str, bytes]) -> DataFiles:
    """Write these files and return a description of them as the published files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return replace(files, md5={n: hashlib.md5(c).hexdigest() for n, c in contents.items()})


def cifar10_files() -> dict[str, bytes]:
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    batches = {
        name: pickle2(
            {
                b"batch_label": b"a batch",
                b"labels": [(i + j) % 10 for j in range(SAMPLES)],
                b"data": pixels(i),
                b"filenames": [b"a.png"] * SAMPLES,
            }
        )
        for i, name in enumerate(names)
    }
    return {**batches, "batches.meta": pickle2({b"label_names": []})}


def cifar100_files(fine: list[int], coarse: list[int], data: np.ndarray | None = None) -> dict[str, bytes]:
    fields = {
        b"filenames": [b"a.png"] * SAMPLES,
        b"batch_label": b"a batch",
        b"fine_labels": fine,
        b"coarse_labels": coarse,
        b"data": pixels(0) if data is None else data,
    }
    return {"train": pickle2(fields), "test": pickle2(fields), "meta": pickle2({b"n": 0})}
