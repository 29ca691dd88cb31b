import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_config

from remnant.cli.run import parse
from remnant.config.recipe import to_config
from remnant.report.summary import (
    Command,
    as_text,
    consolidation,
    figures,
    files,
    next_steps,
    others,
    paper,
    program,
    show,
    wrapped,
)

RESULT: dict[str, Any] = {
    "faa": 51.26,
    "accuracy": [[90.0], [40.0, 62.52]],
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
    show(folder, Command(None, {"method": "er", "epochs": 2}))
    text, result = capsys.readouterr().out, json.loads((folder / "result.json").read_text())
    assert "er on digits, noise symmetric:0.4, seed 0" in text
    for number, value in enumerate(result["accuracy"][-1]):
        assert f"  {number + 1} " in text
        assert f"{value:.1f} %" in text
    assert f"{result['faa']:.1f} %  mean over tasks, test split" in text
    assert f"{result['buffer']['noisy']}  of 20 samples" in text
    assert "buffer.safetensors  the buffer" in text
    assert "remnant run epochs=2 --method aer-abs\n" in text
    assert "remnant run epochs=2 --method er --noise symmetric:0.6\n" in text
    assert "list methods" in text


def true_labels(dataset: Any, rng: np.random.Generator) -> Any:  # noqa: ANN401
    return dataset.y


def test_a_run_with_python_objects_has_a_summary_without_commands(
    run_in: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    show(run_in(tiny_config(epochs=2, method="er", noise=true_labels)), Command(None, {}))
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
    assert "samples left out" not in rows
    without = {name for name, _, _ in figures(RESULT | {"buffer": None, "buffers": {}})}
    assert not {"buffer purity", "noisy labels stored", "buffer balance"} & without


def test_a_single_task_is_not_forgotten() -> None:
    assert "final forgetting" not in {name for name, _, _ in figures(RESULT | {"accuracy": [[80.0]]})}


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
    assert ("samples left out", "2", "listed in result.json with the reasons") in rows


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
    assert "*.safetensors  the buffers clean, noisy" in files(Path("x"), {"buffers": more})


def test_a_consolidation_has_its_precision_and_its_fallbacks() -> None:
    found = {"divisions": 6, "precision": 91.25, "fallback": {"too few": 2}}
    assert consolidation(found) == [
        ("trusted labels", "91.2 %", "clean; mean over consolidation"),
        ("plain cross-entropy", "2", "of 6 divisions: too few"),
    ]
    assert consolidation(found | {"precision": None, "fallback": {}}) == []
    assert consolidation(None) == consolidation({"divisions": 0}) == []


def test_the_figures_of_the_paper_are_shown_with_the_differences() -> None:
    given = {"noise": "block:0.2", "epochs": 5}
    (row,) = paper(to_config("paper/cifar100", given))
    assert row == ("in the paper", "41.2 %", "+- 0.4 over 5 seeds, forgetting 21.2; with epochs = 50")


@pytest.mark.parametrize("name", ["paper/cifar10", "cifar10"])
def test_a_benchmark_without_a_number_in_the_paper_says_so(name: str) -> None:
    ((_, value, text),) = paper(to_config(name, {"noise": "asymmetric:0.4", "method": "er"}))
    assert (value, text) == ("-", "the paper has no number for er with noise asymmetric:0.4 on cifar10")
    assert paper(to_config("digits", {})) == []


def commands(text: str) -> list[list[str]]:
    """Return the words after `run` of each suggested command."""
    lines = text.replace("\\\n", "").splitlines()
    return [shlex.split(line)[2:] for line in lines if " run" in line and not line.lstrip().startswith("#")]


def suggested(name: str | None, width: int = 80, **settings: Any) -> list[list[str]]:  # noqa: ANN401
    return commands(next_steps(Command(name, settings), to_config(name, settings), width))


def test_the_recipe_is_suggested_with_the_changes_of_the_user() -> None:
    method, noise = suggested("paper/cifar10", epochs=4, **{"net.width": 8})
    assert method == ["paper/cifar10", "epochs=4", "net.width=8", "--method", "er"]
    assert noise == ["paper/cifar10", "epochs=4", "net.width=8", "--noise", "symmetric:0.6"]
    config = to_config(*parse(method[:3], [f"method={method[-1]}"]))
    assert (config.label, config.lr, config.epochs) == ("er", 0.1, 4)  # and not 0.03, the lr of aer-abs


def test_a_suggestion_is_another_run_that_works() -> None:
    (method, _) = suggested(None, method="er", epochs=1)
    assert method == ["epochs=1", "--method", "er-ace"]  # aer-abs needs two epochs
    assert suggested(None)[0] == ["--method", "er"]
    assert suggested(None, noise="symmetric:0.6")[1] == ["--noise", "symmetric:0.2"]
    # With all components of aer-abs, each of the methods would be the same run.
    parts = {"objective": "asymmetric", "schedule": "alternate", "insertion": "lowest-loss"}
    (noise,) = suggested(None, method="er", replacement="abs", **parts)
    assert noise[-2:] == ["--noise", "symmetric:0.6"]
    (only,) = suggested("paper/food101n")  # has labels of its own
    assert only == ["paper/food101n", "--method", "er"]
    text = next_steps(Command(None, {}), to_config(None, {}), 80, can_add_noise=False)
    assert commands(text) == [["--method", "er"]]


def test_of_a_run_folder_another_seed_is_suggested(tmp_path: Path) -> None:
    config = to_config("paper/cifar10", {})
    (tmp_path / "config.toml").write_text(config.toml())
    for name in (tmp_path, tmp_path / "config.toml"):
        assert suggested(str(name)) == [[str(name), "--seed", "1"]]


def test_the_folders_are_part_of_a_suggestion() -> None:
    command = Command(None, {}, Path("my runs"), Path("my data"))
    text = next_steps(command, to_config(None, {}), 200)
    assert "remnant run --method er --data-dir 'my data' --out 'my runs'\n" in text


def test_a_long_command_is_wrapped_between_words() -> None:
    text = next_steps(Command("paper/cifar10", {"net.width": 8}), to_config("paper/cifar10", {}), 40)
    assert "    remnant run paper/cifar10 \\\n      net.width=8 --method er\n" in text
    assert wrapped(["remnant run", "x" * 50], 40).splitlines()[1] == "      " + "x" * 50


@pytest.mark.parametrize("value", [0.5, 1e-05, True, 3, "abs", "0.5", "a b", [1, 2], {"name": "abs", "x": 2}])
def test_a_value_is_written_as_it_can_be_typed(value: object) -> None:
    assert parse([], [f"key={as_text(value)}"]) == (None, {"key": value})


def test_the_program_is_called_by_its_path_if_its_name_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/bin/remnant"])
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert program() == "/opt/bin/remnant"
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/remnant")
    assert program() == "remnant"
