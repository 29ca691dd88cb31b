"""Tables of results as text: for the terminal, CSV, Markdown and LaTeX."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Group as Lines, RenderableType
from rich.markup import escape
from rich.table import Table

from remnant.errors import RemnantError
from remnant.experiment.checkpoint import write_atomically
from remnant.report.tables.grouping import ResultTable, Row, Summary, seeds_text
from remnant.suspects.table import cell


def value_text(value: Summary | None, signed: bool = False) -> str:
    """Return a mean with its standard error, or a dash if there is none.

    >>> value_text(Summary(85.46, 1.52, 5)), value_text(Summary(4.06, None, 1), signed=True)
    ('85.5 ± 1.5', '+4.1')
    """
    if value is None:
        return "-"
    text = f"{round(value.mean, 1) + 0.0:{'+' if signed else ''}.1f}"
    return text if value.error is None else f"{text} ± {value.error:.1f}"


def _difference(row: Row) -> str:
    return "" if row.difference is None else value_text(row.difference, signed=True)


def _seeds(row: Row) -> str:
    return seeds_text(list(row.group.runs))


def terminal(table: ResultTable) -> RenderableType:
    """Return the table for the terminal: 80 columns suffice for three metrics.

    In narrower ones, values are wrapped between mean and error; words are never broken.
    """
    blocks: list[RenderableType] = []
    for benchmark, rows in table.rows.items():
        longest = max(len(word) for row in rows for word in row.group.title.split())
        grid = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold", title_justify="left")
        grid.add_column("method", ratio=1, overflow="fold", min_width=longest)
        for metric in table.metrics:
            grid.add_column(metric.title, justify="right")
        grid.add_column("to best", justify="right")
        grid.add_column("seeds", no_wrap=True)
        for row in rows:
            cells = [value_text(row.values[metric.name]) for metric in table.metrics]
            grid.add_row(escape(row.group.title), *cells, _difference(row), _seeds(row))
        blocks += ["", f"[bold]{escape(benchmark)}[/]", grid]
    blocks.append(f"[dim]{_explanation(table)}[/]")
    return Lines(*blocks)


def _explanation(table: ResultTable) -> str:
    first = table.metrics[0].title
    return f"mean ± standard error; to best: difference of {first}, paired by seed"


def markdown(table: ResultTable) -> str:
    """Return the table in Markdown."""
    return "\n\n".join(_markdown_block(table, benchmark) for benchmark in table.rows) + "\n"


def _markdown_block(table: ResultTable, benchmark: str) -> str:
    rows = table.rows[benchmark]
    titles = [m.title for m in table.metrics]
    header = ["method", *titles, f"difference to {table.references[benchmark]}", "seeds"]
    lines = [
        [
            row.group.title,
            *(value_text(row.values[m.name]) for m in table.metrics),
            _difference(row),
            _seeds(row),
        ]
        for row in rows
    ]
    text = [f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *lines]]
    return "\n".join([f"{benchmark}:", "", *text])


def comma_separated(table: ResultTable) -> str:
    """Return the table as CSV: one line per group, with the number and the values of its runs."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    titles = [f"{metric.name}{suffix}" for metric in table.metrics for suffix in ("", "_error")]
    first = table.metrics[0]
    writer.writerow(
        ["benchmark", "method", "settings", "seeds", *titles, "to_best", "to_best_error", "values"]
    )
    for row in (row for rows in table.rows.values() for row in rows):
        group = row.group
        settings = " ".join(f"{key}={value}" for key, value in group.settings.items())
        summaries = [*(row.values[metric.name] for metric in table.metrics), row.difference]
        values = [value for summary in summaries for value in _numbers(summary)]
        of_seeds = " ".join(str(first.of(group.runs[seed])) for seed in sorted(group.runs))
        texts = [cell(text) for text in (group.benchmark, group.method, settings)]
        writer.writerow([*texts, _seeds(row), *values, of_seeds])
    return file.getvalue()


def _numbers(summary: Summary | None) -> list[float | None]:
    return [None, None] if summary is None else [summary.mean, summary.error]


def latex(table: ResultTable) -> str:
    """Return the table as a LaTeX tabular."""
    columns = f"l{'r' * len(table.metrics)}rl"
    titles = ["method", *(metric.title for metric in table.metrics), "to best", "seeds"]
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", latex_row(titles), *_latex_lines(table), r"\end{tabular}", ""]
    )


def _latex_lines(table: ResultTable) -> Iterator[str]:
    width = len(table.metrics) + 3
    for benchmark, rows in table.rows.items():
        yield r"\hline"
        yield rf"\multicolumn{{{width}}}{{l}}{{{_escaped(benchmark)}}} \\"
        for row in rows:
            cells = [value_text(row.values[metric.name]) for metric in table.metrics]
            yield latex_row([row.group.title, *cells, _difference(row), _seeds(row)])


def latex_row(cells: list[str]) -> str:
    """Return a row of a LaTeX tabular."""
    return " & ".join(map(_escaped, cells)) + r" \\"


def _escaped(text: str) -> str:
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return re.sub(r"(^|(?<=\s))-(?=\d)", "$-$", text).replace("±", r"$\pm$")


FORMATS: dict[str, Callable[[ResultTable], str]] = {".csv": comma_separated, ".md": markdown, ".tex": latex}


def write_table(path: Path, table: ResultTable) -> None:
    """Write a table in the format of the file's suffix."""
    write_atomically(path, table_format(path)(table).encode())


def table_format(path: Path) -> Callable[[ResultTable], str]:
    """Return the renderer for the suffix of a file; raise RemnantError if there is none."""
    return FORMATS[suffix_of(path)]


def suffix_of(path: Path) -> str:
    """Return the suffix of a file for a table; raise RemnantError if there is no format for it."""
    if path.suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise RemnantError(f"{path}: expected a file that ends in {known}, got {path.suffix or 'no suffix'}.")
    return path.suffix
