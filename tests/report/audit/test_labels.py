import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
from audit_runs import HOSTILE, hostile_table, table_run
from conftest import tiny_config
from own_files import table_of_images, write_folder

from remnant.config import resolve
from remnant.config.recipe import to_config
from remnant.errors import RemnantError
from remnant.experiment.build import build_dataset
from remnant.noise.from_file import read_labels
from remnant.report.audit.labels import check_output, unread_files, write_labels
from remnant.report.audit.samples import AuditedRun


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_corrected_table_lists_all_files_and_is_the_same_data_but_for_the_labels(tmp_path: Path) -> None:
    run = table_run(hostile_table(tmp_path), tmp_path / "cache")
    new = (int(run.observed[3]) + 1) % 4
    use = write_labels(tmp_path / "labels.csv", run, {3: new}, None)
    assert use == f"remnant run table:{tmp_path / 'labels.csv'} tasks=1"
    again = table_run(tmp_path / "labels.csv", tmp_path / "cache")
    assert again.data.spec.classes == run.data.spec.classes
    assert set(again.data.spec.classes) == set(HOSTILE)
    expected = run.observed.copy()
    expected[3] = new
    assert again.observed.tolist() == expected.tolist()
    assert again.data.index.tolist() == run.data.index.tolist()
    assert again.data.test_y.tolist() == run.data.test_y.tolist()
    assert again.data.files == tuple(f"./{file}" for file in run.data.files)


def test_a_dropped_sample_is_left_out_of_the_table(tmp_path: Path) -> None:
    run = table_run(hostile_table(tmp_path), tmp_path / "cache")
    write_labels(tmp_path / "labels.csv", run, {}, None, dropped={2})
    assert len(rows(tmp_path / "labels.csv")) == run.data.published - 1
    again = table_run(tmp_path / "labels.csv", tmp_path / "cache")
    assert again.data.files == tuple(f"./{file}" for i, file in enumerate(run.data.files) if i != 2)
    assert again.observed.tolist() == [y for i, y in enumerate(run.observed.tolist()) if i != 2]


def test_a_file_that_cannot_be_read_is_not_in_the_table(tmp_path: Path) -> None:
    table = hostile_table(tmp_path)
    bad = sorted((tmp_path / "images").iterdir())[0]
    bad.write_text("no image")
    run = table_run(table, tmp_path / "cache")
    assert unread_files(run) == [f"images/{bad.name}"]
    write_labels(tmp_path / "labels.csv", run, {0: 1}, None)
    found = [row["path"] for row in rows(tmp_path / "labels.csv")]
    assert len(found) == len(rows(table)) - 1
    assert f"./images/{bad.name}" not in found
    assert unread_files(table_run(tmp_path / "labels.csv", tmp_path / "cache")) == []
    assert unread_files(dataclasses.replace(run, config=tiny_config())) == []


def test_tasks_and_true_labels_of_a_table_are_kept(tmp_path: Path) -> None:
    labels = ["cat", "dog"] * 4
    table = table_of_images(tmp_path, labels, task=[1, 1, 2, 2] * 2, true_label=["cat"] * 8)
    run = table_run(table, tmp_path / "cache")
    write_labels(tmp_path / "elsewhere" / "labels.csv", run, {0: 1}, None)
    found = rows(tmp_path / "elsewhere" / "labels.csv")
    assert list(found[0]) == ["path", "label", "split", "task", "true_label"]
    assert [row["task"] for row in found] == ["1", "1", "2", "2"] * 2
    assert found[int(run.data.index[0])]["label"] == "dog"
    assert all(Path(row["path"]).is_file() for row in found)  # absolute, outside the folder of the table


def test_a_folder_becomes_a_table_and_stays_as_it_is(tmp_path: Path) -> None:
    write_folder(tmp_path / "photos", {"cat": 4, "dog": 4})
    before = {path: path.read_bytes() for path in (tmp_path / "photos").rglob("*.png")}
    config = resolve({"data": f"folder:{tmp_path / 'photos'}", "tasks": 1})
    data, observed = build_dataset(config, tmp_path / "cache")
    run = AuditedRun(Path("run"), config, data, observed, ())
    write_labels(tmp_path / "labels.csv", run, {0: 1}, None)
    found = rows(tmp_path / "labels.csv")
    assert [row["label"] for row in found].count("dog") == 5
    assert [row["split"] for row in found].count("test") == 2
    assert {path: path.read_bytes() for path in (tmp_path / "photos").rglob("*.png")} == before


def test_if_nothing_was_held_out_the_table_has_no_split(tmp_path: Path) -> None:
    home = write_folder(tmp_path / "photos", {"cat": 4, "dog": 4})
    config = to_config(f"folder:{home}", {"tasks": 1, "data.test_share": 0})
    data, observed = build_dataset(config, tmp_path / "cache")
    write_labels(tmp_path / "labels.csv", AuditedRun(Path("run"), config, data, observed, ()), {7: 0}, None)
    found = rows(tmp_path / "labels.csv")
    assert list(found[0]) == ["path", "label"]
    assert [row["label"] for row in found] == ["cat"] * 4 + ["dog"] * 3 + ["cat"]


def test_other_data_get_a_file_of_numbers_for_all_published_samples(tmp_path: Path) -> None:
    config = tiny_config()
    data, observed = build_dataset(config, None)
    run = AuditedRun(Path("run"), config, data, observed, ())
    new = (int(observed[5]) + 1) % 10
    assert write_labels(tmp_path / "labels.csv", run, {5: new}, None).endswith("labels.csv")
    assert len(read_labels(tmp_path / "labels.csv", "")) == data.published
    again = tiny_config(noise=f"file:{tmp_path / 'labels.csv'}")
    expected = observed.copy()
    expected[5] = new
    assert np.array_equal(build_dataset(again, None)[1], expected)


def test_a_name_that_a_table_cannot_contain_is_an_error(tmp_path: Path) -> None:
    write_folder(tmp_path / "photos", {" cat": 3, "dog": 3})
    config = resolve({"data": f"folder:{tmp_path / 'photos'}", "tasks": 1})
    data, observed = build_dataset(config, tmp_path / "cache")
    with pytest.raises(RemnantError, match="expected names in UTF-8 without spaces at their ends"):
        write_labels(tmp_path / "labels.csv", AuditedRun(Path("run"), config, data, observed, ()), {}, None)
    assert not (tmp_path / "labels.csv").exists()


def test_existing_files_are_overwritten_only_if_asked_for_and_sources_never(tmp_path: Path) -> None:
    table = hostile_table(tmp_path)
    run, decisions, other = table_run(table, tmp_path / "cache"), tmp_path / "d.csv", tmp_path / "labels.csv"
    check_output(other, run, decisions, overwrite=False)
    other.write_text("")
    with pytest.raises(RemnantError, match="but it exists"):
        check_output(other, run, decisions, overwrite=False)
    check_output(other, run, decisions, overwrite=True)
    image = tmp_path / "cache" / "model.safetensors"  # of the run
    image.write_text("")
    run = dataclasses.replace(run, folder=image.parent)
    for source in (table, decisions, image, next(tmp_path.glob("**/*.png"))):
        with pytest.raises(RemnantError, match="got one that is read"):
            check_output(source, run, decisions, overwrite=True)
