import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import food_files
import numpy as np
import pytest

from remnant.data.dataset import Dataset
from remnant.data.own import parse_own_data
from remnant.data.own.own_data import OwnData
from remnant.errors import RemnantError

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "hub"))
    datasets.disable_progress_bars()


def encoded(key: str) -> dict[str, Any]:
    file = io.BytesIO()
    food_files.image(key).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def made(labels: list[int | None], image: str = "img") -> Any:  # noqa: ANN401
    features = datasets.Features(
        {image: datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    images = [encoded(f"{i}") for i in range(len(labels))]
    return datasets.Dataset.from_dict({image: images, "label": labels}, features=features)


def hf(path: Path) -> OwnData:
    return parse_own_data(f"hf:{path}")


def load(path: Path) -> Dataset:
    return hf(path).load(path.parent / "cache")


def test_a_dataset_saved_to_disk_is_read_with_its_splits(tmp_path: Path) -> None:
    splits = {"train": made([0, 1, 1, 0, 1]), "test": made([1, 0])}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    data = load(tmp_path / "saved")
    assert data.spec.classes == ("cat", "dog")
    assert data.y.tolist() == [0, 1, 1, 0, 1]
    assert data.test_y.tolist() == [1, 0]
    assert data.files[:2] == ("train 0", "train 1")
    assert data.rows is not None


@pytest.mark.parametrize("kind", ["saved", "data.parquet", "folder"])
def test_one_split_is_divided(tmp_path: Path, kind: str) -> None:
    whole = made([0, 1] * 5, image="image")
    if kind == "saved":
        whole.save_to_disk(tmp_path / kind)
    elif kind == "folder":
        (tmp_path / kind).mkdir()
        whole.to_parquet(tmp_path / kind / "train.parquet")
    else:
        whole.to_parquet(tmp_path / kind)
    data = load(tmp_path / kind)
    assert np.bincount(data.y).tolist() == [4, 4]
    assert np.bincount(data.test_y).tolist() == [1, 1]


def test_rows_without_a_label_and_damaged_images_are_left_out(tmp_path: Path) -> None:
    whole = made([0, 1, None, -1, 0, 1, 0, 1])
    damaged = whole.cast_column("img", datasets.Image(decode=False)).to_list()
    damaged[4]["img"]["bytes"] = b"not an image"
    datasets.Dataset.from_list(damaged, features=whole.features).save_to_disk(tmp_path / "saved")
    data = load(tmp_path / "saved")
    assert data.skipped == {
        "train 2": "no label",
        "train 3": "no label",
        "train 4": "not an intact image: another kind of file",
    }


def test_labels_can_be_texts_and_the_column_can_be_chosen(tmp_path: Path) -> None:
    whole = made([0, 1, 0, 1]).add_column("breed", ["pug", "tom", "pug", "tom"])
    whole.save_to_disk(tmp_path / "saved")
    assert replace(hf(tmp_path / "saved"), label_column="breed").spec.classes == ("pug", "tom")
    assert replace(hf(tmp_path / "saved"), label_column="other").spec.classes == ("cat", "dog")
    whole.remove_columns("label").save_to_disk(tmp_path / "without")
    with pytest.raises(RemnantError, match=r"expected a column 'label'. Found img, breed. Choose one with"):
        _ = hf(tmp_path / "without").spec


def test_a_dataset_without_images_is_an_error(tmp_path: Path) -> None:
    made([0, 1]).remove_columns("img").save_to_disk(tmp_path / "saved")
    with pytest.raises(RemnantError, match="expected one column of images, found 0 in label"):
        _ = hf(tmp_path / "saved").spec


def test_what_cannot_be_loaded_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"not parquet")
    for path in ("a.parquet", "nothing"):
        with pytest.raises(
            RemnantError, match=r"expected a dataset on the Hugging Face hub.*failed with"
        ) as error:
            _ = hf(tmp_path / path).spec
        assert "\n" not in str(error.value)


def test_a_script_is_not_executed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(RemnantError, match="failed with"):
        _ = hf(tmp_path / "mine").spec
    assert not (tmp_path / "ran").exists()
