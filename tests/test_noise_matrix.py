from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_data
from hypothesis import given, settings
from hypothesis import strategies as st
from test_noise import dataset_like, rng

from remnant.config import resolve
from remnant.errors import RemnantError
from remnant.noise import Matrix
from remnant.noise.matrix import apportion, transfer

EVEN = np.full((6, 6), 0.08) + np.eye(6) * 0.52  # 60 % right, 8 % to each other class


def counted(y: np.ndarray, observed: np.ndarray, classes: int) -> np.ndarray:
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (y, observed), 1)
    return counts


def saved(folder: Path, matrix: np.ndarray, suffix: str = "npy") -> str:
    path = folder / f"matrix.{suffix}"
    if suffix == "npy":
        np.save(path, matrix)
    elif suffix == "npz":
        np.savez(path, worse=matrix, other=matrix.T)
    else:
        np.savetxt(path, matrix, delimiter=",")
    return str(path)


def test_the_largest_remainder_gets_the_row_that_is_left() -> None:
    # 10 rows: quotas 4.7, 2.8, 2.5; whole parts 4, 2, 2; the two left go to 0.8 and 0.7.
    assert apportion(np.array([0.47, 0.28, 0.25]), 10, rng()).tolist() == [5, 3, 2]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(lambda s: sum(s) > 0.01),
       st.integers(0, 500), st.integers(0, 9))  # fmt: skip
@settings(max_examples=100)
def test_counts_add_up_and_miss_their_share_by_less_than_one(
    shares: list[float], total: int, seed: int
) -> None:
    weights = np.array(shares) / sum(shares)
    counts = apportion(weights, total, rng(seed))
    assert counts.sum() == total
    assert (np.abs(counts - weights * total) < 1 + 1e-6).all()
    assert (counts[weights == 0] == 0).all()


def test_equal_remainders_draw_lots() -> None:
    winners = {tuple(apportion(np.full(4, 0.25), 5, rng(seed)).tolist()) for seed in range(40)}
    assert winners == {(2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2)}


def test_every_row_of_the_matrix_is_met_exactly() -> None:
    y = np.repeat(np.arange(3), 100)
    matrix = np.array([[0.7, 0.1, 0.2], [0.0, 1.0, 0.0], [0.33, 0.33, 0.34]])
    counts = counted(y, transfer(y, matrix, rng()), 3)
    assert counts.tolist() == [[70, 10, 20], [0, 100, 0], [33, 33, 34]]


def test_a_matrix_without_noise_changes_nothing() -> None:
    y = rng().integers(0, 5, 300)
    assert np.array_equal(transfer(y, np.eye(5), rng()), y)


def test_a_class_that_is_not_there_is_no_trouble() -> None:
    assert transfer(np.zeros(4, dtype=np.int64), np.eye(3)[[1, 0, 2]], rng()).tolist() == [1] * 4


def test_the_rows_that_change_are_chosen_by_lot() -> None:
    y = np.zeros(1000, dtype=np.int64)
    wrong = transfer(y, np.array([[0.6, 0.4], [0, 1]]), rng()) != y
    assert wrong.sum() == 400
    assert wrong[:500].sum() == pytest.approx(200, abs=50)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv"])
def test_a_matrix_comes_from_a_file(tmp_path: Path, suffix: str) -> None:
    data = tiny_data(rows=50)
    key = "worse" if suffix == "npz" else ""
    observed = Matrix(saved(tmp_path, EVEN, suffix), key)(data, rng())
    assert np.array_equal(counted(data.y, observed, 6), np.round(EVEN * 50).astype(int))


def test_the_same_seed_gives_the_same_labels_and_another_seed_others(tmp_path: Path) -> None:
    data, noise = tiny_data(rows=50), Matrix(saved(tmp_path, EVEN))
    first, again, other = (noise(data, rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.array_equal(counted(data.y, first, 6), counted(data.y, other, 6))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(5), r"6 x 6 numbers, a row for each true class of tiny, found .* \(5, 5\)"),
        (np.ones(6) / 6, r"6 x 6 numbers.* \(6,\)"),
        (np.full((6, 6), "a"), "type <U1"),
        (EVEN + np.eye(6)[::-1] * [-0.2, 0, 0, 0, 0, 0], r"found -0\.12 in row 5 \(class-5\), column 0"),
        (np.where(EVEN > 0.5, np.nan, EVEN), "found nan in row 0"),
        (EVEN * 0.99, r"found 0\.99 in row 0 \(class-0\), and 6 such rows in all. Divide each row"),
        (EVEN * 100, r"found 100 in row 0.*Divide each row by its sum"),
        (np.eye(6)[[0, 0, 0, 3, 4, 5]].T, r"found 3 in row 0.*Its columns do: transpose it"),
    ],
)
def test_a_file_that_is_no_transition_matrix_says_where(
    tmp_path: Path, matrix: np.ndarray, message: str
) -> None:
    with pytest.raises(RemnantError, match=rf"matrix\.npy: expected .*{message}"):
        Matrix(saved(tmp_path, matrix))(tiny_data(), rng())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("1,0\n0,one\n")
    with pytest.raises(
        RemnantError, match=r"m\.csv: expected an array of shares.*row of the matrix a line"
    ):
        Matrix(str(tmp_path / "m.csv"))(tiny_data(), rng())
    with pytest.raises(RemnantError, match="expected a file of shares, found none"):
        Matrix(str(tmp_path / "missing.npy"))(tiny_data(), rng())
    with pytest.raises(RemnantError, match=r"other.*--set noise\.key=worse"):
        Matrix(saved(tmp_path, EVEN, "npz"))(tiny_data(), rng())
    with pytest.raises(ValueError, match="needs a path"):
        Matrix()


def test_shares_in_single_precision_are_fine(tmp_path: Path) -> None:
    data = dataset_like("cifar100", rows=10)
    random = rng().random((100, 100))
    matrix = (random / random.sum(1, keepdims=True)).astype(np.float32)
    observed = Matrix(saved(tmp_path, matrix))(data, rng())
    assert counted(data.y, observed, 100).sum(1).tolist() == [10] * 100


def test_a_config_refuses_the_matrix_of_other_data_before_any_row_is_read(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"noise: .*expected a matrix of 10 x 10 numbers"):
        resolve({"noise": f"matrix:{saved(tmp_path, EVEN)}"})
    config = resolve({"noise": f"matrix:{saved(tmp_path, np.eye(10), 'csv')}"})
    assert config.run_id("x").startswith("digits-aer-abs-matrix-matrix.csv-s0-")
