import errno
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import food_files as made
import numpy as np
import pytest
import torch
from PIL import Image

from remnant.data import pictures as module
from remnant.data import stored as disk
from remnant.data.pictures import Listed, pictures, read_picture, unreadable
from remnant.errors import RemnantError

KEYS = [f"pho/{i}.jpg" for i in range(6)]
SIDE = 24


@pytest.fixture
def listed(tmp_path: Path) -> Listed:
    made.write_photos(tmp_path, KEYS)
    return Listed("made", tmp_path, tuple(f"images/{key}" for key in KEYS))


def never(*_: object) -> None:
    raise AssertionError("decoded again")


def test_a_picture_is_squeezed_without_keeping_its_aspect(tmp_path: Path) -> None:
    wide = Image.new("RGB", (60, 20), (250, 0, 0))
    wide.paste((0, 0, 250), (30, 0, 60, 20))
    wide.save(tmp_path / "wide.jpg", quality=95)
    x = read_picture(tmp_path / "wide.jpg", 20)
    assert x.shape == (3, 20, 20)
    assert x.dtype == np.uint8
    assert (x[0, :, :8] > 200).all()
    assert (x[2, :, 12:] > 200).all()


@pytest.mark.parametrize(("mode", "kind"), [("L", "JPEG"), ("CMYK", "JPEG"), ("P", "GIF"), ("P", "PNG")])
def test_grey_printed_and_palette_pictures_get_three_colours(
    tmp_path: Path, mode: str, kind: str
) -> None:
    picture = made.picture("a").convert("L" if mode == "L" else "RGB")
    picture.convert(mode).save(tmp_path / "a.jpg", kind)
    x = read_picture(tmp_path / "a.jpg", 16).astype(float)
    expected = np.asarray(picture.convert("RGB").resize((16, 16), Image.Resampling.BILINEAR))
    assert np.abs(x - expected.transpose(2, 0, 1)).mean() < 12
    assert (mode == "L") == bool((x[0] == x[1]).all() and (x[1] == x[2]).all())


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.8, 0.95])
def test_a_truncated_picture_is_not_filled_up_with_grey(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.jpg"
    made.picture("a", side=200).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="expected a whole picture, found"):
        read_picture(path, SIDE)


@pytest.mark.parametrize("content", [b"no picture at all", b"\xff\xd8\xff\xe0" + bytes(300)])
def test_what_is_no_picture_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(ValueError, match="expected a whole picture, found"):
        read_picture(tmp_path / "a.jpg", SIDE)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.picture("a", side=40).save(tmp_path / "a.jpg")
    for limit in (1000, 100):  # what Pillow warns of, and what it refuses
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"expected a picture of a sane size, found: .*1800 pixels"):
            read_picture(tmp_path / "a.jpg", SIDE)


@pytest.mark.parametrize("few", [1000, 2])  # in this process, and in others
def test_rows_are_the_pictures_in_their_order(
    listed: Listed, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(module, "FEW", few)
    monkeypatch.setattr(module, "BATCH", 2)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    found = pictures(listed.home, listed, SIDE)
    assert torch.equal(torch.get_rng_state(), before)
    assert found.rows.tolist() == list(range(6))
    for row, file in enumerate(listed.files):
        one = found.source.take(torch.tensor([row]))[0]
        assert np.array_equal(one.numpy(), read_picture(listed.home / file, SIDE))


def test_damaged_and_missing_files_have_no_row_and_are_named(listed: Listed) -> None:
    (listed.home / listed.files[1]).write_bytes(b"damaged")
    (listed.home / listed.files[4]).unlink()
    for _ in range(2):  # as they are decoded, and as they are found on disk
        found = pictures(listed.home, listed, SIDE)
        assert found.rows.tolist() == [0, 2, 3, 5]
        assert list(found.skipped) == [listed.files[1], listed.files[4]]
        assert found.skipped[listed.files[4]] == "expected a file, found nothing"
    assert unreadable(listed, SIDE) == found.skipped


def test_pictures_none_of_which_can_be_read_are_refused(listed: Listed) -> None:
    for file in listed.files:
        (listed.home / file).unlink()
    with pytest.raises(RemnantError, match=r"expected 6 pictures for made, found none .*0.jpg: missing"):
        pictures(listed.home, listed, SIDE)


def test_pictures_that_are_away_for_a_while_need_not_be_decoded_again(
    listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures(listed.home, listed, SIDE)
    away = (listed.home / "images").rename(tmp_path / "elsewhere")
    for content in (None, b"no picture"):
        if content:
            for file in listed.files:
                (listed.home / file).parent.mkdir(parents=True, exist_ok=True)
                (listed.home / file).write_bytes(content)
        with pytest.raises(RemnantError, match="found none that can be read"):
            pictures(listed.home, listed, SIDE)
    shutil.rmtree(listed.home / "images")
    away.rename(listed.home / "images")
    monkeypatch.setattr(module, "read_picture", never)
    assert len(pictures(listed.home, listed, SIDE).rows) == 6
    assert len(list(listed.home.glob("*made-*"))) == 1


@pytest.mark.parametrize("name", ["x" * 300, "nul\0", "pho/0.jpg/no folder", "loop.jpg"])
def test_a_name_that_leads_to_no_file_is_skipped(listed: Listed, name: str) -> None:
    (listed.home / "images" / "loop.jpg").symlink_to("loop.jpg")
    more = Listed("made", listed.home, (*listed.files, f"images/{name}"))
    found = pictures(listed.home, more, SIDE)
    assert found.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert list(found.skipped) == [f"images/{name}"]


def test_a_picture_that_could_not_be_read_for_a_while_is_not_lost(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def troubled(path: Path, side: int) -> np.ndarray:
        raise OSError(errno.EIO, "Input/output error", str(path))

    with monkeypatch.context() as while_it_lasts:
        while_it_lasts.setattr(module, "read_picture", troubled)
        with pytest.raises(RemnantError, match=r"0\.jpg: .* trouble that may pass: Input/output error"):
            pictures(listed.home, listed, SIDE)
    assert len(pictures(listed.home, listed, SIDE).rows) == 6


def test_a_picture_that_becomes_readable_is_read() -> None:
    with tempfile.TemporaryDirectory() as name:  # where anybody may look
        home = Path(name)
        home.chmod(0o777)
        made.write_photos(home, KEYS)
        listed = Listed("made", home, tuple(f"images/{key}" for key in KEYS))
        for mode, expected in ((0o000, 5), (0o644, 6)):
            (home / listed.files[2]).chmod(mode)
            assert as_nobody(lambda: len(pictures(home, listed, SIDE).rows)) == expected


def as_nobody(count: Callable[[], int]) -> int:
    """What a function returns in a process that may not read everything, as root may."""
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            os._exit(count())
        except BaseException:
            traceback.print_exc()
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_files_are_decoded_once(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pictures(listed.home, listed, SIDE)
    monkeypatch.setattr(module, "read_picture", never)
    again = pictures(listed.home, listed, SIDE)
    assert torch.equal(first.source.take(torch.arange(6)), again.source.take(torch.arange(6)))


def test_a_folder_that_was_moved_is_not_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write_photos(tmp_path / "here", KEYS)
    listed = Listed("made", tmp_path / "here", tuple(f"images/{key}" for key in KEYS))
    photo = tmp_path / "here" / listed.files[0]
    photo.write_bytes(b"damaged")
    pictures(listed.home, listed, SIDE)
    moved = Listed("made", (tmp_path / "here").rename(tmp_path / "there"), listed.files)
    monkeypatch.setattr(module, "read_picture", never)
    assert pictures(moved.home, moved, SIDE).rows.tolist() == [1, 2, 3, 4, 5]


def test_a_changed_file_is_decoded_again_and_the_old_rows_are_removed(listed: Listed) -> None:
    old = pictures(listed.home, listed, SIDE).source.take(torch.tensor([2]))
    made.picture("another").save(listed.home / listed.files[2], "JPEG")
    new = pictures(listed.home, listed, SIDE).source.take(torch.tensor([2]))
    assert not torch.equal(old, new)
    assert len(list(listed.home.glob("made-*"))) == 1


def test_a_process_that_is_killed_leaves_nothing_that_is_believed(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if not child:
        calls = iter(range(4))

        def deadly(path: Path, side: int) -> np.ndarray:
            if next(calls) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return read_picture(path, side)

        monkeypatch.setattr(module, "BATCH", 1)  # three rows are written then
        monkeypatch.setattr(module, "read_picture", deadly)
        try:
            pictures(listed.home, listed, SIDE)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    (half,) = listed.home.glob(".made-*.part")
    found = pictures(listed.home, listed, SIDE)
    assert len(found.rows) == 6
    assert found.source.take(torch.tensor([5])).any()
    assert not half.exists()


def test_a_disk_without_room_is_said_before_the_work(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_picture", never)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(
        RemnantError, match=r"only 0.0 GB are free.* make room, or name a folder of your own"
    ):
        pictures(listed.home, listed, SIDE)
    assert not list(listed.home.glob("*made-*"))


@pytest.mark.parametrize("left", [0, 60, 2000])
def test_rows_that_were_cut_off_are_refused(listed: Listed, left: int) -> None:
    pictures(listed.home, listed, SIDE)
    (folder,) = listed.home.glob("made-*")
    os.truncate(folder / disk.ROWS, left)
    with pytest.raises(RemnantError, match=r"expected an array \(6, 3, 24, 24\) of uint8.*Remove the"):
        pictures(listed.home, listed, SIDE)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", None])
def test_a_damaged_table_of_skipped_files_is_refused(listed: Listed, content: bytes | None) -> None:
    pictures(listed.home, listed, SIDE)
    (folder,) = listed.home.glob("made-*")
    (folder / module.SKIPPED).unlink()
    if content is not None:
        (folder / module.SKIPPED).write_bytes(content)
    with pytest.raises(RemnantError, match=r"skipped\.json: expected a table .*Remove the folder"):
        pictures(listed.home, listed, SIDE)
