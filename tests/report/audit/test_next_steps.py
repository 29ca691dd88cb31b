import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tiny_config

from remnant.report.audit.next_steps import next_steps, show_results, with_page
from remnant.report.summary import program

LISTED = "  run/\n    result.json   all numbers\n    config.toml   repeats this run"


def test_after_an_audit_its_decisions_are_applied_and_the_network_is_used() -> None:
    found = [
        shlex.split(text) for text in next_steps(Path("my runs/a"), None, Path("a.html"), Path("d")).values()
    ]
    assert all(words[0] == program() for words in found)
    assert found[0][1:] == [
        "audit",
        "--apply",
        "decisions.csv",
        "my runs/a",
        "-o",
        "labels.csv",
        "--data-dir",
        "d",
    ]
    assert [words[1:3] for words in found[1:]] == [[c, "my runs/a"] for c in ("predict", "learn", "export")]


def test_after_a_run_on_own_data_an_audit_of_them_is_suggested() -> None:
    first, *_ = next_steps(Path("runs/a"), "folder:my photos", None, None).values()
    assert shlex.split(first)[1:] == ["audit", "folder:my photos"]


def test_the_page_of_an_audit_is_among_the_files_of_its_run(tmp_path: Path) -> None:
    lines = with_page(LISTED, tmp_path, tmp_path / "audit.html").splitlines()
    assert lines[1] == "    audit.html    doubtful labels, to judge in the browser"
    assert [*lines[:1], *lines[2:]] == LISTED.splitlines()
    assert with_page(LISTED, tmp_path, tmp_path / "elsewhere" / "a.html") == LISTED
    assert with_page(LISTED, tmp_path, None) == LISTED


def test_commands_are_not_wrapped_and_no_other_method_is_suggested(
    run_in: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_in(tiny_config(epochs=2))
    monkeypatch.setenv("COLUMNS", "40")
    show_results(folder, page=folder / "audit.html")
    text = capsys.readouterr().out
    assert f"    {program()} audit --apply decisions.csv {folder} -o labels.csv\n" in text
    assert "final average accuracy" in text
    assert "--method" not in text
    assert "audit.html " in text
