import json
from pathlib import Path

import pytest
from cli_helpers import TINY, Invoke
from conftest import tiny_config
from run_folders import finished, write_run
from sweep_helpers import inline

from remnant.cli.compare import finished_runs, joined
from remnant.errors import RemnantError
from remnant.report.tables.stored import store
from remnant.sweep import scheduler
from remnant.sweep.status import Cell

SMALL = [*TINY, "split=[5,5]"]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "start_workers", inline())


def test_words_up_to_the_next_option_or_setting_belong_to_a_list() -> None:
    words = ["digits", "--methods", "er", "aer-abs", "--seeds", "0", "1", "lr=0.1", "--jobs", "2"]
    assert joined(words) == ["digits", "--methods", "er,aer-abs", "--seeds", "0,1", "lr=0.1", "--jobs", "2"]
    assert joined(["--methods", "--seeds", "0"]) == ["--methods", "--seeds", "0"]


def test_compare_runs_what_is_missing_and_prints_and_writes_the_table(invoke: Invoke, tmp_path: Path) -> None:
    words = ["compare", "--methods", "finetune", "er", "--seeds", "0-1", *SMALL, "--table", "table.csv"]
    done = invoke(*words)
    assert done.code == 0, done.err
    assert "4/4  finished" in done.err
    assert "digits, symmetric:0.4" in done.out
    first, second, *_ = (tmp_path / "table.csv").read_text().splitlines()[1:]
    assert {first.split(",")[2], second.split(",")[2]} == {"finetune", "er"}
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == 4
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/result.json")}
    assert invoke(*words).out == done.out
    assert {path: path.stat().st_mtime_ns for path in before} == before
    table = invoke("table", "runs", "--metric", "faa", "ff")
    assert table.code == 0
    assert "purity" not in table.out
    assert all(folder.parent.name in table.out for folder in before)


def test_a_run_that_fails_is_named_and_the_exit_code_is_1(invoke: Invoke) -> None:
    done = invoke("compare", "--methods", "er", "--seeds", "0", *SMALL, "--lr", "1e30", "-q")
    assert done.code == 1
    assert "failed: digits-er-symmetric-0.4-s0" in done.err
    assert "error.txt" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "er", "aer-sba"], "did you mean 'aer-abs'"),
        (["--methods", "er", "--seeds", "a"], "expected numbers or ranges such as 0-4"),
        (["--methods", "er", "--metric", "fa"], "did you mean 'faa'"),
        (["--methods", "er", "--table", "table.xls"], "expected a file that ends in .csv, .md, .tex"),
        (["--methods", "er", "method=aer"], "write --methods aer"),
        (["--method", "er"], "write --methods er"),
        ([], "expected --methods"),
        (["--methods", "er", "--sed", "3"], "write --seeds 3"),
        (["--methods", "er", "insertion.alpa=0.5"], "alpa"),
        (["--methods", "er", "--jobs", "0"], "jobs: expected at least 1"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], message: str
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    done = invoke("compare", *words)
    assert done.code == 2
    assert message in done.err


def test_a_dry_run_prints_runs_and_time_and_runs_nothing(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("compare", "--methods", "finetune", "--seeds", "0-3", *SMALL, "--dry-run")
    assert done.code == 0, done.err
    assert "runs      4, 0 finished" in done.out
    assert "time      about" in done.out
    assert list((tmp_path / "runs").glob("*/config.toml")) == []


def test_a_table_lists_runs_with_the_settings_in_which_they_differ(invoke: Invoke, tmp_path: Path) -> None:
    for number, rate in enumerate((0.1, 0.3)):
        write_run(tmp_path / "runs" / str(number), finished("er", faa=40.0 + number, lr=rate))
    write_run(tmp_path / "runs" / "unfinished", finished())
    (tmp_path / "runs" / "unfinished" / "result.json").unlink()
    done = invoke("table", "runs")
    assert "41.0  runs/1 lr=0.3" in done.out
    assert "runs/unfinished: not finished" in done.out
    assert "er lr=0.3" in done.out


def test_a_table_of_stored_results_and_of_nothing(invoke: Invoke, tmp_path: Path) -> None:
    store(tmp_path / "results.json", [finished("er")])
    assert "er" in invoke("table", "results.json").out
    (tmp_path / "empty").mkdir()
    assert invoke("table", "empty").code == 2
    assert "remnant table runs" in invoke("table").err


def test_a_wide_table_has_a_column_for_each_benchmark(invoke: Invoke, tmp_path: Path) -> None:
    for number, (method, name) in enumerate((m, n) for m in ("er", "aer") for n in ("digits", "other")):
        write_run(tmp_path / "runs" / str(number), finished(method, faa=40.0 + number, name=name))
    done = invoke("table", "runs", "--wide", "--table", "wide.md")
    assert (tmp_path / "wide.md").read_text().splitlines() == [
        "| method | digits, symmetric:0.4 | other, symmetric:0.4 |",
        "| --- | --- | --- |",
        "| aer | **42.0** | **43.0** |",
        "| er | 40.0 | 41.0 |",
    ]
    assert [line.split() for line in done.out.splitlines()[1:3]] == [
        ["aer", "42.0", "43.0"], ["er", "40.0", "41.0"],
    ]  # fmt: skip


def test_tables_of_documents_are_updated(invoke: Invoke, tmp_path: Path) -> None:
    store(tmp_path / "results.json", [finished("er")])
    (tmp_path / "a.md").write_text("<!-- table: results.json metric=faa -->\n<!-- /table -->\n")
    (tmp_path / "b.md").write_text("nothing\n")
    assert invoke("table", "--update", "a.md", "b.md").out == "a.md: updated\nb.md: unchanged\n"
    assert "| er | 50.0 |" in (tmp_path / "a.md").read_text()


def test_the_results_of_compare_are_those_of_run(invoke: Invoke, tmp_path: Path) -> None:
    folder = Path(invoke("run", "-q", "--method", "er", *SMALL, "--out", "one").out.strip())
    invoke("compare", "--methods", "er", "--seeds", "0", *SMALL, "--out", "many")
    one, many = (
        json.loads((tmp_path / out / folder.name / "result.json").read_text()) for out in ("one", "many")
    )
    assert one["accuracy"] == many["accuracy"]
    assert one["files"] == many["files"]


def test_a_finished_run_that_cannot_be_read_is_an_error_instead_of_a_table_without_it(tmp_path: Path) -> None:
    cell = Cell(tiny_config(), state="finished", folder=tmp_path)
    with pytest.raises(RemnantError, match="expected readable results of finished runs"):
        finished_runs([cell])
