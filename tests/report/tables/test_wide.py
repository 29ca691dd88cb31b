from pathlib import Path

import pytest
from run_folders import finished

from remnant.errors import RemnantError
from remnant.report.tables.grouping import METRICS
from remnant.report.tables.wide import (
    WideTable,
    make_wide_table,
    wide_csv,
    wide_latex,
    wide_markdown,
    wide_text,
)

FAA = METRICS["faa"]
RUNS = [
    *(finished("er", seed, faa) for seed, faa in enumerate((40.0, 50.0))),
    finished("aer", 0, 80.0),
    finished("er", 0, 30.0, name="other"),
]


def table() -> WideTable:
    return make_wide_table(RUNS, FAA)


def test_rows_are_methods_and_columns_are_benchmarks() -> None:
    # Mean of 40 and 50: 45, with an error of sqrt(50) / sqrt(2) = 5; aer was not run on the other.
    assert wide_markdown(table()) == (
        "| method | digits, symmetric:0.4 | other, symmetric:0.4 |\n"
        "| --- | --- | --- |\n"
        "| er | 45.0 ± 5.0 | **30.0** |\n"
        "| aer | **80.0** | - |\n"
    )


def test_methods_with_a_value_on_every_benchmark_come_first_then_the_best() -> None:
    runs = [finished("er", faa=30.0), finished("aer", faa=50.0), finished("abs", faa=40.0)]
    assert list(make_wide_table(runs, FAA).rows) == ["aer", "abs", "er"]
    assert list(make_wide_table(runs, METRICS["seconds"]).rows) == ["er", "aer", "abs"]  # all take a minute


def test_a_method_with_several_settings_has_a_row_for_each() -> None:
    found = make_wide_table([finished("er", lr=0.1), finished("er", lr=0.3), finished("aer")], FAA)
    assert set(found.rows) == {"er lr=0.1", "er lr=0.3", "aer"}


def test_csv_has_means_only() -> None:
    assert wide_csv(table()) == (
        'method,"digits, symmetric:0.4","other, symmetric:0.4"\ner,45.0,30.0\naer,80.0,\n'
    )


def test_latex_is_a_tabular() -> None:
    assert wide_latex(table()).splitlines() == [
        r"\begin{tabular}{lrr}",
        r"method & digits, symmetric:0.4 & other, symmetric:0.4 \\",
        r"er & 45.0 $\pm$ 5.0 & 30.0 \\",
        r"aer & 80.0 & - \\",
        r"\end{tabular}",
    ]


def test_another_suffix_is_an_error() -> None:
    with pytest.raises(RemnantError, match=r"a\.doc: expected a file that ends in \.csv, \.md, \.tex"):
        wide_text(Path("a.doc"), table())
