"""Wide tables: a row for each method and a column for each benchmark, as in papers."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group as Lines, RenderableType
from rich.markup import escape
from rich.table import Table

from remnant.experiment.metrics import mean
from remnant.report.runs import FinishedRun
from remnant.report.tables.formats import latex_row, suffix_of, value_text
from remnant.report.tables.grouping import Metric, RunGroup, Summary, group_runs, summary_of
from remnant.suspects.table import cell


@dataclass(frozen=True)
class WideTable:
    """Summaries of one metric by method and benchmark."""

    metric: Metric
    benchmarks: tuple[str, ...]
    rows: dict[str, dict[str, Summary]]  # method -> benchmark -> mean and error

    def cells(self, best: Callable[[str], str]) -> list[list[str]]:
        """Return the texts of all rows; `best` formats the best value of each column."""
        return [
            [method, *(self._cell(found, benchmark, best) for benchmark in self.benchmarks)]
            for method, found in self.rows.items()
        ]

    def _cell(self, found: dict[str, Summary], benchmark: str, best: Callable[[str], str]) -> str:
        text = value_text(found.get(benchmark))
        means = [row[benchmark].mean for row in self.rows.values() if benchmark in row]
        limit = max(means) if self.metric.higher_is_better else min(means)
        return best(text) if benchmark in found and found[benchmark].mean == limit else text


def make_wide_table(runs: Sequence[FinishedRun], metric: Metric) -> WideTable:
    """Return a wide table, sorted by the mean over its columns; methods without a value come last.

    A method has one row, or one for each of its settings if it has several groups of runs on a benchmark.
    """
    groups = group_runs(runs)
    of_method = [(group.method, group.benchmark) for group in groups]
    repeated = {method for method, benchmark in of_method if of_method.count((method, benchmark)) > 1}
    rows: dict[str, dict[str, Summary]] = {}
    for group in groups:
        if (found := summary_of(group, metric)) is not None:
            rows.setdefault(_title(group, repeated), {})[group.benchmark] = found
    sign = -1 if metric.higher_is_better else 1
    ordered = sorted(rows, key=lambda title: (-len(rows[title]), sign * _mean(rows[title])))
    benchmarks = tuple(dict.fromkeys(group.benchmark for group in groups))
    return WideTable(metric, benchmarks, {title: rows[title] for title in ordered})


def _title(group: RunGroup, repeated: set[str]) -> str:
    return group.title if group.method in repeated else group.method


def _mean(found: dict[str, Summary]) -> float:
    return mean([value.mean for value in found.values()])


def wide_terminal(table: WideTable) -> RenderableType:
    """Return the table for the terminal; the best value of each column is bold."""
    grid = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    grid.add_column("method", no_wrap=True)
    for benchmark in table.benchmarks:
        grid.add_column(escape(benchmark), justify="right")
    for method, *values in table.cells(lambda text: f"[bold]{text}[/]"):
        grid.add_row(escape(method), *values)
    return Lines(grid, f"[dim]{table.metric.title}: mean ± standard error over seeds[/]")


def wide_markdown(table: WideTable) -> str:
    """Return the table in Markdown."""
    header = ["method", *table.benchmarks]
    lines = [header, ["---"] * len(header), *table.cells(lambda text: f"**{text}**")]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def wide_csv(table: WideTable) -> str:
    """Return the means as CSV; without a value, a cell is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["method", *map(cell, table.benchmarks)])
    for method, found in table.rows.items():
        means = [found[benchmark].mean if benchmark in found else None for benchmark in table.benchmarks]
        writer.writerow([cell(method), *means])
    return file.getvalue()


def wide_latex(table: WideTable) -> str:
    """Return the table as a LaTeX tabular."""
    rows = [latex_row(cells) for cells in [["method", *table.benchmarks], *table.cells(str)]]
    columns = f"l{'r' * len(table.benchmarks)}"
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *rows, r"\end{tabular}", ""])


WIDE_FORMATS: dict[str, Callable[[WideTable], str]] = {
    ".csv": wide_csv,
    ".md": wide_markdown,
    ".tex": wide_latex,
}


def wide_text(path: Path, table: WideTable) -> str:
    """Return the table in the format of the file's suffix."""
    return WIDE_FORMATS[suffix_of(path)](table)
