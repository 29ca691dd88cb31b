from pathlib import Path

import numpy as np
import pytest
import skeleton_files
import torch

from remnant.data import DATA, check, get, load, ntu, subset
from remnant.data.skeleton_file import read_people
from remnant.errors import RemnantError

NAMES = [
    *("S001C001P001R001A001", "S001C002P003R001A002", "S017C003P038R002A060", "S002C001P003R001A002"),
    *("S002C002P001R001A050", "S018C001P041R001A001", "S001C001P001R001A061"),
]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_splits_are_by_subject_and_by_camera(tmp_path: Path) -> None:
    skeleton_files.write_ntu(tmp_path, NAMES, excluded=["S002C001P003R001A002"])
    by_subject, by_camera = load("ntu60", tmp_path), load("ntu60-xview", tmp_path)
    assert (by_subject.y.tolist(), by_subject.test_y.tolist()) == ([0, 49, 59], [1])
    assert (by_camera.y.tolist(), by_camera.test_y.tolist()) == ([1, 49, 59], [0])
    assert (by_subject.published, by_subject.index.tolist()) == (3, [0, 1, 2])
    x = by_subject.train.take(torch.tensor([2, 0]))
    assert x.shape == (2, 3, 288, 25, 2)
    assert x.dtype == torch.float16 == by_subject.spec.dtype
    sample = tmp_path / "nturgb+d_skeletons" / "S017C003P038R002A060.skeleton"
    assert np.array_equal(x[0].numpy(), read_people(sample, 288).astype(np.float16))
    assert len(by_subject.train) == 3
    assert len(subset(by_subject, 1, rng()).train) == 3


def test_files_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skeleton_files.write_ntu(tmp_path, NAMES[:3], excluded=[])
    first = load("ntu60", tmp_path)
    (folder,) = tmp_path.glob("ntu60-*")

    def never(*_: object) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr(ntu, "read_people", never)
    again = load("ntu60-xview", tmp_path)
    assert torch.equal(first.train.take(torch.arange(2))[1], again.train.take(torch.arange(2))[1])
    skeleton_files.write_ntu(tmp_path, NAMES[:4], excluded=[])
    with pytest.raises(AssertionError, match="parsed again"):
        load("ntu60", tmp_path)
    assert list(tmp_path.glob("*ntu60-*")) == [folder]


def test_a_damaged_file_leaves_no_incomplete_cache(tmp_path: Path) -> None:
    skeleton_files.write_ntu(tmp_path, NAMES[:3], excluded=[])
    path = tmp_path / "nturgb+d_skeletons" / f"{NAMES[2]}.skeleton"
    path.write_text(path.read_text()[:900])
    with pytest.raises(RemnantError, match=rf"{NAMES[2]}.skeleton, line \d+: expected a joint"):
        load("ntu60", tmp_path)
    assert not list(tmp_path.glob("*ntu60-*"))
    skeleton_files.write_ntu(tmp_path, [], excluded=[NAMES[2]])
    assert len(load("ntu60", tmp_path).y) == 1


def test_a_changed_file_is_parsed_again(tmp_path: Path) -> None:
    skeleton_files.write_ntu(tmp_path, NAMES[:3], excluded=[])
    before = load("ntu60", tmp_path).train.take(torch.arange(1))
    path = tmp_path / "nturgb+d_skeletons" / f"{NAMES[0]}.skeleton"
    lines = path.read_text().splitlines()
    lines[4] = f"7.{lines[4].partition('.')[2]}"
    path.write_text("\n".join(lines) + "\n")
    assert not torch.equal(load("ntu60", tmp_path).train.take(torch.arange(1)), before)


@pytest.mark.parametrize("name", ["S001C001P001R001A000", "S001C001P001R001A061", "S018C001P001R001A001"])
def test_samples_of_other_actions_and_setups_are_ignored(tmp_path: Path, name: str) -> None:
    skeleton_files.write_ntu(tmp_path, [name], excluded=[])
    with pytest.raises(RemnantError, match=rf"60 actions \(A\), found 1 other files, like {name}"):
        load("ntu60", tmp_path)
    skeleton_files.write_ntu(tmp_path, NAMES[:3], excluded=[])
    assert len(load("ntu60", tmp_path).y) + len(load("ntu60", tmp_path).test_y) == 3


@pytest.mark.parametrize("line", ["{}", "{}.skeleton", "\ufeff{}"])
def test_a_sample_is_excluded_by_its_name_or_file_name(tmp_path: Path, line: str) -> None:
    skeleton_files.write_ntu(tmp_path, NAMES[:3], excluded=[])
    (tmp_path / ntu.EXCLUDED).write_text(line.format(NAMES[0]), encoding="utf-8")
    assert [s.path.stem for s in ntu.find_samples(tmp_path)] == sorted(NAMES[1:3])
    (tmp_path / ntu.EXCLUDED).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RemnantError, match="expected the list of samples"):
        ntu.find_samples(tmp_path)


def test_check_reads_every_sample(tmp_path: Path) -> None:
    skeleton_files.write_ntu(tmp_path, NAMES[:3], excluded=[])
    assert [found.problem for found in check("ntu60", tmp_path)] == [None]
    path = tmp_path / "nturgb+d_skeletons" / f"{NAMES[1]}.skeleton"
    path.write_text("many")
    problems = {found.path: found.problem for found in check("ntu60", tmp_path)}
    assert problems.keys() == {path.parent, path}
    assert str(problems[path]).startswith("line 1: expected the number of frames, found 'many'")


def test_missing_files_are_an_error_with_download_instructions(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"expected \.skeleton files, found none; request it at"):
        load("ntu60", tmp_path)
    skeleton_files.write_ntu(tmp_path, NAMES[:1], excluded=[])
    (tmp_path / ntu.EXCLUDED).unlink()
    with pytest.raises(RemnantError, match=r"expected the list of samples .* create an empty file"):
        load("ntu60", tmp_path)
    with pytest.raises(RemnantError, match="ntu60 cannot be downloaded automatically: request it"):
        get("ntu60", tmp_path)


def test_there_are_60_actions_and_20_training_subjects() -> None:
    assert len(set(DATA["ntu60"].spec.classes)) == 60
    subjects = "1,2,4,5,8,9,13,14,15,16,17,18,19,25,27,28,31,34,35,38"
    assert list(ntu.TRAIN_SUBJECTS) == [int(s) for s in subjects.split(",")]
    assert ntu.TRAIN_CAMERAS == (2, 3)
