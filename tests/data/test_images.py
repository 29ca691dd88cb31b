import errno
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import food_files
import numpy as np
import pytest
import torch
from PIL import Image

from remnant.data import images
from remnant.data.images import ImageList, decode_images, hidden_bars, progress_bar, read_image, unreadable
from remnant.errors import RemnantError
from remnant.transforms.resizing import upright_crop

KEYS = [f"pho/{i}.jpg" for i in range(6)]
SIDE = 24


@pytest.fixture
def photos(tmp_path: Path) -> ImageList:
    food_files.write_photos(tmp_path, KEYS)
    return ImageList("made", tmp_path, tuple(f"images/{key}" for key in KEYS))


def test_progress_bars_can_be_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    for are_hidden in (True, False):
        with hidden_bars(are_hidden), progress_bar(2, "work") as bar:
            bar.start_t = bar.last_print_t = bar.start_t - 100  # as if it had taken so many seconds
            bar.update(2)
            assert bar.n == 2
        assert ("work" not in capsys.readouterr().err) == are_hidden


def never(*_: object) -> None:
    raise AssertionError("decoded again")


def test_an_image_is_resized_without_keeping_its_aspect_ratio(tmp_path: Path) -> None:
    wide = Image.new("RGB", (60, 20), (250, 0, 0))
    wide.paste((0, 0, 250), (30, 0, 60, 20))
    wide.save(tmp_path / "wide.jpg", quality=95)
    x = read_image(tmp_path / "wide.jpg", 20)
    assert x.shape == (3, 20, 20)
    assert x.dtype == np.uint8
    assert (x[0, :, :8] > 200).all()
    assert (x[2, :, 12:] > 200).all()


@pytest.mark.parametrize(("mode", "kind"), [("L", "JPEG"), ("CMYK", "JPEG"), ("P", "GIF"), ("P", "PNG")])
def test_greyscale_cmyk_and_palette_images_become_rgb(tmp_path: Path, mode: str, kind: str) -> None:
    image = food_files.image("a").convert("L" if mode == "L" else "RGB")
    image.convert(mode).save(tmp_path / "a.jpg", kind)
    x = read_image(tmp_path / "a.jpg", 16).astype(float)
    expected = np.asarray(image.convert("RGB").resize((16, 16), Image.Resampling.BILINEAR))
    assert np.abs(x - expected.transpose(2, 0, 1)).mean() < 12
    assert (mode == "L") == bool((x[0] == x[1]).all() and (x[1] == x[2]).all())


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.5, 0.8, 0.95])
def test_a_truncated_image_is_an_error(tmp_path: Path, fraction: float) -> None:
    path = tmp_path / "a.jpg"
    food_files.image("a", side=200).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(ValueError, match="not an intact image"):
        read_image(path, SIDE)


@pytest.mark.parametrize("content", [b"not an image", b"\xff\xd8\xff\xe0" + bytes(300)])
def test_a_file_that_is_not_an_image_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(ValueError, match="not an intact image"):
        read_image(tmp_path / "a.jpg", SIDE)


def test_a_tiff_whose_offset_is_a_fraction_is_an_error(tmp_path: Path) -> None:
    Image.new("RGB", (9, 12)).save(tmp_path / "a.tiff")
    content = (tmp_path / "a.tiff").read_bytes()
    offset = b"\x11\x01\x04\x00\x01\x00"  # StripOffsets, of the type LONG, once
    assert content.count(offset) == 1
    (tmp_path / "a.tiff").write_bytes(content.replace(offset, b"\x11\x01\x05\x00\x01\x00"))
    with pytest.raises(ValueError, match=r"not an intact image: .*IFDRational"):
        read_image(tmp_path / "a.tiff", 8, upright_crop)


def test_a_decompression_bomb_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    food_files.image("a", side=40).save(tmp_path / "a.jpg")
    for limit in (1000, 100):  # Pillow warns, and raises an error
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"not an image of a reasonable size: .*1800 pixels"):
            read_image(tmp_path / "a.jpg", SIDE)


@pytest.mark.parametrize("per_worker", [1000, 2])  # without and with worker processes
def test_images_are_in_the_order_of_the_list(
    photos: ImageList, monkeypatch: pytest.MonkeyPatch, per_worker: int
) -> None:
    monkeypatch.setattr(images, "IMAGES_PER_WORKER", per_worker)
    monkeypatch.setattr(images, "BATCH_SIZE", 2)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    found = decode_images(photos.home, photos, SIDE)
    assert torch.equal(torch.get_rng_state(), before)
    assert found.index.tolist() == list(range(6))
    for i, file in enumerate(photos.files):
        one = found.source.take(torch.tensor([i]))[0]
        assert np.array_equal(one.numpy(), read_image(photos.home / file, SIDE))


def test_damaged_and_missing_files_are_skipped(photos: ImageList) -> None:
    (photos.home / photos.files[1]).write_bytes(b"damaged")
    (photos.home / photos.files[4]).unlink()
    for _ in range(2):  # decoded, and read from the cache
        found = decode_images(photos.home, photos, SIDE)
        assert found.index.tolist() == [0, 2, 3, 5]
        assert list(found.skipped) == [photos.files[1], photos.files[4]]
        assert found.skipped[photos.files[4]] == "expected a file, found nothing"
    assert unreadable(photos, SIDE) == found.skipped


def test_a_list_without_readable_images_is_an_error(photos: ImageList) -> None:
    for file in photos.files:
        (photos.home / file).unlink()
    with pytest.raises(RemnantError, match=r"expected 6 images for made, found none .*0.jpg: missing"):
        decode_images(photos.home, photos, SIDE)


def test_the_cache_is_kept_while_the_images_are_missing(
    photos: ImageList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode_images(photos.home, photos, SIDE)
    away = (photos.home / "images").rename(tmp_path / "elsewhere")
    for content in (None, b"not an image"):
        if content:
            for file in photos.files:
                (photos.home / file).parent.mkdir(parents=True, exist_ok=True)
                (photos.home / file).write_bytes(content)
        with pytest.raises(RemnantError, match="found none that can be read"):
            decode_images(photos.home, photos, SIDE)
    shutil.rmtree(photos.home / "images")
    away.rename(photos.home / "images")
    monkeypatch.setattr(images, "read_image", never)
    assert len(decode_images(photos.home, photos, SIDE).index) == 6
    assert len(list(photos.home.glob("*made-*"))) == 1


@pytest.mark.parametrize("name", ["x" * 300, "nul\0", "pho/0.jpg/no folder", "loop.jpg"])
def test_an_invalid_path_is_skipped(photos: ImageList, name: str) -> None:
    (photos.home / "images" / "loop.jpg").symlink_to("loop.jpg")
    more = ImageList("made", photos.home, (*photos.files, f"images/{name}"))
    found = decode_images(photos.home, more, SIDE)
    assert found.index.tolist() == [0, 1, 2, 3, 4, 5]
    assert list(found.skipped) == [f"images/{name}"]


def test_a_temporary_error_does_not_skip_an_image(photos: ImageList, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: Path, *_: object) -> np.ndarray:
        raise OSError(errno.EIO, "Input/output error", str(path))

    with monkeypatch.context() as temporary:
        temporary.setattr(images, "read_image", failing)
        with pytest.raises(RemnantError, match=r"0\.jpg: .* error that may be temporary: Input/output error"):
            decode_images(photos.home, photos, SIDE)
    assert len(decode_images(photos.home, photos, SIDE).index) == 6


def test_an_image_that_becomes_readable_is_decoded() -> None:
    with tempfile.TemporaryDirectory() as name:  # readable by other users
        home = Path(name)
        home.chmod(0o777)
        food_files.write_photos(home, KEYS)
        photos = ImageList("made", home, tuple(f"images/{key}" for key in KEYS))
        for mode, expected in ((0o000, 5), (0o644, 6)):
            (home / photos.files[2]).chmod(mode)
            assert in_unprivileged_process(lambda: len(decode_images(home, photos, SIDE).index)) == expected


def in_unprivileged_process(count: Callable[[], int]) -> int:
    """Return the result of a function in a process without root permissions."""
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


def test_files_are_decoded_once(photos: ImageList, monkeypatch: pytest.MonkeyPatch) -> None:
    first = decode_images(photos.home, photos, SIDE)
    monkeypatch.setattr(images, "read_image", never)
    again = decode_images(photos.home, photos, SIDE)
    assert torch.equal(first.source.take(torch.arange(6)), again.source.take(torch.arange(6)))


def test_a_moved_folder_is_not_decoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    food_files.write_photos(tmp_path / "here", KEYS)
    photos = ImageList("made", tmp_path / "here", tuple(f"images/{key}" for key in KEYS))
    photo = tmp_path / "here" / photos.files[0]
    photo.write_bytes(b"damaged")
    decode_images(photos.home, photos, SIDE)
    moved = ImageList("made", (tmp_path / "here").rename(tmp_path / "there"), photos.files)
    monkeypatch.setattr(images, "read_image", never)
    assert decode_images(moved.home, moved, SIDE).index.tolist() == [1, 2, 3, 4, 5]


def test_a_changed_file_is_decoded_again_and_the_old_cache_is_removed(photos: ImageList) -> None:
    old = decode_images(photos.home, photos, SIDE).source.take(torch.tensor([2]))
    food_files.image("another").save(photos.home / photos.files[2], "JPEG")
    new = decode_images(photos.home, photos, SIDE).source.take(torch.tensor([2]))
    assert not torch.equal(old, new)
    assert len(list(photos.home.glob("made-*"))) == 1


def test_an_incomplete_cache_of_a_killed_process_is_not_used(
    photos: ImageList, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if not child:
        calls = iter(range(4))

        def killing(path: Path, side: int, *_: object) -> np.ndarray:
            if next(calls) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return read_image(path, side)

        monkeypatch.setattr(images, "BATCH_SIZE", 1)  # three images are written before the kill
        monkeypatch.setattr(images, "read_image", killing)
        try:
            decode_images(photos.home, photos, SIDE)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    (incomplete,) = photos.home.glob(".made-*.part")
    found = decode_images(photos.home, photos, SIDE)
    assert len(found.index) == 6
    assert found.source.take(torch.tensor([5])).any()
    assert not incomplete.exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", pytest.param(b"[" * 10**5, id="nested"), None])
def test_a_damaged_table_of_skipped_files_is_an_error(photos: ImageList, content: bytes | None) -> None:
    decode_images(photos.home, photos, SIDE)
    (folder,) = photos.home.glob("made-*")
    (folder / images.SKIPPED).unlink()
    if content is not None:
        (folder / images.SKIPPED).write_bytes(content)
    with pytest.raises(RemnantError, match=r"skipped\.json: expected a JSON object .*Remove the folder"):
        decode_images(photos.home, photos, SIDE)


@pytest.mark.parametrize("target", ["fifo", "/proc/self/status"])
def test_a_file_that_could_be_endless_is_not_an_image(tmp_path: Path, target: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "image.jpg").symlink_to(target)
    with pytest.raises(ValueError, match="not an intact image: it is not a regular file"):
        read_image(tmp_path / "image.jpg", SIDE)
