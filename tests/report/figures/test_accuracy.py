import pytest
from report_runs import measured, variants

from remnant.report.figures.accuracy import (
    _forgotten,
    _incremental,
    _mean_matrix,
    accuracy_matrices,
    forgetting,
    incremental_accuracy,
)
from remnant.report.figures.figure import svg

pytest.importorskip("matplotlib")

THREE = [[90.0, None, None], [60.0, 80.0, None], [40.0, 70.0, 85.0]]
JOINT = {"accuracy": [[90.0, 80.0]]}


def test_accuracy_after_each_task_is_the_mean_over_the_tasks_so_far() -> None:
    run = measured(accuracy=THREE, classes=[["a"], ["b"], ["c"]])
    assert _incremental(run) == {1: 90.0, 2: 70.0, 3: 65.0}


def test_joint_training_is_a_point_after_the_last_task() -> None:
    assert _incremental(measured("joint", **JOINT)) == {2: 85.0}
    assert incremental_accuracy(variants(measured("joint", **JOINT))) is None


def test_forgetting_is_the_best_earlier_accuracy_minus_the_final_one() -> None:
    assert _forgotten(measured(accuracy=THREE)) == {1: 50.0, 2: 10.0}
    assert forgetting(variants(measured("joint", **JOINT))) is None


def test_the_matrix_is_the_mean_over_seeds() -> None:
    found = _mean_matrix([measured(seed=0), measured(seed=1)])
    assert found == [[90.5, None], [60.5, 80.5]]


def test_every_number_of_a_small_matrix_is_shown_and_there_is_none_for_joint_training() -> None:
    figure = accuracy_matrices(variants(measured("er"), measured("joint", **JOINT)))
    assert figure is not None
    assert [panel.title for panel in figure.panels] == ["er"]
    text = svg(figure.panels[0], "x")
    assert all(f">{number}<" in text for number in (90, 60, 80))


def test_all_methods_are_in_one_panel_with_a_legend() -> None:
    for draw in (incremental_accuracy, forgetting):
        figure = draw(variants(measured("er"), measured("aer-abs")))
        assert figure is not None
        assert len(figure.panels) == 1
        assert [style.label for style in figure.legend] == ["er", "aer-abs"]
        assert svg(figure.panels[0], "x").startswith("<svg")
