"""Images listed in a CSV file with the columns path and label, and optionally task, true_label and split."""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from remnant.data.images import ImageList
from remnant.data.own.listing import Listing, cache_name, class_notes
from remnant.errors import RemnantError, nearest
from remnant.settings import read_file
from remnant.transforms.resizing import upright_crop

if TYPE_CHECKING:
    import _csv

    from remnant.data.own.own_data import OwnData

PATH, LABEL = "path", "label"
OPTIONAL = ("task", "true_label", "split")
SPLITS = {"": False, "train": False, "test": True}  # value of the column split -> is in the test split
DELIMITERS = ",;\t"

Row = Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """The rows of a table by line number, as far as they can be used, and the reasons for the others."""

    columns: tuple[str, ...]
    rows: dict[int, Row]
    left_out: dict[str, str]


def read_table(own: "OwnData") -> Listing:
    """List the images of a CSV file, whose paths are absolute or relative to the folder of the file."""
    file = Path(os.path.realpath(own.path))
    table = _sorted_out(parse_table(table_text(file, own.path), own.path, own.label_column), own.label_column)
    rows = list(table.rows.values())
    is_test = np.array([SPLITS[row.get("split", "").lower()] for row in rows], bool)
    truth = tuple(row.get("true_label", "") for row in rows)
    labels = tuple(row[own.label_column] for row in rows)
    notes = [*_unused_columns(table.columns, own.label_column), *class_notes(labels)]
    if any(truth) and not all(truth):
        notes.append(f"true labels are not used, because {truth.count(''):,} of {len(truth):,} are missing")
    home = file.parent
    return Listing(
        images=ImageList(cache_name("table", file), home, tuple(row[PATH] for row in rows), upright_crop),
        labels=labels,
        is_test=is_test if is_test.any() else None,
        truth=truth if all(truth) else (),
        task=tuple(row["task"] for row in rows) if "task" in table.columns else (),
        is_ordered=True,
        left_out=table.left_out,
        notes=tuple(notes),
    )


def table_text(file: Path, path: str) -> str:
    """Return the text of a CSV file; `path` is its name in error messages."""
    try:
        content = read_file(file)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise RemnantError(
            f"{path}, line {line}: expected text in UTF-8, found the byte 0x{content[error.start]:02x}. Save "
            "the table as CSV in UTF-8."
        ) from error
    except OSError as error:
        raise RemnantError(f"{path}: expected a CSV file, found: {error.strerror}.") from error


def parse_table(text: str, path: str, label: str = LABEL) -> Table:
    """Return the rows of a CSV text; the delimiter is that of its header.

    A first line such as `sep=;`, which spreadsheets write, is skipped.
    """
    before, line, after = text.partition("\n")
    if before.strip().lower() in {f"sep={delimiter}" for delimiter in DELIMITERS}:
        text = f"{line}{after}"  # lines keep their numbers
    header = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=lambda mark: (PATH in _cells(header, mark), header.count(mark)))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: dict[int, Row] = {}
    left_out: dict[str, str] = {}
    columns: tuple[str, ...] = ()
    for number, cells in _numbered(reader, path):
        if not columns:
            columns = tuple(cell.strip() for cell in cells)
            _check_columns(columns, path, label)
        elif len(cells) != len(columns):
            left_out[f"line {number}"] = f"{len(cells)} values instead of {len(columns)}"
        else:
            rows[number] = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
    if not columns:
        raise RemnantError(f"{path}: expected a CSV file with the columns {PATH} and {label}, found no text.")
    return Table(columns, rows, left_out)


def _cells(header: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([header], delimiter=delimiter))]
    except csv.Error:
        return []


def _numbered(reader: "_csv.Reader", path: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the rows that are not empty, with the numbers of their lines."""
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise RemnantError(
            f"{path}, line {reader.line_num}: expected CSV, but {error}. Look for a quote that is not closed."
        ) from error


def _check_columns(columns: Sequence[str], path: str, label: str) -> None:
    """Raise RemnantError if a column is missing or occurs twice."""
    found = ", ".join(columns)
    for name in (PATH, label):
        if name not in columns:
            raise RemnantError(
                f"{path}: expected the columns {PATH} and {label}, found {found:.200}: there is no column "
                f"{name!r}{nearest(name, columns)} Rename it in the first line of the table."
            )
    if twice := [name for name, count in Counter(columns).items() if count > 1 and name]:
        raise RemnantError(
            f"{path}: expected each column once, found {twice[0]!r} twice. Rename one of them."
        )


def _unused_columns(columns: Sequence[str], label: str) -> list[str]:
    unused = [name for name in columns if name not in (PATH, label, *OPTIONAL)]
    hints = [f"{name!r}{nearest(name, OPTIONAL).rstrip('.')}" for name in unused]
    return [f"columns that are not used: {', '.join(hints)}"] if hints else []


def _sorted_out(table: Table, label: str) -> Table:
    """Return a table without rows that lack a value, have an unknown split, or list a file again."""
    rows: dict[int, Row] = {}
    left_out = dict(table.left_out)
    first: dict[str, int] = {}  # file -> line that lists it first
    for number, row in table.rows.items():
        file = os.path.normpath(row[PATH])
        empty = [name for name in (PATH, label, "task") if row.get(name) == ""]
        key = f"line {number}" if PATH in empty else f"{row[PATH]} (line {number})"
        if empty:
            left_out[key] = f"no {empty[0]}"
        elif row.get("split", "").lower() not in SPLITS:
            left_out[key] = f"split: expected train or test, found {row['split']!r:.40}"
        elif file in first:
            other = rows[first[file]][label]
            again = "" if other == row[label] else f" with the label {other!r:.60}"
            left_out[key] = f"listed before, in line {first[file]}{again}"
        else:
            first[file] = number
            rows[number] = row
    return Table(table.columns, rows, left_out)
