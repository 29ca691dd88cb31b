"""A finished run with its samples, the most doubtful label first.

N training samples.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from remnant.config import Config
from remnant.config.recipe import to_config
from remnant.data import Dataset, OwnData, data_dir as find_data_dir
from remnant.data.dataset import Labels
from remnant.data.images import ImageList
from remnant.errors import RemnantError
from remnant.experiment.build import build_dataset
from remnant.experiment.result import is_finished, read_result
from remnant.methods.registry import METHODS, trains_on_stream
from remnant.settings import read_file
from remnant.suspects.table import Suspect, cell


class Doubt(NamedTuple):
    """A row of suspects.csv: a sample of the training set, and the doubt about its label."""

    position: int  # in the training set
    suggested: int  # number of a class
    score: float
    is_suspect: bool


@dataclass(frozen=True, eq=False)
class AuditedRun:
    """A finished run, the images and observed labels of its training set, and the doubt about them."""

    folder: Path
    config: Config
    data: Dataset
    observed: Labels  # (N,) labels that the run was trained on
    doubts: tuple[Doubt, ...]  # the most doubtful first

    @property
    def id(self) -> str:
        """Return the name of the run folder, which identifies the run."""
        return self.folder.resolve().name

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes, in the order of their numbers."""
        return tuple(map(encodable, self.data.spec.classes))

    @property
    def held_out(self) -> int:
        """Return the number of a user's images that are held out for testing, whose labels are not judged."""
        own = self.config.data
        return len(self.data.test_y) if isinstance(own, OwnData) and own.holds_out else 0

    def file(self, position: int) -> str:
        """Return the file of a sample, or an empty text."""
        return encodable(self.data.files[position]) if self.data.files else ""


def leaves_out(run: AuditedRun) -> bool:
    """Return whether samples can be left out of the label file: it is a table of image files."""
    own = run.config.data
    return isinstance(own, OwnData) and isinstance(own.listing.images, ImageList)


def encodable(text: str) -> str:
    r"""Return a text that can be written in UTF-8: bytes of a file name that cannot are escaped.

    >>> encodable("\udce4.png")
    '\\udce4.png'
    """
    return text.encode(errors="backslashreplace").decode()


def check_method(config: Config) -> None:
    """Raise RemnantError if a method judges no labels, before it is run."""
    if trains_on_stream(config.to_method(), config.epochs):
        return
    others = [name for name, method in METHODS.items() if not trains_on_stream(method, config.epochs)]
    raise RemnantError(
        f"method: expected one that trains on the stream itself, as labels are judged by this training, got "
        f"{config.label}. Use another method, such as --method aer-abs; all work except {', '.join(others)}."
    )


def read_audited(folder: Path, data_dir: Path | None) -> AuditedRun:
    """Read a finished run, and load its data; raise RemnantError if they do not fit together."""
    if not folder.is_dir():
        raise RemnantError(
            f"{folder}: expected the folder of a finished run, found none. Find run folders with `remnant "
            "runs`."
        )
    if not is_finished(folder):
        raise RemnantError(f"{folder}: expected a finished run, found none. Run it: remnant run {folder}")
    file = folder / "suspects.csv"
    if not file.is_file():
        raise RemnantError(
            f"{folder}: expected a run with suspects.csv, found none: {read_result(folder)['method']} does "
            "not train on the stream itself, or the run is of an earlier version. Use another method, such "
            "as --method aer-abs, or repeat the run with --force."
        )
    config = to_config(str(folder), {})
    data, observed = build_dataset(config, find_data_dir(data_dir))
    _check_names(data.spec.classes)
    return AuditedRun(folder, config, data, observed, read_doubts(file, data, observed))


def _check_names(classes: Sequence[str]) -> None:
    """Raise RemnantError if two classes have the same name in a CSV file, such as `=a` and `'=a`."""
    first: dict[str, str] = {}
    for name in classes:
        other = first.setdefault(encodable(cell(name)).strip(), name)
        if other != name:
            raise RemnantError(
                f"expected names of classes that differ in a CSV file, got {other!r} and {name!r}. Rename "
                "one of them."
            )


def read_doubts(file: Path, data: Dataset, observed: Labels) -> tuple[Doubt, ...]:
    """Read suspects.csv; raise RemnantError if its samples are not those of the data."""
    rows = csv.DictReader(io.StringIO(read_file(file).decode(errors="replace"), newline=""))
    try:
        return _doubts(file, rows, data, observed)
    except csv.Error as error:  # a quote that is not closed
        raise RemnantError(
            f"{file}, line {rows.line_num}: expected a row of a table, but {error}. Run it again with "
            "--force."
        ) from error


def _doubts(file: Path, rows: "csv.DictReader[str]", data: Dataset, observed: Labels) -> tuple[Doubt, ...]:
    if rows.fieldnames != list(Suspect._fields):
        raise RemnantError(
            f"{file}: expected the columns {', '.join(Suspect._fields)}. Write it again: remnant run "
            f"{file.parent}"
        )
    names = [encodable(cell(name)) for name in data.spec.classes]
    number = {name: i for i, name in enumerate(names)}
    position = {str(index): i for i, index in enumerate(data.index.tolist())}
    found = []
    for row in rows:
        at = position.get(row["id"], -1)
        path = encodable(cell(data.files[at])) if data.files else ""
        if at < 0 or (row["path"], row["given"]) != (path, names[observed[at]]):
            raise RemnantError(
                f"{file}, line {rows.line_num}: expected a sample of the data, got "
                f"{row['path'] or row['id']:.200} with the label {row['given']!r:.200}: the data "
                "have changed since the run. Run it again."
            )
        try:
            score, is_suspect = float(row["score"]), row["is_suspect"] == "true"
            found.append(Doubt(at, number[row["suggested"]], score, is_suspect))
        except (ValueError, TypeError, KeyError) as error:
            raise RemnantError(
                f"{file}, line {rows.line_num}: expected a score and a suggested class, got "
                f"{row['score']!r:.60} and {row['suggested']!r:.200}. Run it again with --force."
            ) from error
    return tuple(found)
