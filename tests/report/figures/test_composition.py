from pathlib import Path

import pytest
from report_runs import measured, on_disk, variants

from remnant.errors import RemnantError
from remnant.report.figures.composition import (
    _suspect_shares,
    class_accuracy,
    composition,
    suspect_labels,
)
from remnant.report.figures.figure import svg

pytest.importorskip("matplotlib")


def test_purity_is_drawn_for_each_class_and_diversity_where_it_is_known() -> None:
    runs = variants(measured("er"), measured("aer-abs"))
    folders = [str(run.folder) for variant in runs for run in variant.runs]
    figure = composition(runs, {folder: {"zero": 0.5, "three": 0.1} for folder in folders})
    assert figure is not None
    assert [panel.title.split()[:2] for panel in figure.panels] == [
        ["scaled", "purity"], ["scaled", "diversity"],
    ]  # fmt: skip
    assert all(f">{name}<" in svg(figure.panels[1], "x") for name in ("zero", "one", "two", "three"))


def test_without_a_joint_run_the_caption_says_what_is_missing() -> None:
    figure = composition(variants(measured("er")), {})
    assert figure is not None
    assert len(figure.panels) == 1
    assert "--method joint --noise none" in figure.caption


def test_without_true_labels_or_a_buffer_there_is_no_figure() -> None:
    unknown = measured("er", buffer={"purity": None, "purity_per_class_scaled": None, "size": 4})
    assert composition(variants(unknown), {}) is None
    assert composition(variants(measured("finetune", buffer=None)), {}) is None


def test_values_above_100_are_not_called_purity_in_percent() -> None:
    scaled = {"zero": 190.0, "one": 380.0}  # of 10 classes with 19 and 38 clean samples of 100
    figure = composition(
        variants(measured("er", buffer={"size": 100, "purity_per_class_scaled": scaled})), {}
    )
    assert figure is not None
    (panel,) = figure.panels
    assert (figure.title, panel.title) == ("Scaled purity of each class", "scaled purity of each class")
    assert panel.y == "% of a balanced share"
    assert "exceeds 100 where a class has more" in figure.caption


ONCE = {"accuracy": [[70.0]], "accuracy_per_class": {"zero": 100.0, "one": 40.0}}
AUDITED = {"noise_rate": None, "suspects": {"samples": 5, "suspect": 2, "noise_rate": 30.0}}


def test_the_accuracy_of_classes_is_drawn_if_nothing_is_measured_between_tasks() -> None:
    figure = class_accuracy(variants(measured("er", **ONCE), measured("aer-abs", **ONCE)))
    assert figure is not None
    assert [style.label for style in figure.legend] == ["er", "aer-abs"]
    assert ">zero<" in svg(figure.panels[0], "x")
    assert class_accuracy(variants(measured("er", accuracy_per_class=ONCE["accuracy_per_class"]))) is None


def test_the_share_of_suspect_labels_is_counted_for_each_class(tmp_path: Path) -> None:
    names = [["=zero", "one"], ["two"]]
    (run,) = on_disk(tmp_path, [measured("er", classes=names, **AUDITED)])
    rows = ["'=zero,true", "'=zero,false", "one,false", "'=zero,false", "'=zero,true"]
    (run.folder / "suspects.csv").write_text("given,is_suspect\n" + "".join(f"{row}\n" for row in rows))
    assert _suspect_shares(run) == {"=zero": 50.0, "one": 0.0}
    figure = suspect_labels(variants(run))
    assert figure is not None
    assert "=zero" in svg(figure.panels[0], "x")
    (run.folder / "suspects.csv").write_text("id\n1\n")
    with pytest.raises(RemnantError, match=r"suspects\.csv: expected the suspect labels"):
        suspect_labels(variants(run))


def test_suspect_labels_are_not_drawn_where_it_is_known_which_are_wrong(tmp_path: Path) -> None:
    (run,) = on_disk(tmp_path, [measured("er", suspects=AUDITED["suspects"])])
    (run.folder / "suspects.csv").write_text("given,is_suspect\nzero,true\n")
    assert suspect_labels(variants(run)) is None
    assert suspect_labels(variants(measured("er", **AUDITED))) is None  # without its file
