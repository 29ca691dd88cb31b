import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_config

from remnant.config import recipe, resolve
from remnant.report.paper import PaperFigures
from remnant.report.summary import consolidation, figures, files, next_steps, others, paper, program, show

RESULT: dict[str, Any] = {
    "faa": 51.26,
    "ff": -0.04,
    "tested_on": "test split",
    "buffer": {"size": 20, "purity": 85.0, "noisy": 3, "balance": None},
    "buffers": {"buffer": {"size": 20, "purity": 85.0, "mean_purity": None}},
    "consolidation": None,
    "skipped": {},
    "images_per_second": 1234.5,
    "peak_rss_mb": 300.2,
    "seconds": 95.0,
}


def test_a_summary_has_the_accuracies_the_buffer_the_files_and_what_to_try_next(
    run_in: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_in(tiny_config(epochs=2, method="er"))
    show(folder, None)
    text, result = capsys.readouterr().out, json.loads((folder / "result.json").read_text())
    assert "er on digits, noise symmetric:0.4, seed 0" in text
    for number, value in enumerate(result["accuracy"][-1]):
        assert f"  {number + 1} " in text
        assert f"{value:.1f} %" in text
    assert f"{result['faa']:.1f} %  mean over tasks, test split" in text
    assert f"{result['buffer']['noisy']}  of 20 samples" in text
    assert "buffer.safetensors  the buffer" in text
    assert f"run {folder} --method aer-abs" in text
    assert f"run {folder} --noise symmetric:0.6" in text
    assert "list methods" in text


def true_labels(dataset: Any, rng: np.random.Generator) -> Any:  # noqa: ANN401
    return dataset.y


def test_a_run_with_python_objects_has_a_summary_without_commands(
    run_in: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    show(run_in(tiny_config(epochs=2, method="er", noise=true_labels)), None)
    text = capsys.readouterr().out
    assert "true_labels, seed 0" in text
    assert "final average accuracy" in text
    assert "Try next" not in text


def test_figures_are_rounded_and_unknown_ones_are_left_out() -> None:
    rows = {name: (value, about) for name, value, about in figures(RESULT)}
    assert rows["final average accuracy"] == ("51.3 %", "mean over tasks, test split")
    assert rows["final forgetting"][0] == "0.0"  # and not -0.0
    assert rows["buffer purity"] == ("85.0 %", "stored labels that are clean")
    assert rows["noisy labels stored"] == ("3", "of 20 samples")
    assert rows["buffer balance"][0] == "-"
    assert rows["time"] == ("1:35 min", "1234 samples/s, 300 MB")
    assert "skipped files" not in rows
    without = {name for name, _, _ in figures(RESULT | {"buffer": None, "buffers": {}})}
    assert not {"buffer purity", "noisy labels stored", "buffer balance"} & without


def test_metrics_that_need_true_labels_are_unknown_without_them() -> None:
    buffer = RESULT["buffer"] | {"purity": None, "noisy": None}
    rows = figures(RESULT | {"buffer": buffer})
    assert ("buffer purity", "unknown", "stored labels that are clean") in rows
    assert ("noisy labels stored", "unknown", "of 20 samples") in rows
    two = {"clean": {"size": 3, "purity": None, "mean_purity": None}}
    two["noisy"] = {"size": 0, "purity": None, "mean_purity": None}
    assert [value for _, value, _ in others(two)] == ["unknown", "-"]


def test_skipped_files_are_counted() -> None:
    rows = figures(RESULT | {"skipped": {"a.jpg": "truncated", "b.jpg": "truncated"}})
    assert ("skipped files", "2", "could not be read; listed in result.json") in rows


def test_several_buffers_have_a_line_each() -> None:
    buffers = {
        "clean": {"size": 3, "purity": 100.0, "mean_purity": 97.25},
        "noisy": {"size": 0, "purity": None, "mean_purity": None},
    }
    assert others(buffers) == [
        ("  clean", "97.2 %", "clean labels on average; 3 samples at the end"),
        ("  noisy", "-", "clean labels on average; 0 samples at the end"),
    ]
    assert others({"clean": buffers["clean"]}) == []
    both = figures(RESULT | {"buffers": buffers})
    assert ("buffer purity", "85.0 %", "stored labels that are clean, in clean") in both
    assert "clean.safetensors  the buffer" in files(Path("x"), {"buffers": buffers})
    more = buffers | {"noisy": {"size": 2}}
    assert "*.safetensors   the buffers clean, noisy" in files(Path("x"), {"buffers": more})


def test_a_consolidation_has_its_precision_and_its_fallbacks() -> None:
    found = {"divisions": 6, "precision": 91.25, "fallback": {"too few": 2}}
    assert consolidation(found) == [
        ("trusted labels", "91.2 %", "clean; mean over consolidation"),
        ("plain cross-entropy", "2", "of 6 divisions: too few"),
    ]
    assert consolidation(found | {"precision": None, "fallback": {}}) == []
    assert consolidation(None) == consolidation({"divisions": 0}) == []


def test_the_figures_of_the_paper_are_shown_with_the_differences() -> None:
    (row,) = paper(PaperFigures(41.24, 0.4, 21.2, ("net.width = 64", "epochs = 50")))
    assert row == (
        "in the paper",
        "41.2 %",
        "+- 0.4 over 5 seeds, forgetting 21.2; with net.width = 64, epochs = 50",
    )
    assert paper(PaperFigures(41.24, None, None, ())) == [("in the paper", "41.2 %", "over 5 seeds")]
    assert paper(None) == []


def test_only_commands_that_work_are_suggested() -> None:
    folder, table = Path("my runs"), tiny_config(method="er", epochs=1).table()
    text = next_steps(folder, table, {"noise": "symmetric:0.6"}, Path("my data"))
    assert "run 'my runs' --data-dir 'my data' --method er-ace " in text  # aer-abs needs two epochs
    assert "--noise symmetric:0.2 " in text
    assert "--noise" in next_steps(folder, table, {"noise": "none", "noise_rate": 0.0}, None)
    for labels in ({"noise": "given"}, {"noise": "none", "noise_rate": None}):  # not known to be clean
        assert "--noise" not in next_steps(folder, table, labels, None)
    default = next_steps(folder, resolve(recipe.read("digits")).table(), {"noise": "symmetric:0.4"}, None)
    assert "run --method er " in default  # the folder is not needed


def test_the_program_is_called_by_its_path_if_its_name_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/bin/remnant"])
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert program() == "/opt/bin/remnant"
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/remnant")
    assert program() == "remnant"
