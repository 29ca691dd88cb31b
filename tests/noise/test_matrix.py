from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_data
from hypothesis import given, settings, strategies as st
from noise_helpers import dataset_like, rng

from remnant.config import resolve
from remnant.errors import RemnantError
from remnant.noise import Matrix
from remnant.noise.matrix import apply_matrix, apportion

EVEN = np.full((6, 6), 0.08) + np.eye(6) * 0.52  # 60 % clean, 8 % to each other class


def count(y: np.ndarray, observed: np.ndarray, classes: int) -> np.ndarray:
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (y, observed), 1)
    return counts


def save(folder: Path, matrix: np.ndarray, suffix: str = "npy") -> str:
    path = folder / f"matrix.{suffix}"
    if suffix == "npy":
        np.save(path, matrix)
    elif suffix == "npz":
        np.savez(path, worse=matrix, other=matrix.T)
    else:
        np.savetxt(path, matrix, delimiter=",")
    return str(path)


def test_the_largest_remainders_get_the_remaining_samples() -> None:
    # 10 samples: quotas 4.7, 2.8, 2.5; integer parts 4, 2, 2; the remaining two go to 0.8 and 0.7.
    assert apportion(np.array([0.47, 0.28, 0.25]), 10, rng()).tolist() == [5, 3, 2]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(lambda s: sum(s) > 0.01),
       st.integers(0, 500), st.integers(0, 9))  # fmt: skip
@settings(max_examples=100)
def test_counts_sum_to_the_total_and_differ_from_their_quota_by_less_than_one(
    fractions: list[float], total: int, seed: int
) -> None:
    weights = np.array(fractions) / sum(fractions)
    counts = apportion(weights, total, rng(seed))
    assert counts.sum() == total
    assert (np.abs(counts - weights * total) < 1 + 1e-6).all()
    assert (counts[weights == 0] == 0).all()


def test_equal_remainders_are_broken_at_random() -> None:
    winners = {tuple(apportion(np.full(4, 0.25), 5, rng(seed)).tolist()) for seed in range(40)}
    assert winners == {(2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2)}


def test_every_row_of_the_matrix_is_realised_exactly() -> None:
    y = np.repeat(np.arange(3), 100)
    matrix = np.array([[0.7, 0.1, 0.2], [0.0, 1.0, 0.0], [0.33, 0.33, 0.34]])
    counts = count(y, apply_matrix(y, matrix, rng()), 3)
    assert counts.tolist() == [[70, 10, 20], [0, 100, 0], [33, 33, 34]]


def test_the_identity_matrix_keeps_all_labels_clean() -> None:
    y = rng().integers(0, 5, 300)
    assert np.array_equal(apply_matrix(y, np.eye(5), rng()), y)


def test_a_class_without_samples_is_allowed() -> None:
    assert apply_matrix(np.zeros(4, dtype=np.int64), np.eye(3)[[1, 0, 2]], rng()).tolist() == [1] * 4


def test_noisy_samples_are_spread_over_the_whole_class() -> None:
    y = np.zeros(1000, dtype=np.int64)
    noisy = apply_matrix(y, np.array([[0.6, 0.4], [0, 1]]), rng()) != y
    assert noisy.sum() == 400
    assert noisy[:500].sum() == pytest.approx(200, abs=50)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv"])
def test_a_matrix_is_read_from_npy_npz_and_csv(tmp_path: Path, suffix: str) -> None:
    data = tiny_data(rows=50)
    key = "worse" if suffix == "npz" else ""
    observed = Matrix(save(tmp_path, EVEN, suffix), key)(data, rng())
    assert np.array_equal(count(data.y, observed, 6), np.round(EVEN * 50).astype(int))


def test_the_seed_determines_the_noisy_samples_but_not_their_number(tmp_path: Path) -> None:
    data, noise = tiny_data(rows=50), Matrix(save(tmp_path, EVEN))
    first, again, other = (noise(data, rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.array_equal(count(data.y, first, 6), count(data.y, other, 6))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(5), r"6 x 6 numbers, one row per true class of tiny, got .* \(5, 5\)"),
        (np.ones(6) / 6, r"6 x 6 numbers.* \(6,\)"),
        (np.full((6, 6), "a"), "type <U1"),
        (EVEN + np.eye(6)[::-1] * [-0.2, 0, 0, 0, 0, 0], r"got -0\.12 in row 5 \(class-5\), column 0"),
        (np.where(EVEN > 0.5, np.nan, EVEN), "got nan in row 0"),
        (
            EVEN * 0.99,
            r"got a sum of 0\.99 in row 0 \(class-0\); 6 rows do not sum to 1. Divide each row",
        ),
        (EVEN * 100, r"got a sum of 100 in row 0.*Divide each row by its sum"),
        (np.eye(6)[[0, 0, 0, 3, 4, 5]].T, r"got a sum of 3 in row 0.*Its columns do: transpose it"),
    ],
)
def test_an_invalid_matrix_raises_and_names_the_position(
    tmp_path: Path, matrix: np.ndarray, message: str
) -> None:
    with pytest.raises(RemnantError, match=rf"matrix\.npy: expected .*{message}"):
        Matrix(save(tmp_path, matrix))(tiny_data(), rng())


def test_a_missing_or_unreadable_file_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("1,0\n0,one\n")
    with pytest.raises(
        RemnantError, match=r"m\.csv: expected an array of fractions.*one row of the matrix per line"
    ):
        Matrix(str(tmp_path / "m.csv"))(tiny_data(), rng())
    with pytest.raises(RemnantError, match="expected a file of fractions, found none"):
        Matrix(str(tmp_path / "missing.npy"))(tiny_data(), rng())
    with pytest.raises(RemnantError, match=r"other.*noise\.key=worse"):
        Matrix(save(tmp_path, EVEN, "npz"))(tiny_data(), rng())
    with pytest.raises(ValueError, match="needs a path"):
        Matrix()


def test_a_matrix_in_single_precision_is_accepted(tmp_path: Path) -> None:
    data = dataset_like("cifar100", per_class=10)
    random = rng().random((100, 100))
    matrix = (random / random.sum(1, keepdims=True)).astype(np.float32)
    observed = Matrix(save(tmp_path, matrix))(data, rng())
    assert count(data.y, observed, 100).sum(1).tolist() == [10] * 100


def test_a_config_checks_the_matrix_before_any_sample_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"noise: .*expected a matrix of 10 x 10 numbers"):
        resolve({"noise": f"matrix:{save(tmp_path, EVEN)}"})
    config = resolve({"noise": f"matrix:{save(tmp_path, np.eye(10), 'csv')}"})
    assert config.run_id("x").startswith("digits-aer-abs-matrix-matrix.csv-s0-")
