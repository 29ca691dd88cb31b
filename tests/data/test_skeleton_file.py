from pathlib import Path

import numpy as np
import pytest
from skeleton_files import body, write

from remnant.data.skeleton_file import read_bodies, read_people, spread
from remnant.errors import RemnantError


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_bodies_are_read_from_every_frame(tmp_path: Path) -> None:
    draw = rng()
    frames = [[body(draw), body(draw)], [body(draw)]]
    found = read_bodies(write(tmp_path, "S001C001P001R001A050", frames), frames=5)
    assert found.shape == (4, 5, 25, 3)
    assert np.allclose(found[0, 0], frames[0][0], atol=1e-6)
    assert np.allclose(found[1, 0], frames[0][1], atol=1e-6)
    assert np.allclose(found[0, 1], frames[1][0], atol=1e-6)
    assert not found[1:, 1:].any()
    assert not found[0, 2:].any()


def test_a_frame_may_have_no_bodies(tmp_path: Path) -> None:
    one = body(rng())
    found = read_bodies(write(tmp_path, "S001C001P001R001A001", [[one], [], [one]]), frames=3)
    assert found[0].any((1, 2)).tolist() == [True, False, True]


def test_further_frames_and_bodies_are_ignored(tmp_path: Path) -> None:
    draw = rng()
    crowd = [[body(draw) for _ in range(6)] for _ in range(4)]
    found = read_bodies(write(tmp_path, "S001C001P001R001A001", crowd), frames=2)
    assert found.shape == (4, 2, 25, 3)
    assert np.allclose(found[3, 1], crowd[1][3], atol=1e-6)


def test_the_spread_of_a_worked_example() -> None:
    joints = np.zeros((3, 2, 3), np.float32)
    joints[0, :, 0], joints[2, :, 0] = 1, 3  # x is 1, 1, 3, 3 in the frames in which the body is visible
    joints[0, :, 1] = joints[2, :, 1] = (0, 4)
    assert spread(joints) == pytest.approx(1 + 2)
    assert spread(joints[1:2]) == 0


def test_the_bodies_with_the_largest_spread_are_kept(tmp_path: Path) -> None:
    draw = rng()
    frames = [[body(draw, size) for size in (0.1, 2.0, 1.0)] for _ in range(3)]
    found = read_people(write(tmp_path, "S001C001P001R001A001", frames), frames=4)
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
def test_a_truncated_file_is_an_error_with_the_line_number(tmp_path: Path, lines: int, expected: str) -> None:
    draw = rng()
    path = write(tmp_path, "S001C001P001R001A001", [[body(draw)], [body(draw)]])
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    with pytest.raises(RemnantError, match=rf"{path}, {expected}\. Unpack the file again"):
        read_bodies(path, 3)


@pytest.mark.parametrize(
    ("line", "content", "expected"),
    [
        (2, "many", "line 2: expected the number of bodies, found 'many'"),
        (4, "20", "line 4: expected 25 joints, found 20"),
        (5, "0.1 0.2", r"line 5: expected a joint in 12 value\(s\), found '0.1 0.2'"),
        (6, "0.1 0.2 x" + " 0" * 9, "line 6: expected a joint as numbers"),
        (6, "0.1 0.2 nan" + " 0" * 9, "line 6: expected a joint within 65504 metres"),
        (6, "0.1 0.2 1e6" + " 0" * 9, "line 6: expected a joint within 65504 metres"),
        (2, "1" * 5000, "line 2: expected the number of bodies"),
        (30, "1", "line 30: expected the end of the file after its last frame, found '1'"),
    ],
)
def test_an_invalid_line_is_an_error_with_the_line_number(
    tmp_path: Path, line: int, content: str, expected: str
) -> None:
    path = write(tmp_path, "S001C001P001R001A001", [[body(rng())]])
    lines = [*path.read_text().splitlines(), ""]
    lines[line - 1] = content
    path.write_text("\n".join(lines))
    with pytest.raises(RemnantError, match=expected):
        read_bodies(path, 3)


def test_a_file_without_bodies_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "S001C001P001R001A001", [[], []])
    with pytest.raises(RemnantError, match="expected a body in at least one frame, found none"):
        read_people(path, 3)


def test_the_spread_includes_frames_that_are_cut_off(tmp_path: Path) -> None:
    draw = rng()
    still, late = body(draw, 0.1), body(draw, 0.01)
    frames = [[still, late] for _ in range(3)] + [[still, late + 5]]
    found = read_people(write(tmp_path, "S001C001P001R001A001", frames), frames=3)
    assert np.allclose(found[:, 0, :, 0].T, late, atol=1e-6)
