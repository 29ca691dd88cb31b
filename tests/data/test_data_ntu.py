from pathlib import Path

import numpy as np
import pytest
import skeleton_files as made
import torch

from remnant.data import DATA, check, get, load, ntu, subset
from remnant.data.skeleton_file import energy, read_bodies, read_people
from remnant.errors import RemnantError

NAMES = [
    *("S001C001P001R001A001", "S001C002P003R001A002", "S017C003P038R002A060", "S002C001P003R001A002"),
    *("S002C002P001R001A050", "S018C001P041R001A001", "S001C001P001R001A061"),
]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_two_bodies_are_read_where_they_are(tmp_path: Path) -> None:
    draw = rng()
    frames = [[made.body(draw), made.body(draw)], [made.body(draw)]]
    found = read_bodies(made.write(tmp_path, "S001C001P001R001A050", frames), frames=5)
    assert found.shape == (4, 5, 25, 3)
    assert np.allclose(found[0, 0], frames[0][0], atol=1e-6)
    assert np.allclose(found[1, 0], frames[0][1], atol=1e-6)
    assert np.allclose(found[0, 1], frames[1][0], atol=1e-6)
    assert not found[1:, 1:].any()
    assert not found[0, 2:].any()


def test_a_frame_may_be_empty(tmp_path: Path) -> None:
    one = made.body(rng())
    found = read_bodies(made.write(tmp_path, "S001C001P001R001A001", [[one], [], [one]]), frames=3)
    assert found[0].any((1, 2)).tolist() == [True, False, True]


def test_frames_and_bodies_beyond_what_is_kept_are_passed_over(tmp_path: Path) -> None:
    draw = rng()
    crowd = [[made.body(draw) for _ in range(6)] for _ in range(4)]
    found = read_bodies(made.write(tmp_path, "S001C001P001R001A001", crowd), frames=2)
    assert found.shape == (4, 2, 25, 3)
    assert np.allclose(found[3, 1], crowd[1][3], atol=1e-6)


def test_energy_by_hand() -> None:
    body = np.zeros((3, 2, 3), np.float32)
    body[0, :, 0], body[2, :, 0] = 1, 3  # x is 1, 1, 3, 3 in the frames in which it is seen
    body[0, :, 1] = body[2, :, 1] = (0, 4)
    assert energy(body) == pytest.approx(1 + 2)
    assert energy(body[1:2]) == 0


def test_those_who_move_most_are_kept(tmp_path: Path) -> None:
    draw = rng()
    frames = [[made.body(draw, spread) for spread in (0.1, 2.0, 1.0)] for _ in range(3)]
    found = read_people(made.write(tmp_path, "S001C001P001R001A001", frames), frames=4)
    assert found.shape == (3, 4, 25, 2)
    assert np.allclose(found[:, 0, :, 0].T, frames[0][1], atol=1e-6)
    assert np.allclose(found[:, 0, :, 1].T, frames[0][2], atol=1e-6)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (0, r"line 1: expected the number of frames in 1 value\(s\), found the end of the file"),
        (1, r"line 2: expected the number of bodies in 1 value\(s\), found the end of the file"),
        (2, r"line 3: expected a body in 10 value\(s\), found the end of the file"),
        (3, r"line 4: expected the number of joints in 1 value\(s\), found the end of the file"),
        (20, r"line 21: expected a joint in 12 value\(s\), found the end of the file"),
        (29, r"line 30: expected the number of bodies in 1 value\(s\), found the end of the file"),
    ],
)
def test_a_truncated_file_is_named_with_its_line(tmp_path: Path, lines: int, expected: str) -> None:
    draw = rng()
    path = made.write(tmp_path, "S001C001P001R001A001", [[made.body(draw)], [made.body(draw)]])
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    with pytest.raises(RemnantError, match=rf"{path}, {expected}\. Unpack the file anew"):
        read_bodies(path, 3)


@pytest.mark.parametrize(
    ("line", "content", "expected"),
    [
        (2, "many", "line 2: expected the number of bodies, found 'many'"),
        (4, "20", "line 4: expected 25 joints, found 20"),
        (5, "0.1 0.2", r"line 5: expected a joint in 12 value\(s\), found '0.1 0.2'"),
        (6, "0.1 0.2 x" + " 0" * 9, "line 6: expected a joint in numbers"),
        (6, "0.1 0.2 nan" + " 0" * 9, "line 6: expected a joint within 65504 metres"),
        (6, "0.1 0.2 1e6" + " 0" * 9, "line 6: expected a joint within 65504 metres"),
        (2, "1" * 5000, "line 2: expected the number of bodies"),
        (30, "1", "line 30: expected the end of the file after its last frame, found '1'"),
    ],
)
def test_what_is_wrong_in_a_line_is_said(tmp_path: Path, line: int, content: str, expected: str) -> None:
    path = made.write(tmp_path, "S001C001P001R001A001", [[made.body(rng())]])
    lines = [*path.read_text().splitlines(), ""]
    lines[line - 1] = content
    path.write_text("\n".join(lines))
    with pytest.raises(RemnantError, match=expected):
        read_bodies(path, 3)


def test_a_file_without_anybody_is_refused(tmp_path: Path) -> None:
    path = made.write(tmp_path, "S001C001P001R001A001", [[], []])
    with pytest.raises(RemnantError, match="expected somebody in one of the frames, found nobody"):
        read_people(path, 3)


def test_the_two_splits(tmp_path: Path) -> None:
    made.write_ntu(tmp_path, NAMES, left_out=["S002C001P003R001A002"])
    people, cameras = load("ntu60", tmp_path), load("ntu60-xview", tmp_path)
    assert (people.y.tolist(), people.test_y.tolist()) == ([0, 49, 59], [1])
    assert (cameras.y.tolist(), cameras.test_y.tolist()) == ([1, 49, 59], [0])
    assert (people.published, people.index.tolist()) == (3, [0, 1, 2])
    x = people.train.take(torch.tensor([2, 0]))
    assert x.shape == (2, 3, 288, 25, 2)
    assert x.dtype == torch.float16 == people.spec.dtype
    sample = tmp_path / "nturgb+d_skeletons" / "S017C003P038R002A060.skeleton"
    assert np.array_equal(x[0].numpy(), read_people(sample, 288).astype(np.float16))
    assert len(people.train) == 3
    assert len(subset(people, 1, rng()).train) == 3


def test_the_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.write_ntu(tmp_path, NAMES[:3], left_out=[])
    first = load("ntu60", tmp_path)
    (folder,) = tmp_path.glob("ntu60-*")

    def never(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(ntu, "read_people", never)
    again = load("ntu60-xview", tmp_path)
    assert torch.equal(first.train.take(torch.arange(2))[1], again.train.take(torch.arange(2))[1])
    made.write_ntu(tmp_path, NAMES[:4], left_out=[])
    with pytest.raises(AssertionError, match="read again"):
        load("ntu60", tmp_path)
    assert list(tmp_path.glob("*ntu60-*")) == [folder]


def test_reading_that_fails_leaves_nothing_half_written(tmp_path: Path) -> None:
    made.write_ntu(tmp_path, NAMES[:3], left_out=[])
    path = tmp_path / "nturgb+d_skeletons" / f"{NAMES[2]}.skeleton"
    path.write_text(path.read_text()[:900])
    with pytest.raises(RemnantError, match=rf"{NAMES[2]}.skeleton, line \d+: expected a joint"):
        load("ntu60", tmp_path)
    assert not list(tmp_path.glob("*ntu60-*"))
    made.write_ntu(tmp_path, [], left_out=[NAMES[2]])
    assert len(load("ntu60", tmp_path).y) == 1


def test_a_file_that_was_changed_is_read_again(tmp_path: Path) -> None:
    made.write_ntu(tmp_path, NAMES[:3], left_out=[])
    before = load("ntu60", tmp_path).train.take(torch.arange(1))
    path = tmp_path / "nturgb+d_skeletons" / f"{NAMES[0]}.skeleton"
    lines = path.read_text().splitlines()
    lines[4] = f"7.{lines[4].partition('.')[2]}"
    path.write_text("\n".join(lines) + "\n")
    assert not torch.equal(load("ntu60", tmp_path).train.take(torch.arange(1)), before)


@pytest.mark.parametrize(
    "name", ["S001C001P001R001A000", "S001C001P001R001A061", "S018C001P001R001A001"]
)
def test_samples_of_other_actions_and_setups_are_passed_over(tmp_path: Path, name: str) -> None:
    made.write_ntu(tmp_path, [name], left_out=[])
    with pytest.raises(RemnantError, match=rf"60 actions \(A\), found 1 others, as {name}"):
        load("ntu60", tmp_path)
    made.write_ntu(tmp_path, NAMES[:3], left_out=[])
    assert len(load("ntu60", tmp_path).y) + len(load("ntu60", tmp_path).test_y) == 3


@pytest.mark.parametrize("line", ["{}", "{}.skeleton", "\ufeff{}"])
def test_a_sample_is_left_out_by_its_name_or_its_file(tmp_path: Path, line: str) -> None:
    made.write_ntu(tmp_path, NAMES[:3], left_out=[])
    (tmp_path / ntu.LEFT_OUT).write_text(line.format(NAMES[0]), encoding="utf-8")
    assert [s.path.stem for s in ntu.find_samples(tmp_path)] == sorted(NAMES[1:3])
    (tmp_path / ntu.LEFT_OUT).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RemnantError, match="expected the list of samples"):
        ntu.find_samples(tmp_path)


def test_the_check_reads_every_sample(tmp_path: Path) -> None:
    made.write_ntu(tmp_path, NAMES[:3], left_out=[])
    assert [found.problem for found in check("ntu60", tmp_path)] == [None]
    path = tmp_path / "nturgb+d_skeletons" / f"{NAMES[1]}.skeleton"
    path.write_text("many")
    problems = {found.path: found.problem for found in check("ntu60", tmp_path)}
    assert problems.keys() == {path.parent, path}
    assert str(problems[path]).startswith("line 1: expected the number of frames, found 'many'")


def test_what_is_missing_is_said_with_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"expected \.skeleton files, found none; ask for it at"):
        load("ntu60", tmp_path)
    made.write_ntu(tmp_path, NAMES[:1], left_out=[])
    (tmp_path / ntu.LEFT_OUT).unlink()
    with pytest.raises(RemnantError, match=r"expected the list of samples .* make it an empty file"):
        load("ntu60", tmp_path)
    with pytest.raises(RemnantError, match="ntu60 cannot be downloaded: ask for it"):
        get("ntu60", tmp_path)


def test_there_are_sixty_actions_and_twenty_people_to_learn_from() -> None:
    assert len(set(DATA["ntu60"].spec.classes)) == 60
    subjects = "1,2,4,5,8,9,13,14,15,16,17,18,19,25,27,28,31,34,35,38"
    assert list(ntu.TRAIN_SUBJECTS) == [int(s) for s in subjects.split(",")]
    assert ntu.TRAIN_CAMERAS == (2, 3)


def test_who_moves_late_is_kept_too(tmp_path: Path) -> None:
    draw = rng()
    still, late = made.body(draw, 0.1), made.body(draw, 0.01)
    frames = [[still, late] for _ in range(3)] + [[still, late + 5]]
    found = read_people(made.write(tmp_path, "S001C001P001R001A001", frames), frames=3)
    assert np.allclose(found[:, 0, :, 0].T, late, atol=1e-6)
