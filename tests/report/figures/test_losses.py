from pathlib import Path

import pytest
from report_runs import measured, on_disk, records, variants
from run_folders import write_run

from remnant.errors import RemnantError
from remnant.report.figures.figure import svg
from remnant.report.figures.losses import (
    _training_losses,
    buffer_losses,
    purity_by_epoch,
    stream_losses,
    training_loss,
)
from remnant.report.figures.style import CSS, SHADE
from remnant.report.runs import find_runs

pytest.importorskip("matplotlib")

UNKNOWN = {
    "separation": [{"task": 1, "epoch": 0, "phase": "standard", "loss_clean": None, "loss_noisy": None}],
    "memorisation": [],
}


def test_buffer_losses_have_a_panel_per_method_and_forgetting_epochs_are_shaded() -> None:
    figure = buffer_losses(variants(measured("er"), measured("er", 1), measured("aer-abs")))
    assert figure is not None
    assert [panel.title for panel in figure.panels] == ["er", "aer-abs"]
    assert [style.label for style in figure.legend] == ["clean labels", "noisy labels"]
    shaded = [CSS[SHADE] in svg(panel, "x") for panel in figure.panels]
    assert shaded == [False, True]
    assert "seeds 0-1 (er); 0 (aer-abs)" in figure.caption


def test_methods_without_measured_losses_are_left_out() -> None:
    figure = buffer_losses(variants(measured("finetune", **UNKNOWN), measured("er")))
    assert figure is not None
    assert [panel.title for panel in figure.panels] == ["er"]


def test_without_true_labels_there_are_no_figures_of_losses_and_purity(tmp_path: Path) -> None:
    runs = variants(measured("er", **UNKNOWN))
    assert buffer_losses(runs) is None
    assert stream_losses(runs) is None
    write_run(tmp_path / "run", measured("er", **UNKNOWN), records(purity=None))
    assert purity_by_epoch(variants(*find_runs([tmp_path]))) is None


def test_stream_losses_compare_methods_in_two_panels() -> None:
    figure = stream_losses(variants(measured("er"), measured("aer-abs")))
    assert figure is not None
    assert len(figure.panels) == 2
    assert [style.label for style in figure.legend] == ["er", "aer-abs"]


def test_purity_is_drawn_over_the_epochs_of_all_tasks(tmp_path: Path) -> None:
    figure = purity_by_epoch(variants(*on_disk(tmp_path, [measured("er"), measured("er", 1)])))
    assert figure is not None
    assert [style.label for style in figure.legend] == ["er"]
    assert svg(figure.panels[0], "x").startswith("<svg")


def test_damaged_metrics_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    runs = on_disk(tmp_path, [measured("er")])
    (runs[0].folder / "metrics.jsonl").write_text("not json\n")
    with pytest.raises(RemnantError, match=r"metrics\.jsonl.*damaged"):
        purity_by_epoch(variants(*runs))


def test_the_training_loss_of_one_task_is_that_of_epochs_with_replay(tmp_path: Path) -> None:
    phases = ("forget", "learn", "forget", "learn")
    lines = [{"event": "epoch", "task": 0, "phase": p, "loss": 1.5 + n} for n, p in enumerate(phases)]
    write_run(tmp_path / "run", measured("aer-abs", accuracy=[[70.0]]), lines)
    (run,) = find_runs([tmp_path])
    assert _training_losses(run) == {2: 2.5, 4: 4.5}
    assert training_loss(variants(run)) is not None


def test_the_training_loss_is_not_drawn_if_accuracies_by_task_are(tmp_path: Path) -> None:
    assert training_loss(variants(*on_disk(tmp_path, [measured("er")]))) is None
