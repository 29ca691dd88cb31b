from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remnant.data.images import read_image
from remnant.transforms.resizing import stretched, upright_crop

RED, BLUE = (250, 0, 0), (0, 0, 250)


def striped(width: int, height: int) -> Image.Image:
    """A red image whose left fifth is blue."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (0, 0, width // 5, height))
    return image


def test_the_crop_is_the_square_in_the_centre_and_stretching_keeps_everything() -> None:
    wide = striped(60, 20)  # blue up to pixel 12, the centre starts at 20
    assert (np.asarray(upright_crop(wide.copy(), 10))[:, :, 2] == 0).all()
    assert (np.asarray(stretched(wide, 10))[:, 0, 2] > 200).all()


def test_the_rotation_of_the_camera_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees clockwise to show it: left becomes top
    striped(20, 20).save(tmp_path / "a.jpg", exif=exif, quality=95)
    x = read_image(tmp_path / "a.jpg", 20, upright_crop)
    assert (x[2, 0] > 150).all()
    assert (x[2, 10:] < 100).all()


def test_damaged_exif_data_do_not_matter(tmp_path: Path) -> None:
    striped(20, 20).save(tmp_path / "a.jpg", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\xff\xff\xff")
    assert read_image(tmp_path / "a.jpg", 20, upright_crop).shape == (3, 20, 20)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path, name: str) -> None:
    values = np.array([[0, 257], [257 * 100, 65535]], np.uint16).repeat(8, 0).repeat(8, 1)
    Image.fromarray(values).save(tmp_path / name)
    x = read_image(tmp_path / name, 16, upright_crop)
    corners = x[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert corners.tolist() == [[0, 1, 100, 255]] * 3


@pytest.mark.parametrize(
    ("mode", "name"),
    [("L", "a.png"), ("CMYK", "a.jpg"), ("1", "a.png"), ("P", "a.gif"), ("RGBA", "a.png"), ("LA", "a.png"),
     ("RGBA", "a.webp"), ("CMYK", "a.tif")],
)  # fmt: skip
def test_images_of_every_mode_become_rgb(tmp_path: Path, mode: str, name: str) -> None:
    Image.new("RGB", (12, 12), (255, 255, 255)).convert(mode).save(tmp_path / name)
    x = read_image(tmp_path / name, 8, upright_crop)
    assert x.shape == (3, 8, 8)
    assert (x > 240).all()


def test_pixels_that_are_floating_point_numbers_are_an_error(tmp_path: Path) -> None:
    Image.new("F", (12, 12)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match="not an intact image: pixels that are floating-point numbers"):
        read_image(tmp_path / "a.tif", 8, upright_crop)


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp"])
def test_the_first_frame_of_an_animation_is_used(tmp_path: Path, name: str) -> None:
    frames = [Image.new("RGB", (12, 12), colour) for colour in (RED, BLUE)]
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], lossless=True)
    x = read_image(tmp_path / name, 8, upright_crop)
    assert (x[0] > 200).all()
    assert (x[2] < 50).all()


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 2)])
def test_an_image_of_a_single_pixel_or_line_is_resized(tmp_path: Path, size: tuple[int, int]) -> None:
    Image.new("RGB", size, RED).save(tmp_path / "a.png")
    x = read_image(tmp_path / "a.png", 8, upright_crop)
    assert (x[0] == 250).all()
    assert (x[1:] == 0).all()


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", ["a.tif", "a.png", "a.webp", "a.gif", "a.bmp"])
def test_a_truncated_image_is_an_error(tmp_path: Path, name: str, fraction: float) -> None:
    path, rng = tmp_path / name, np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(ValueError, match="not an intact image"):
        read_image(path, 16, upright_crop)
