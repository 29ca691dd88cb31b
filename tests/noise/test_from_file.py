import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_data
from noise_helpers import rng

from remnant.data.dataset import subset
from remnant.errors import RemnantError
from remnant.noise.from_file import FromFile, read_labels

MAGIC = b"\x93NUMPY\x01\x00??"  # followed by the length of the header


@pytest.mark.parametrize("suffix", ["npy", "csv", "npz"])
def test_labels_are_read_from_npy_csv_and_npz(tmp_path: Path, suffix: str) -> None:
    data = tiny_data()
    labels = (data.y + 1) % 6
    path = tmp_path / f"labels.{suffix}"
    if suffix == "npy":
        np.save(path, labels)
    elif suffix == "npz":
        np.savez(path, worse=labels, clean=data.y)
    else:
        np.savetxt(path, labels, fmt="%d")
    key = "worse" if suffix == "npz" else ""
    assert np.array_equal(FromFile(str(path), key)(data, rng()), labels)


def test_a_subset_gets_the_labels_of_its_own_samples(tmp_path: Path) -> None:
    data = tiny_data()
    np.save(tmp_path / "l.npy", (data.y + 1) % 6)
    part = subset(data, 3, rng())
    assert np.array_equal(FromFile(str(tmp_path / "l.npy"))(part, rng()), (part.y + 1) % 6)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(5, dtype=np.int64), "got 5"),
        (np.zeros(73, dtype=np.int64), "72 training samples of tiny, got 73"),
        (np.array(["cat"] * 72), "one integer per training sample"),
        (np.full(72, 9), "from 0 to 5, got 9 to 9"),
        (np.full(72, 0.5), "one integer per training sample"),
        (np.zeros((72, 2)), "shape"),
        (np.zeros(0), "shape"),
    ],
)
def test_labels_that_do_not_fit_the_dataset_raise(tmp_path: Path, labels: np.ndarray, message: str) -> None:
    np.save(tmp_path / "l.npy", labels)
    with pytest.raises(RemnantError, match=message):
        FromFile(str(tmp_path / "l.npy"))(tiny_data(), rng())


def test_an_npz_without_a_key_lists_its_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "l.npz", worse=np.zeros(72, dtype=np.int64))
    with pytest.raises(RemnantError, match=r"worse.*noise\.key=worse"):
        FromFile(str(tmp_path / "l.npz"))(tiny_data(), rng())


@pytest.mark.parametrize("content", [b"PK\x03\x04 cut short", b"\x93NUMPY no archive", b""])
def test_a_damaged_npz_is_named_in_the_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "l.npz").write_bytes(content)
    with pytest.raises(RemnantError, match=r"l\.npz"):
        FromFile(str(tmp_path / "l.npz"), "worse")(tiny_data(), rng())


def test_an_npz_whose_samples_are_in_a_different_order_raises(tmp_path: Path) -> None:
    data = tiny_data()
    np.savez(tmp_path / "l.npz", worse=data.y, clean_label=data.y[::-1])
    with pytest.raises(RemnantError, match="different order"):
        FromFile(str(tmp_path / "l.npz"), "worse")(data, rng())
    np.savez(tmp_path / "l.npz", worse=data.y, clean_label=data.y)
    assert np.array_equal(FromFile(str(tmp_path / "l.npz"), "worse")(data, rng()), data.y)


def test_labels_that_are_not_finite_or_not_real_raise(tmp_path: Path) -> None:
    for labels in (np.array([1.0, np.inf]), np.array([1 + 0j]), np.array([1], dtype="m8[s]")):
        np.save(tmp_path / "l.npy", labels)
        with pytest.raises(RemnantError, match="expected one integer per training sample"):
            read_labels(tmp_path / "l.npy", "")


def test_an_empty_npz_and_a_damaged_member_raise(tmp_path: Path) -> None:
    np.savez(tmp_path / "l.npz")
    with pytest.raises(RemnantError, match="got an empty one"):
        read_labels(tmp_path / "l.npz", "a")
    np.savez_compressed(tmp_path / "l.npz", a=np.arange(5000) % 10)
    content = bytearray((tmp_path / "l.npz").read_bytes())
    start = content.find(b"a.npy") + 45
    content[start : start + 20] = b"\xff" * 20
    (tmp_path / "l.npz").write_bytes(content)
    with pytest.raises(RemnantError, match="cannot be read"):
        read_labels(tmp_path / "l.npz", "a")


def test_a_member_of_an_npz_that_is_no_array_raises(tmp_path: Path) -> None:
    data = tiny_data()
    np.savez(tmp_path / "l.npz", worse=data.y)
    with zipfile.ZipFile(tmp_path / "l.npz", "a") as archive:
        archive.writestr("clean_label.npy", "text")
    with pytest.raises(RemnantError, match="clean_label is not an array"):
        read_labels(tmp_path / "l.npz", "clean_label")
    assert np.array_equal(FromFile(str(tmp_path / "l.npz"), "worse")(data, rng()), data.y)


def test_pickled_labels_are_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "l.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(RemnantError, match="cannot be read"):
        FromFile(str(tmp_path / "l.npy"))(tiny_data(), rng())


@pytest.mark.parametrize("name", ["missing.npy", "text.csv"])
def test_a_missing_or_unreadable_file_is_named_in_the_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.csv").write_text("cat\ndog\n")
    with pytest.raises(RemnantError, match=name):
        FromFile(str(tmp_path / name))(tiny_data(), rng())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        MAGIC + b"{'descr': '<i8', 'fortran_order': False, 'shape': (6,),  \n",
        MAGIC + b"{'descr': '<i8', 'fortran_order': False, 'shape': (6 6,), }\n",
        MAGIC + b"{'descr': '<i8', 'fortran_order': False, 'shape': (9999999999999,), }\n",
        b"PK\x05\x06" + bytes(18),
    ],
)
def test_a_damaged_npy_raises(tmp_path: Path, content: bytes) -> None:
    if content.startswith(MAGIC):
        content = content[:8] + (len(content) - 10).to_bytes(2, "little") + content[10:]
    (tmp_path / "l.npy").write_bytes(content)
    with pytest.raises(RemnantError, match=r"l\.npy: expected an array of labels, but it cannot be read"):
        read_labels(tmp_path / "l.npy", "")


def test_an_npz_named_npy_raises(tmp_path: Path) -> None:
    np.savez(tmp_path / "l.npz", np.arange(3))
    (tmp_path / "l.npz").rename(tmp_path / "l.npy")
    with pytest.raises(RemnantError, match=r"an \.npz archive: rename it to end with \.npz"):
        read_labels(tmp_path / "l.npy", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "input contained no data"), ("1\nnan\n", "got nan at index 1"), ("2.5", "got 2.5 at index 0")],
)
@pytest.mark.filterwarnings("error")
def test_the_first_label_that_is_no_integer_is_shown(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(RemnantError, match=message):
        read_labels(tmp_path / "l.csv", "")


def test_a_path_may_start_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    data = tiny_data()
    np.save(tmp_path / "l.npy", data.y)
    noise = FromFile("~/l.npy")
    noise.check(data.spec)
    assert np.array_equal(noise(data, rng()), data.y)


def npy(header: str) -> bytes:
    """Return an .npy file of a few bytes with any header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("'<i8'", f"({10**30},)"),
        ("'<i8'", f"({10**15},)"),
        ("'<i8'", f"({2**63},)"),
        ("'<i8'", "(-1,)"),
        ("'<i8'", f"({10**10}, {10**10})"),
        ("'|V2000000000'", "(1000000,)"),
        ("'|V99999999999999999999'", "(1,)"),
        ("'<U999999999'", "(10,)"),
        ("'|O'", "(3,)"),
        ("[('a', '<i8', (1000000, 1000000))]", "(3,)"),
        ("[" * 200 + "]" * 200, "(3,)"),
        ("'<i8'", "(" * 300 + ")" * 300),
        ("'<i8'", "(1e400,)"),
    ],
)
def test_an_array_of_an_impossible_size_or_type_is_an_error(tmp_path: Path, descr: str, shape: str) -> None:
    path = tmp_path / "labels.npy"
    path.write_bytes(npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"))
    with pytest.raises(RemnantError, match=r"labels\.npy: expected "):
        read_labels(path, "")


@pytest.mark.parametrize("suffix", ["npy", "csv", "npz", "txt"])
@pytest.mark.parametrize("target", ["/proc/self/status", "/dev/zero", "fifo"])
def test_an_endless_file_is_an_error(tmp_path: Path, suffix: str, target: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    path = tmp_path / f"labels.{suffix}"
    path.symlink_to(target)  # the size of a file in /proc is 0, and reading it may never end
    with pytest.raises(RemnantError, match=r"labels\.\w+: expected "):
        FromFile(str(path), "y")(tiny_data(), rng())
