import shutil
from pathlib import Path

from own_files import write_folder

from remnant.data.images import ImageList
from remnant.data.own.duplicates import content_notes, same_content


def images(home: Path) -> ImageList:
    return ImageList("made", home, tuple(sorted(str(p.relative_to(home)) for p in home.rglob("*.png"))))


def test_files_with_the_same_content_are_found(tmp_path: Path) -> None:
    write_folder(tmp_path, {"cat": 3, "dog": 2})
    assert same_content(images(tmp_path)) == []
    shutil.copy(tmp_path / "cat" / "0.png", tmp_path / "dog" / "copy.png")
    shutil.copy(tmp_path / "cat" / "1.png", tmp_path / "cat" / "copy.png")
    (tmp_path / "cat" / "0.txt").write_bytes((tmp_path / "cat" / "0.png").read_bytes())
    found = images(tmp_path)
    assert same_content(found) == [["cat/0.png", "dog/copy.png"], ["cat/1.png", "cat/copy.png"]]
    assert content_notes(found, {file: file[:3] for file in found.files}) == [
        "images with the same content under different labels: 1, such as cat/0.png and dog/copy.png",
        "images that occur several times with the same label: 1",
    ]


def test_missing_files_are_not_compared(tmp_path: Path) -> None:
    assert same_content(ImageList("made", tmp_path, ("a.png", "b.png"))) == []
