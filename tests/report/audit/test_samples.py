from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tiny_config
from own_files import table_of_images

from remnant.config import resolve
from remnant.errors import RemnantError
from remnant.report.audit.samples import read_audited


def test_a_run_has_all_training_samples_in_the_order_of_doubt(run_in: Callable[..., Path]) -> None:
    folder = run_in(tiny_config(epochs=2))
    run = read_audited(folder, None)
    assert sorted(doubt.position for doubt in run.doubts) == list(range(len(run.observed)))
    scores = [doubt.score for doubt in run.doubts]
    assert scores == sorted(scores)
    assert run.id == folder.name
    first = (folder / "suspects.csv").read_text().splitlines()[1].split(",")
    assert first[0] == str(run.data.index[run.doubts[0].position])
    assert first[5] == run.classes[run.observed[run.doubts[0].position]]
    assert first[6] == run.classes[run.doubts[0].suggested]

    first[5] = next(name for name in run.classes if name != first[5])
    header, _, *rest = (folder / "suspects.csv").read_text().splitlines()
    (folder / "suspects.csv").write_text("\n".join([header, ",".join(first), *rest]))
    with pytest.raises(RemnantError, match=r"line 2: .*the data have changed"):
        read_audited(folder, None)
    (folder / "suspects.csv").write_text("id,path\n")
    with pytest.raises(RemnantError, match="expected the columns id, path, task"):
        read_audited(folder, None)
    (folder / "suspects.csv").unlink()
    with pytest.raises(RemnantError, match="expected a run with suspects"):
        read_audited(folder, None)


def test_a_folder_without_a_finished_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match="expected a finished run"):
        read_audited(tmp_path, None)


def test_classes_with_the_same_name_in_a_csv_file_are_an_error(
    run_in: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "cache"))
    table = table_of_images(tmp_path, ["=a", "'=a"] * 4)
    settings = {"data": f"table:{table}", "tasks": 1, "net": "small:4", "epochs": 2, "batch": 4}
    folder = run_in(resolve(settings | {"buffer_size": 4}))
    with pytest.raises(RemnantError, match="expected names of classes that differ in a CSV file"):
        read_audited(folder, None)
