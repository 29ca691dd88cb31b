from pathlib import Path

import pytest
from own_files import write_image

from remnant.data.images import ImageList
from remnant.data.own.image_size import usual_side


@pytest.mark.parametrize(("sizes", "side"), [([20, 28, 32], 32), ([48, 48, 400], 32), ([64, 60, 20], 64)])
def test_small_images_are_not_enlarged(tmp_path: Path, sizes: list[int], side: int) -> None:
    files = tuple(f"{i}.png" for i in range(len(sizes)))
    for file, size in zip(files, sizes, strict=True):
        write_image(tmp_path / file, size)
    assert usual_side(ImageList("made", tmp_path, files)) == side


def test_files_that_are_no_images_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
    write_image(tmp_path / "b.png", 20)
    assert usual_side(ImageList("made", tmp_path, ("a.png", "missing.png", "b.png"))) == 32
    assert usual_side(ImageList("made", tmp_path, ("a.png",))) == 64
