import os
import threading
from pathlib import Path

import numpy as np
import pytest

from remnant.data import cache
from remnant.data.cache import cached, read_array, write_array
from remnant.errors import RemnantError

X = np.arange(24, dtype=np.float32).reshape(6, 4)


def make(folder: Path) -> None:
    write_array(folder, X.shape, X.dtype, (X[:1], X[1:4], X[4:]))


def never(_: Path) -> None:
    raise AssertionError("computed again")


def test_an_array_written_in_parts_is_memory_mapped(tmp_path: Path) -> None:
    make(tmp_path)
    found = read_array(tmp_path, X.shape, X.dtype)
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, X)
    np.save(tmp_path / "whole.npy", X)
    assert np.array_equal(np.load(tmp_path / cache.ARRAY_FILE), np.load(tmp_path / "whole.npy"))


def test_content_is_computed_once(tmp_path: Path) -> None:
    folder = cached(tmp_path, "made", "origin", X.nbytes, make)
    assert cached(tmp_path, "made", "origin", X.nbytes, never) == folder
    assert np.array_equal(read_array(folder, X.shape, X.dtype), X)


def test_concurrent_processes_compute_the_content_once(tmp_path: Path) -> None:
    calls = []

    def counted(folder: Path) -> None:
        calls.append(folder)
        make(folder)

    arguments = (tmp_path, "made", "origin", X.nbytes, counted)
    threads = [threading.Thread(target=cached, args=arguments) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_another_origin_replaces_the_content_of_the_same_name_only(tmp_path: Path) -> None:
    old, other = (cached(tmp_path, name, "old", X.nbytes, make) for name in ("made", "made-too"))
    still_mapped = read_array(old, X.shape, X.dtype)
    new = cached(tmp_path, "made", "new", X.nbytes, make)
    assert new != old
    assert sorted(tmp_path.glob("made-*")) == sorted([new, other])
    assert np.array_equal(still_mapped, X)


def test_an_error_leaves_no_folder_and_keeps_the_old_one(tmp_path: Path) -> None:
    old = cached(tmp_path, "made", "old", X.nbytes, make)
    with pytest.raises(AssertionError, match="computed again"):
        cached(tmp_path, "made", "new", X.nbytes, never)
    assert list(tmp_path.glob("*made-*")) == [old]


def test_an_incomplete_folder_is_removed(tmp_path: Path) -> None:
    incomplete = tmp_path / ".made-0123456789ab.part"
    incomplete.mkdir()
    folder = cached(tmp_path, "made", "origin", X.nbytes, make)
    assert list(tmp_path.glob("*made-*")) == [folder]


def test_too_little_disk_space_is_an_error_before_computing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: usage)
    expected = r"only 0.0 GB are free.* free some space, or use --data-dir .* to choose another folder"
    with pytest.raises(RemnantError, match=expected):
        cached(tmp_path, "made", "origin", 1001, never)
    assert not list(tmp_path.glob("*made-*"))


@pytest.mark.parametrize("size", [0, 60, 150])
def test_a_truncated_array_is_an_error(tmp_path: Path, size: int) -> None:
    make(tmp_path)
    os.truncate(tmp_path / cache.ARRAY_FILE, size)
    with pytest.raises(RemnantError, match=r"expected an array \(6, 4\) of float32.*Remove the folder"):
        read_array(tmp_path, X.shape, X.dtype)


@pytest.mark.parametrize("at", [-1, -12, -30])
def test_a_changed_byte_of_an_array_or_its_checksum_is_an_error(tmp_path: Path, at: int) -> None:
    make(tmp_path)
    content = bytearray((tmp_path / cache.ARRAY_FILE).read_bytes())
    content[at] ^= 1
    (tmp_path / cache.ARRAY_FILE).write_bytes(content)
    with pytest.raises(RemnantError, match=r"expected the array that was written.*Remove the folder"):
        read_array(tmp_path, X.shape, X.dtype)


def test_an_array_without_a_checksum_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / cache.ARRAY_FILE, X)
    assert np.array_equal(read_array(tmp_path, X.shape, X.dtype), X)


def test_an_array_of_another_shape_or_dtype_is_an_error(tmp_path: Path) -> None:
    make(tmp_path)
    for shape, dtype in (((4, 6), np.float32), ((6, 4), np.float64)):
        with pytest.raises(RemnantError, match=r"found: an array \(6, 4\) of float32"):
            read_array(tmp_path, shape, dtype)
