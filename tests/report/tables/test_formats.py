import csv
import io
from pathlib import Path

import pytest
from rich.console import Console
from run_folders import finished

from remnant.errors import RemnantError
from remnant.report.tables.formats import comma_separated, latex, markdown, terminal, write_table
from remnant.report.tables.grouping import METRICS, make_table

RUNS = [
    finished("er", 0, 40.0),
    finished("er", 1, 50.0),
    finished("aer-abs", 0, 60.0),
    finished("aer-abs", 1, 71.0),
]
TABLE = make_table(RUNS, [METRICS[name] for name in ("faa", "ff", "purity")])


def printed(table: object) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(table, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_terminal_table_has_means_errors_and_differences_in_80_columns() -> None:
    lines = printed(terminal(TABLE)).splitlines()
    assert max(map(len, lines)) <= 80
    (er,) = (line for line in lines if line.startswith("er "))
    assert "45.0 ± 5.0" in er
    assert "-20.5 ± 0.5" in er  # -20 and -21
    assert er.rstrip().endswith("0-1")


def test_long_titles_are_folded_and_nothing_is_cut_off() -> None:
    runs = [finished("aer-abs+consolidation", s, 50.0, lr=r, schedule={"name": "alternate"}, net={"width": r})
            for s in (0, 1) for r in (0.1, 0.003)]  # fmt: skip
    text = printed(terminal(make_table(runs, TABLE.metrics)))
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text
    assert "…" not in text
    assert text.count("50.0 ± 0.0") == 2


def test_markdown_has_a_header_a_rule_and_a_row_per_method() -> None:
    assert markdown(TABLE).splitlines() == [
        "digits, symmetric:0.4:",
        "",
        "| method | accuracy | forgetting | purity | difference to aer-abs | seeds |",
        "| --- | --- | --- | --- | --- | --- |",
        "| aer-abs | 65.5 ± 5.5 | 10.0 ± 0.0 | 80.0 ± 0.0 |  | 0-1 |",
        "| er | 45.0 ± 5.0 | 10.0 ± 0.0 | 80.0 ± 0.0 | -20.5 ± 0.5 | 0-1 |",
    ]


def test_csv_can_be_read_back() -> None:
    best, er = csv.DictReader(io.StringIO(comma_separated(TABLE)))
    assert (best["method"], best["to_best"], best["values"]) == ("aer-abs", "", "60.0 71.0")
    assert (float(er["faa"]), float(er["faa_error"]), float(er["to_best_error"])) == (45.0, 5.0, 0.5)


def test_latex_escapes_what_has_a_meaning_in_latex() -> None:
    table = make_table(
        [finished("er", faa=40.0, net={"my_width": 8}), finished("er", faa=50.0)], TABLE.metrics[:1]
    )
    text = latex(table)
    assert r"my\_width" in text
    assert r"$-$10.0" in text
    assert r"\pm" in latex(TABLE)


def test_the_suffix_of_the_file_chooses_the_format(tmp_path: Path) -> None:
    write_table(tmp_path / "table.md", TABLE)
    assert (tmp_path / "table.md").read_text() == markdown(TABLE)
    with pytest.raises(RemnantError, match=r"\.csv, \.md, \.tex"):
        write_table(tmp_path / "table.xls", TABLE)
