import pytest
from report_runs import measured, variants

from remnant.report.figures.composition import composition
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
