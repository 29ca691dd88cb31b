from pathlib import Path

import pytest
from learner_helpers import small_learner
from own_files import write_folder, write_image

from remnant.errors import RemnantError
from remnant.learner.files import image_files, predicted


def test_the_images_of_a_folder_are_found_in_the_folders_in_it(tmp_path: Path) -> None:
    write_folder(tmp_path, {"b": 1, "a": 2})
    (tmp_path / "a" / "notes.txt").write_text("no image")
    assert [str(file.relative_to(tmp_path)) for file in image_files(tmp_path)] == [
        "a/0.png",
        "a/1.png",
        "b/0.png",
    ]
    assert image_files(tmp_path / "a" / "notes.txt") == [tmp_path / "a" / "notes.txt"]


def test_a_folder_without_images_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"expected a folder with images .*found none"):
        image_files(tmp_path)


def test_each_file_has_a_label_or_the_reason_why_it_has_none(tmp_path: Path) -> None:
    (tmp_path / "b.png").write_text("no image")
    files = [Path(write_image(tmp_path / "a.png")), tmp_path / "b.png", Path(write_image(tmp_path / "c.png"))]
    model = small_learner(labels=("4", "7")).model()
    first, damaged, last = predicted(model, files)
    assert "not an intact image: another kind of file" in damaged
    assert {first[0], last[0]} <= {"4", "7"}
    assert all(0.5 <= found[1] <= 1 for found in (first, last) if isinstance(found, tuple))
