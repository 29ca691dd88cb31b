from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_data
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.data import DATA
from remnant.data.source import Dataset, subset
from remnant.errors import RemnantError
from remnant.noise import (
    Asymmetric,
    Block,
    Clean,
    FromFile,
    Noise,
    SuperclassRandom,
    Symmetric,
    next_in_group,
    pair_flip,
    symmetric,
)
from remnant.noise.files import read_labels

MAGIC = b"\x93NUMPY\x01\x00??"  # and the length of the head


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def dataset_like(name: str, rows: int = 20) -> Dataset:
    """The labels of a real data set, with `rows` of each class and blank images."""
    spec = DATA[name].spec
    y = np.repeat(np.arange(len(spec.classes)), rows)
    blank = np.zeros((len(y), *spec.shape), dtype=np.uint8)
    from remnant.data.source import arrays

    return arrays(spec, blank, y, blank[:1], y[:1])


@given(st.floats(0, 1), st.integers(2, 12), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_symmetric_noise_flips_an_exact_share_of_each_class(rate: float, classes: int, n: int) -> None:
    y = np.repeat(np.arange(classes), n)
    observed = symmetric(y, rate, classes, rng())
    for label in range(classes):
        assert (observed[y == label] != label).sum() == round(rate * n)


def test_symmetric_noise_never_keeps_the_true_class() -> None:
    y = np.repeat(np.arange(10), 200)
    assert (symmetric(y, 1.0, 10, rng()) != y).all()


def test_symmetric_noise_reaches_all_other_classes_alike() -> None:
    y = np.zeros(9000, dtype=np.int64)
    counts = np.bincount(symmetric(y, 1.0, 10, rng()), minlength=10)
    assert counts[0] == 0
    assert counts[1:] == pytest.approx([1000] * 9, abs=150)


def test_noise_is_not_drawn_from_the_first_rows_of_a_class() -> None:
    y = np.zeros(1000, dtype=np.int64)
    wrong = symmetric(y, 0.4, 10, rng()) != y
    assert wrong[:500].sum() == pytest.approx(200, abs=50)


def test_the_same_seed_gives_the_same_noise_and_another_seed_another() -> None:
    y = np.repeat(np.arange(5), 50)
    assert np.array_equal(symmetric(y, 0.4, 5, rng(1)), symmetric(y, 0.4, 5, rng(1)))
    assert not np.array_equal(symmetric(y, 0.4, 5, rng(1)), symmetric(y, 0.4, 5, rng(2)))


def test_asymmetric_cifar10_changes_five_classes_into_their_likes() -> None:
    data = dataset_like("cifar10")
    names = data.spec.classes
    observed = Asymmetric(0.4)(data, rng())
    moves = {(names[a], names[b]) for a, b in zip(data.y, observed, strict=True) if a != b}
    assert moves == {
        ("truck", "automobile"),
        ("bird", "airplane"),
        ("deer", "horse"),
        ("cat", "dog"),
        ("dog", "cat"),
    }
    assert (observed != data.y).mean() == pytest.approx(0.2)


def test_asymmetric_cifar100_stays_inside_the_superclass() -> None:
    data = dataset_like("cifar100", rows=10)
    group = np.array(data.spec.superclass)
    observed = Asymmetric(0.4)(data, rng())
    wrong = observed != data.y
    assert wrong.mean() == pytest.approx(0.4)
    assert (group[observed] == group[data.y]).all()
    targets = {(a, b) for a, b in zip(data.y[wrong], observed[wrong], strict=True)}
    assert len(targets) == 100  # one target for each class


def test_block_noise_goes_to_the_next_number_of_the_block() -> None:
    data = dataset_like("cifar100", rows=10)
    observed = Block(0.4)(data, rng())
    wrong = observed != data.y
    assert (observed[wrong] // 5 == data.y[wrong] // 5).all()
    assert ((observed[wrong] - data.y[wrong]) % 5 == 1).all()


def test_random_superclass_noise_uses_all_four_others() -> None:
    data = dataset_like("cifar100", rows=100)
    group = np.array(data.spec.superclass)
    observed = SuperclassRandom(0.4)(data, rng())
    assert (group[observed] == group[data.y]).all()
    of_first = observed[(data.y == 0) & (observed != 0)]
    assert len(np.unique(of_first)) == 4


def test_classes_without_a_target_stay() -> None:
    y = np.repeat(np.arange(3), 10)
    observed = pair_flip(y, 1.0, {0: 2}, rng())
    assert observed.tolist() == [2] * 10 + [1] * 10 + [2] * 10


def test_a_group_of_one_has_nowhere_to_go() -> None:
    assert next_in_group([0, 1, 1]) == {1: 2, 2: 1}


@pytest.mark.parametrize("noise", [Asymmetric(0.2), SuperclassRandom(0.2)])
def test_noise_that_needs_to_know_the_classes_says_so(noise: Noise) -> None:
    with pytest.raises(RemnantError, match=r"digits|tiny"):
        noise(tiny_data(), rng())


def test_no_noise_is_a_copy_of_the_truth() -> None:
    data = tiny_data()
    observed = Clean()(data, rng())
    assert np.array_equal(observed, data.y)
    assert observed is not data.y


@pytest.mark.parametrize("rate", [1.2, -0.1])
def test_a_rate_must_be_a_share(rate: float) -> None:
    with pytest.raises(ValueError, match=r"share in \[0, 1\]"):
        Symmetric(rate)


def test_a_rate_in_percent_is_told_how_to_be_a_share() -> None:
    with pytest.raises(ValueError, match=r"for 40 % write 0\.4"):
        Symmetric(40)


@pytest.mark.parametrize("suffix", ["npy", "csv", "npz"])
def test_labels_come_from_a_file(tmp_path: Path, suffix: str) -> None:
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


def test_a_subset_gets_the_labels_of_its_own_rows(tmp_path: Path) -> None:
    data = tiny_data()
    np.save(tmp_path / "l.npy", (data.y + 1) % 6)
    part = subset(data, 3, rng())
    assert np.array_equal(FromFile(str(tmp_path / "l.npy"))(part, rng()), (part.y + 1) % 6)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(5, dtype=np.int64), "found 5"),
        (np.zeros(73, dtype=np.int64), "72 training rows of tiny, found 73"),
        (np.array(["cat"] * 72), "whole number"),
        (np.full(72, 9), "from 0 to 5, found 9 to 9"),
        (np.full(72, 0.5), "whole number"),
        (np.zeros((72, 2)), "shape"),
        (np.zeros(0), "shape"),
    ],
)
def test_a_file_of_labels_that_does_not_fit_says_what_was_expected(
    tmp_path: Path, labels: np.ndarray, message: str
) -> None:
    np.save(tmp_path / "l.npy", labels)
    with pytest.raises(RemnantError, match=message):
        FromFile(str(tmp_path / "l.npy"))(tiny_data(), rng())


def test_an_archive_of_labels_asks_which_of_its_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "l.npz", worse=np.zeros(72, dtype=np.int64))
    with pytest.raises(RemnantError, match=r"worse.*--set noise\.key=worse"):
        FromFile(str(tmp_path / "l.npz"))(tiny_data(), rng())


@pytest.mark.parametrize("content", [b"PK\x03\x04 cut short", b"\x93NUMPY no archive", b""])
def test_a_damaged_archive_of_labels_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "l.npz").write_bytes(content)
    with pytest.raises(RemnantError, match=r"l\.npz"):
        FromFile(str(tmp_path / "l.npz"), "worse")(tiny_data(), rng())


def test_an_archive_whose_rows_are_in_another_order_is_refused(tmp_path: Path) -> None:
    data = tiny_data()
    np.savez(tmp_path / "l.npz", worse=data.y, clean_label=data.y[::-1])
    with pytest.raises(RemnantError, match="another order"):
        FromFile(str(tmp_path / "l.npz"), "worse")(data, rng())
    np.savez(tmp_path / "l.npz", worse=data.y, clean_label=data.y)
    assert np.array_equal(FromFile(str(tmp_path / "l.npz"), "worse")(data, rng()), data.y)


def test_labels_that_are_not_finite_or_not_real_are_refused(tmp_path: Path) -> None:
    for labels in (np.array([1.0, np.inf]), np.array([1 + 0j])):
        np.save(tmp_path / "l.npy", labels)
        with pytest.raises(RemnantError, match="expected one whole number for each training row"):
            read_labels(tmp_path / "l.npy", "")


def test_an_empty_or_damaged_archive_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "l.npz")
    with pytest.raises(RemnantError, match="found an empty one"):
        read_labels(tmp_path / "l.npz", "a")
    np.savez_compressed(tmp_path / "l.npz", a=np.arange(5000) % 10)
    content = bytearray((tmp_path / "l.npz").read_bytes())
    start = content.find(b"a.npy") + 45
    content[start : start + 20] = b"\xff" * 20
    (tmp_path / "l.npz").write_bytes(content)
    with pytest.raises(RemnantError, match="cannot be read"):
        read_labels(tmp_path / "l.npz", "a")


def test_a_pickled_file_of_labels_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "l.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(RemnantError, match="cannot be read"):
        FromFile(str(tmp_path / "l.npy"))(tiny_data(), rng())


@pytest.mark.parametrize("name", ["missing.npy", "text.csv"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
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
def test_a_damaged_array_is_refused(tmp_path: Path, content: bytes) -> None:
    if content.startswith(MAGIC):
        content = content[:8] + (len(content) - 10).to_bytes(2, "little") + content[10:]
    (tmp_path / "l.npy").write_bytes(content)
    with pytest.raises(
        RemnantError, match=r"l\.npy: expected an array of labels, but it cannot be read"
    ):
        read_labels(tmp_path / "l.npy", "")


def test_an_archive_that_is_called_an_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "l.npz", np.arange(3))
    (tmp_path / "l.npz").rename(tmp_path / "l.npy")
    with pytest.raises(RemnantError, match=r"an archive: its name should end with \.npz"):
        read_labels(tmp_path / "l.npy", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "input contained no data"), ("1\nnan\n", "found nan in row 1"), ("2.5", "found 2.5 in row 0")],
)
@pytest.mark.filterwarnings("error")
def test_labels_that_are_no_whole_numbers_are_shown(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(RemnantError, match=words):
        read_labels(tmp_path / "l.csv", "")


def test_a_file_may_lie_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    data = tiny_data()
    np.save(tmp_path / "l.npy", data.y)
    noise = FromFile("~/l.npy")
    noise.check(data.spec)
    assert np.array_equal(noise(data, rng()), data.y)
