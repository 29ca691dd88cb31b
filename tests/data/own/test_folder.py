import os
from dataclasses import replace
from pathlib import Path

import pytest
from own_files import write_folder, write_image

from remnant.data.own import parse_own_data
from remnant.data.own.listing import Listing
from remnant.errors import RemnantError


def listing(home: Path) -> Listing:
    return parse_own_data(f"folder:{home}").listing


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "photos", {"cat": 3, "dog": 2})


def test_the_class_is_the_topmost_folder(home: Path) -> None:
    write_image(home / "dog" / "2024" / "may" / "a.JPG")
    found = listing(home)
    assert found.images.files[3:] == ("dog/0.png", "dog/1.png", "dog/2024/may/a.JPG")
    assert found.labels == ("cat",) * 3 + ("dog",) * 3
    assert found.is_test is None
    assert (found.left_out, found.notes) == ({}, ())


@pytest.mark.parametrize("name", ["test", "val"])
def test_train_and_test_folders_are_the_splits(tmp_path: Path, name: str) -> None:
    write_folder(tmp_path / "train", {"cat": 2, "dog": 2})
    write_folder(tmp_path / name, {"cat": 1, "eel": 1})
    write_folder(tmp_path, {"more": 1})
    found = listing(tmp_path)
    assert found.labels == ("cat", "cat", "dog", "dog", "cat", "eel")
    assert found.is_test is not None
    assert found.is_test.tolist() == [False] * 4 + [True] * 2
    assert found.classes == ("cat", "dog")
    assert f"folders beside train and {name} are not used: more" in found.notes


def test_train_and_test_can_be_classes(tmp_path: Path) -> None:
    write_folder(tmp_path, {"train": 2, "test": 2})
    assert listing(tmp_path).classes == ("test", "train")


def test_unicode_spaces_and_characters_of_shells_are_allowed(tmp_path: Path) -> None:
    write_folder(tmp_path / "a b=c", {"Katze ü 猫": 2, "-rf $(x) 'q'": 2, "[bold]": 2})
    assert len(listing(tmp_path / "a b=c").labels) == 6


def test_hidden_and_system_files_are_ignored(home: Path) -> None:
    write_image(home / ".git" / "a.png")
    for name in (".DS_Store", "cat/.DS_Store", "cat/Thumbs.db", "dog/desktop.ini", "cat/._0.png", "README"):
        (home / name).write_bytes(b"x")
    found = listing(home)
    assert len(found.labels) == 5
    assert found.left_out == {}


def test_other_files_are_left_out_with_the_reason(home: Path) -> None:
    (home / "cat" / "notes.txt").write_text("x")
    write_image(home / "alone.png")
    os.mkfifo(home / "dog" / "pipe.png")
    found = listing(home)
    assert list(found.left_out) == ["alone.png", "cat/notes.txt", "dog/pipe.png"]
    assert found.left_out["alone.png"] == "not in a class folder"
    assert found.left_out["cat/notes.txt"] == "not the suffix of an image: .txt"
    assert found.left_out["dog/pipe.png"] == "not a file"


def test_an_empty_class_folder_is_no_class(home: Path) -> None:
    (home / "eel").mkdir()
    found = listing(home)
    assert found.classes == ("cat", "dog")
    assert found.notes == ("a class folder without images: eel",)


def test_classes_that_differ_in_case_and_single_images_are_noted(home: Path) -> None:
    write_folder(home, {"Cat": 1})
    assert listing(home).classes == ("Cat", "cat", "dog")
    assert listing(home).notes == (
        "classes whose names differ in case only: 'Cat' and 'cat'",
        "classes with a single image: Cat",
    )


def test_links_out_of_the_folder_are_left_out_unless_asked_for(home: Path, tmp_path: Path) -> None:
    outside = write_folder(tmp_path / "photos-of-others", {"bird": 2})
    (home / "cat" / "link.png").symlink_to(outside / "bird" / "0.png")
    (home / "bird").symlink_to(outside / "bird")
    (home / "dog" / "inside.png").symlink_to(home / "cat" / "0.png")
    (home / "dog" / "broken.png").symlink_to(home / "nothing.png")
    found = listing(home)
    assert set(found.left_out) == {"cat/link.png", "bird", "dog/broken.png"}
    assert found.left_out["bird"] == "a link out of the folder; data.follow_links=true reads it"
    assert found.left_out["dog/broken.png"] == "a link to nothing"
    assert "dog/inside.png" in found.images.files
    followed = replace(parse_own_data(f"folder:{home}"), follow_links=True).listing
    assert followed.classes == ("bird", "cat", "dog")
    assert set(followed.left_out) == {"dog/broken.png"}


def test_links_in_a_circle_are_read_once(home: Path) -> None:
    (home / "cat" / "up").symlink_to(home / "cat")
    (home / "cat" / "top").symlink_to(home)
    found = replace(parse_own_data(f"folder:{home}"), follow_links=True).listing
    assert len(found.labels) == 5
    assert set(found.left_out.values()) == {"a link to a folder that is read already"}


def test_the_folder_itself_may_be_a_link(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    assert len(listing(tmp_path / "link").labels) == 5


def test_a_disk_is_not_searched_for_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remnant.data.own.folder.MAX_LEFT_OUT", 5)
    (tmp_path / "lib").mkdir()
    for number in range(6):
        (tmp_path / "lib" / f"{number}.so").touch()
    with pytest.raises(RemnantError, match="found more than 5 other files, such as lib/"):
        _ = listing(tmp_path)


def test_a_folder_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    def error(path: Path) -> str:
        with pytest.raises(RemnantError) as raised:
            _ = listing(path)
        return str(raised.value).removeprefix(str(path))

    expected = ": expected a folder of images for each of at least two classes, found "
    assert error(tmp_path / "no") == ": expected a folder with a folder for each class, found nothing."
    assert error(tmp_path) == f"{expected}no images."
    (tmp_path / "photos").mkdir()
    assert error(tmp_path / "photo").endswith("found nothing; did you mean 'photos'?")
    (tmp_path / "a.txt").write_text("x")
    assert error(tmp_path / "a.txt") == ": expected a folder with a folder for each class, found a file."
    write_image(tmp_path / "a.png")
    assert error(tmp_path).startswith(f"{expected}1 images without one. Move them to class folders")
    write_folder(tmp_path, {"cat": 1})
    with pytest.raises(RemnantError, match=r"at least two classes, found only 'cat'\."):
        _ = parse_own_data(f"folder:{tmp_path}").spec
    write_folder(tmp_path / "cat", {"x": 1, "y": 1})
    assert error(tmp_path).endswith(f"If it contains the class folders, write folder:{tmp_path}/cat")


def test_a_folder_without_permission_is_left_out(home: Path) -> None:
    (home / "cat" / "secret").mkdir(mode=0)
    if os.access(home / "cat" / "secret", os.R_OK):
        pytest.skip("this user may read everything")
    assert listing(home).left_out == {"cat/secret": "cannot be read: Permission denied"}


@pytest.mark.slow
def test_a_hundred_thousand_files_are_listed_in_little_memory(tmp_path: Path) -> None:
    import tracemalloc

    for label in range(100):
        (tmp_path / f"class {label}").mkdir()
        for i in range(1000):
            (tmp_path / f"class {label}" / f"{i}.jpg").touch()
    tracemalloc.start()
    found = listing(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.labels) == 100_000
    assert peak < 60e6
