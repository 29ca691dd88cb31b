import os
from pathlib import Path

import numpy as np
import pytest
import torch

from remnant.data import check, load
from remnant.data.nw_ucla import resample
from remnant.errors import RemnantError


def content(lengths: tuple[int, ...] = (4, 1, 9, 6)) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "joints": rng.normal(size=(sum(lengths), 20, 3)).astype(np.float32),
        "offsets": np.cumsum([0, *lengths]),
        "y": np.arange(len(lengths)),
        "is_train_crossview": np.array([True, True, False, True]),
    }


def test_sequences_of_one_frame_are_dropped_and_the_split_is_by_camera(tmp_path: Path) -> None:
    np.savez(tmp_path / "nw_ucla.npz", **content())
    data = load("nw-ucla", tmp_path)
    assert (data.y.tolist(), data.test_y.tolist()) == ([0, 3], [2])
    x = data.train.take(torch.arange(2))
    assert x.shape == (2, 3, 64, 20, 1)
    assert x.dtype == torch.float32 == data.spec.dtype


def test_joints_are_relative_to_the_hips_in_the_first_frame() -> None:
    joints = content()["joints"][:4]
    found = resample(joints, frames=4)
    assert np.allclose(found[..., 0], (joints - joints[0, 0]).transpose(2, 0, 1))
    assert not found[:, 0, 0].any()


@pytest.mark.parametrize(
    ("positions", "expected"), [([0, 4], [0, 1, 2, 3, 4]), ([0, 1, 5], [0, 0.5, 1, 3, 5])]
)
def test_short_sequences_are_interpolated_linearly(positions: list[float], expected: list[float]) -> None:
    joints = np.zeros((len(positions), 20, 3), np.float32)
    joints[:, 7, 1] = positions
    assert resample(joints, frames=5)[1, :, 7, 0].tolist() == expected


def test_long_sequences_keep_their_last_frame() -> None:
    joints = np.random.default_rng(0).normal(size=(201, 20, 3)).astype(np.float32)
    found = resample(joints)
    assert np.allclose(found[:, -1, :, 0].T, joints[-1] - joints[0, 0], atol=1e-5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"joints": np.zeros((20, 25, 3), np.float32)}, r"joints \(F, 20, 3\)"),
        ({"offsets": np.array([0, 4, 5, 14, 21])}, "offsets that increase from 0 to F"),
        ({"offsets": np.array([0, 4, 4, 14, 20])}, "offsets that increase from 0 to F"),
        ({"y": np.array([0, 1, 2, 10])}, "labels below 10"),
        (
            {"is_train_crossview": np.zeros(4)},
            r"is_train_crossview \(4,\) of bool, found joints \(20, 20, 3\) of float32",
        ),
        ({"joints": np.full((20, 20, 3), np.nan, np.float32)}, "finite joints"),
        ({"joints": np.float32(1)}, r"joints \(F, 20, 3\) in metres"),
        ({"joints": np.zeros((20, 20, 3), int)}, r"joints \(F, 20, 3\) in metres"),
        ({"offsets": np.array([0, 9, 5, 14, 20], np.uint64)}, "offsets that increase from 0 to F"),
        ({"offsets": np.array(4)}, r"offsets \(n \+ 1,\) of integers"),
        ({"is_train_crossview": np.ones(4, bool)}, "sequences of at least two frames in both splits"),
    ],
)
def test_arrays_that_do_not_match_are_an_error(
    tmp_path: Path, change: dict[str, np.ndarray], expected: str
) -> None:
    np.savez(tmp_path / "nw_ucla.npz", **(content() | change))
    with pytest.raises(RemnantError, match=f"nw_ucla.npz: expected {expected}"):
        load("nw-ucla", tmp_path)


def test_a_missing_or_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nw_ucla.npz"
    with pytest.raises(RemnantError, match=r"expected a file, found nothing; put a file nw_ucla\.npz"):
        load("nw-ucla", tmp_path)
    path.write_bytes(b"PK no archive")
    with pytest.raises(RemnantError, match=r"expected an \.npz file with the arrays joints, offsets"):
        load("nw-ucla", tmp_path)
    np.savez(path, joints=np.zeros(3))
    with pytest.raises(RemnantError, match="offsets is not a file in the archive"):
        load("nw-ucla", tmp_path)


def test_joints_in_double_precision_are_converted(tmp_path: Path) -> None:
    found = content()
    np.savez(tmp_path / "nw_ucla.npz", **(found | {"joints": found["joints"].astype(np.float64)}))
    assert load("nw-ucla", tmp_path).train.take(torch.arange(1)).dtype == torch.float32


def test_check_reports_the_error_of_loading(tmp_path: Path) -> None:
    np.savez(tmp_path / "nw_ucla.npz", **content())
    assert [found.problem for found in check("nw-ucla", tmp_path)] == [None]
    (tmp_path / "nw_ucla.npz").unlink()
    assert [found.problem for found in check("nw-ucla", tmp_path)] == ["expected a file, found nothing"]


@pytest.mark.data
def test_the_published_dataset_is_loaded_completely() -> None:
    data = load("nw-ucla", Path(os.environ["REMNANT_DATA"]))
    assert (len(data.y), len(data.test_y)) == (1019, 463)
    assert np.bincount(data.y).tolist() == [102, 101, 96, 124, 101, 102, 99, 99, 98, 97]
