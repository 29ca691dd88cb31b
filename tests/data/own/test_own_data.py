import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from own_files import table_of_images, write_folder, write_image, write_table

from remnant.data import load
from remnant.data.dataset import UNKNOWN, Dataset
from remnant.data.own import parse_own_data
from remnant.data.own.own_data import OwnData
from remnant.errors import RemnantError


@pytest.fixture
def photos(tmp_path: Path) -> OwnData:
    return parse_own_data(f"folder:{write_folder(tmp_path / 'photos', {'cat': 10, 'dog': 5, 'eel': 1})}")


def table(path: Path, **changes: object) -> Dataset:
    return replace(parse_own_data(f"table:{path}"), **changes).load(path.parent / "cache")


def test_a_share_of_each_class_is_held_out(photos: OwnData, tmp_path: Path) -> None:
    data = load(photos, tmp_path / "cache")
    assert data.spec.classes == ("cat", "dog", "eel")
    assert data.spec.shape == (3, 32, 32)
    assert np.bincount(data.y).tolist() == [8, 4, 1]
    assert np.bincount(data.test_y).tolist() == [2, 1]
    assert data.truth is None
    assert data.tested_on == "held-out share, against the given labels"
    assert data.rows is None
    assert [file[:3] for file in data.files] == ["cat"] * 8 + ["dog"] * 4 + ["eel"]


def test_files_that_cannot_be_decoded_are_left_out(photos: OwnData, tmp_path: Path) -> None:
    (Path(photos.path) / "cat" / "0.png").write_bytes(b"not an image")
    (Path(photos.path) / "cat" / "0.txt").write_bytes(b"text")
    data = load(photos, tmp_path)
    assert set(data.skipped) == {"cat/0.txt", "cat/0.png"}
    assert data.skipped["cat/0.png"] == "not an intact image: another kind of file"
    assert len(data.y) + len(data.test_y) == 15


def test_the_users_folder_is_not_changed(photos: OwnData, tmp_path: Path) -> None:
    before = sorted(Path(photos.path).rglob("*"))
    load(photos, tmp_path / "cache")
    assert sorted(Path(photos.path).rglob("*")) == before


def test_each_size_has_a_cache_of_its_own(photos: OwnData, tmp_path: Path) -> None:
    for side in (16, 24, 16):
        own = replace(photos, image_size=side)
        assert load(own, tmp_path / "cache").spec.shape == (3, side, side)
    for side in (16, 24):
        assert replace(photos, image_size=side).is_decoded(tmp_path / "cache")
    assert not photos.is_decoded(tmp_path / "cache")


def test_black_images_stand_for_those_that_are_not_decoded(photos: OwnData, tmp_path: Path) -> None:
    blank, decoded = photos.blank(), load(photos, tmp_path)
    assert np.array_equal(blank.y, decoded.y)
    assert np.array_equal(blank.index, decoded.index)
    assert len(blank.test) == len(decoded.test)


def test_a_test_split_is_used_without_classes_that_are_not_trained(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", {"cat": 3, "dog": 3})
    write_folder(tmp_path / "test", {"cat": 1, "dog": 2, "eel": 1})
    data = parse_own_data(f"folder:{tmp_path}").load(tmp_path / "cache")
    assert data.test_y.tolist() == [0, 1, 1]
    assert data.tested_on == "test split, against the given labels"
    assert "test samples of classes without training samples are left out: eel" in data.notes


def test_true_labels_are_for_measuring_only(tmp_path: Path) -> None:
    labels, truth = ["a", "b", "a", "b", "b", "a"], ["a", "a", "a", "b", "c", "a"]
    split = ["train"] * 4 + ["test"] * 2
    data = table(table_of_images(tmp_path, labels, true_label=truth, split=split))
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.truth is not None
    assert data.truth.tolist() == [0, 0, 0, 1]
    assert data.test_y.tolist() == [0]  # the true class of the other is not a class
    assert data.tested_on == "test split"


def test_a_true_class_without_samples_is_unknown(tmp_path: Path) -> None:
    data = table(table_of_images(tmp_path, ["a", "b"] * 3, true_label=["a", "b", "c", "b", "a", "b"]))
    assert data.truth is not None
    assert (data.truth == UNKNOWN).sum() + (data.test_y == UNKNOWN).sum() == 1


def test_true_labels_that_are_no_class_are_noted(tmp_path: Path) -> None:
    truth = ["Ant", "bee", "bee", "bee", "ant", "bee"]
    split = ["test", "test", "", "", "", ""]
    data = table(table_of_images(tmp_path, ["ant", "bee"] * 3, split=split, true_label=truth))
    assert len(data.test) == 1
    assert any("Ant; did you mean 'ant'?; test samples with them are left out" in n for n in data.notes)
    with pytest.raises(RemnantError, match="Ant; did you mean 'ant'"):
        table(
            table_of_images(tmp_path, ["ant", "ant", "bee"], split=["test", "", ""], true_label=["Ant"] * 3)
        )


def test_labels_that_are_declared_clean_are_true(photos: OwnData, tmp_path: Path) -> None:
    data = load(replace(photos, clean=True), tmp_path)
    assert data.is_clean
    assert data.tested_on == "held-out share"


def test_nothing_needs_to_be_held_out(photos: OwnData, tmp_path: Path) -> None:
    every = load(replace(photos, test_share=0.0), tmp_path)
    assert len(every.train) == every.published == len(load(photos, tmp_path).train) + 3
    assert every.test_y.tolist() == every.y.tolist()
    assert torch.equal(every.test.take(torch.tensor([3])), every.train.take(torch.tensor([3])))
    assert every.tested_on == "training samples, against the given labels"


def test_of_a_table_with_a_split_the_share_has_no_meaning(tmp_path: Path) -> None:
    path = table_of_images(tmp_path, ["a", "b"] * 3, split=["train"] * 4 + ["test"] * 2)
    assert len(table(path, test_share=0.0).test) == 2


def test_a_column_of_tasks_is_numbered_in_natural_order(tmp_path: Path) -> None:
    data = table(table_of_images(tmp_path, ["a", "b"] * 4, task=["t10"] * 4 + ["t9"] * 4))
    assert data.rows is not None
    assert data.rows.task is not None
    assert data.rows.task.tolist() == [1] * 4 + [0] * 4
    assert data.rows.test.tolist() == [i for i in range(8) if i not in data.index]
    assert len(data.rows.test) == 4  # one of each class and task


def test_missing_files_of_a_table_are_left_out(tmp_path: Path) -> None:
    path = table_of_images(tmp_path, ["a", "b"] * 3)
    (tmp_path / "images" / "3.png").unlink()
    data = table(path)
    assert data.skipped == {"images/3.png": "expected a file, found nothing"}
    shutil.rmtree(tmp_path / "images")
    with pytest.raises(
        RemnantError, match=r"found none that can be read. First problem: images/0.png: missing"
    ):
        table(path)


def test_a_table_may_name_absolute_paths_and_folders_above(tmp_path: Path) -> None:
    files = [write_image(tmp_path / "images" / f"{i}.png") for i in range(4)]
    (tmp_path / "lists").mkdir()
    rows = [(files[0], "a"), (files[1], "b"), ("../images/2.png", "a"), ("../images/3.png", "b")]
    data = table(write_table(tmp_path / "lists" / "t.csv", ("path", "label"), rows))
    assert data.skipped == {}


@pytest.mark.parametrize(
    "changes", [{"image_size": 4}, {"image_size": 5000}, {"test_share": -0.1}, {"test_share": 1.0}]
)
def test_settings_out_of_range_are_an_error(photos: OwnData, changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"expected {next(iter(changes))} "):
        replace(photos, **changes)  # type: ignore[arg-type]


def test_a_name_without_a_path_is_an_error() -> None:
    with pytest.raises(RemnantError, match="expected a path or a name after the colon"):
        parse_own_data("folder: ")


def test_another_name_is_not_own_data() -> None:
    with pytest.raises(RemnantError, match=r"expected folder:DIR, table:FILE.csv or hf:NAME, got 'digits'"):
        parse_own_data("digits")
