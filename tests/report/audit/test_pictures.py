import base64
import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest
from audit_runs import hostile_run, table_run
from own_files import write_table
from PIL import Image

from remnant.report.audit.page import MOST
from remnant.report.audit.pictures import MOST_BYTES, data_uri, picture
from remnant.report.audit.samples import AuditedRun

RED, BLUE = (250, 0, 0), (0, 0, 250)
SIZES = {"wide.jpg": (900, 300), "small.png": (20, 12), "turned.jpg": (600, 400)}


@pytest.fixture
def run(tmp_path: Path) -> AuditedRun:
    """A run on three photos, whose left tenth is blue; the last one is to be rotated by 90 degrees."""
    exif = Image.Exif()
    exif[0x0112] = 6  # to show it, left becomes top
    for name, (width, height) in SIZES.items():
        photo = Image.new("RGB", (width, height), RED)
        photo.paste(BLUE, (0, 0, width // 10, height))
        photo.save(tmp_path / name, **({"exif": exif} if name == "turned.jpg" else {}))
    rows = [(name, "a", "train") for name in SIZES]
    for split in ("train", "test"):
        Image.new("RGB", (9, 9)).save(tmp_path / f"{split}.png")
        rows.append((f"{split}.png", "b", split))
    table = write_table(tmp_path / "table.csv", ("path", "label", "split"), rows)
    return table_run(table, tmp_path / "cache")


def shown(uri: str) -> tuple[str, Image.Image]:
    """Return the kind of an image and its pixels."""
    kind, _, content = uri.removeprefix("data:image/").partition(";base64,")
    return kind, Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB")


def test_a_photo_is_shown_whole_and_a_network_saw_its_centre(run: AuditedRun) -> None:
    kind, image = shown(picture(run, list(run.data.files).index("wide.jpg")))
    assert (kind, image.size) == ("jpeg", (320, 107))
    assert image.getpixel((5, 50))[2] > 200  # type: ignore[index]


def test_a_photo_is_shown_as_the_camera_was_held(run: AuditedRun) -> None:
    _, image = shown(picture(run, list(run.data.files).index("turned.jpg")))
    assert image.size == (213, 320)
    assert image.getpixel((100, 5))[2] > 200  # type: ignore[index]


def test_a_small_image_is_embedded_exactly(run: AuditedRun, tmp_path: Path) -> None:
    kind, image = shown(picture(run, list(run.data.files).index("small.png")))
    assert kind == "png"
    assert (np.asarray(image) == np.asarray(Image.open(tmp_path / "small.png"))).all()


@pytest.mark.parametrize("content", [None, b"", b"no image"])
def test_a_file_that_is_gone_or_damaged_is_replaced_by_the_stored_pixels(
    run: AuditedRun, tmp_path: Path, content: bytes | None
) -> None:
    (tmp_path / "wide.jpg").unlink()
    if content is not None:
        (tmp_path / "wide.jpg").write_bytes(content)
    _, image = shown(picture(run, list(run.data.files).index("wide.jpg")))
    assert image.size == run.data.spec.shape[1:]


def test_an_image_without_a_file_is_shown_as_it_is_stored() -> None:
    run = hostile_run()
    kind, image = shown(picture(run, 3))
    assert (kind, image.size) == ("png", run.data.spec.shape[1:])


def test_500_pictures_that_cannot_be_compressed_take_less_than_12_megabytes() -> None:
    rng = np.random.default_rng(0)
    for height, width in ((320, 320), (49, 320), (48, 48)):
        uri = data_uri(Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)))
        assert MOST * len(uri) < 12e6
        assert len(base64.b64decode(uri.partition(",")[2])) <= MOST_BYTES


def test_other_data_than_images_have_no_picture() -> None:
    run = hostile_run()
    spec = dataclasses.replace(run.data.spec, shape=(2, 8, 8))
    assert picture(dataclasses.replace(run, data=dataclasses.replace(run.data, spec=spec)), 0) == ""
