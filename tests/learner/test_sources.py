"""Own data and datasets as samples of a learner."""

from pathlib import Path

import pytest
import torch
from learner_helpers import small_learner
from own_files import table_of_images, write_folder

from remnant.errors import RemnantError
from remnant.learner.sources import Arrived, read_data


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_folder_is_read_with_or_without_its_prefix(tmp_path: Path, data_dir: Path) -> None:
    photos = write_folder(tmp_path / "photos", {"cat": 2, "dog": 3})
    for name in (f"folder:{photos}", str(photos), photos):
        found = read_data(name, data_dir, 8)
        assert found.labels == ["cat"] * 2 + ["dog"] * 3
        assert found.files[2] == str(photos / "dog" / "0.png")
        assert found.images.take(torch.arange(5)).shape == (5, 3, 8, 8)


def test_files_that_cannot_be_read_are_left_out_with_their_reasons(tmp_path: Path, data_dir: Path) -> None:
    photos = write_folder(tmp_path / "photos", {"cat": 2})  # one class is enough for a learner
    (photos / "cat" / "bad.png").write_text("no image")
    found = read_data(f"folder:{photos}", data_dir, 8)
    assert (len(found.images), found.labels) == (2, ["cat", "cat"])
    assert list(found.left_out) == ["cat/bad.png"]


def test_samples_of_a_test_split_are_not_learned(tmp_path: Path, data_dir: Path) -> None:
    table = table_of_images(tmp_path, ["a", "b", "c"], split=["train", "test", "train"])
    found = read_data(f"table:{table}", data_dir, 8)
    assert found.labels == ["a", "c"]
    assert [Path(file).name for file in found.files] == ["0.png", "2.png"]


def test_a_dataset_is_found_by_its_name() -> None:
    found = read_data("digits", None, 8)
    assert len(found.images) == len(found.labels) == 1438
    assert set(found.labels) == set("0123456789")


def test_other_names_are_one_error() -> None:
    with pytest.raises(RemnantError, match="nowhere: expected a folder of class folders, folder:DIR"):
        read_data("nowhere", None, 8)


def test_ids_of_arrived_images_are_counted_over_all_calls() -> None:
    images = Arrived(torch.arange(3), first=10)
    assert images.take(torch.tensor([12, 10])).tolist() == [2, 0]


def test_new_classes_of_a_folder_are_learned(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMNANT_DATA", str(data_dir))
    photos = write_folder(tmp_path / "photos", {"9": 2})
    (photos / "9" / "bad.png").write_text("no image")
    learner = small_learner(labels=("4", "7")).learn(f"folder:{photos}")
    assert learner.classes_.tolist() == ["4", "7", "9"]
    assert learner.left_out.keys() == {"9/bad.png"}
