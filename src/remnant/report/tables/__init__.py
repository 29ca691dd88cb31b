"""Tables of several runs: mean and standard error over seeds, and differences paired by seed."""

from remnant.report.tables.formats import table_format, terminal, write_table
from remnant.report.tables.grouping import METRICS, find_metrics, make_table
from remnant.report.tables.stored import load_runs, merged, read_stored, store
from remnant.report.tables.wide import make_wide_table, wide_markdown, wide_terminal, wide_text

__all__ = [
    "METRICS", "find_metrics", "load_runs", "make_table", "make_wide_table", "merged", "read_stored", "store",
    "table_format", "terminal", "wide_markdown", "wide_terminal", "wide_text", "write_table",
]  # fmt: skip
