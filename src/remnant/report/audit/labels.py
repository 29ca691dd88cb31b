"""The label file with the corrections of an audit, from which the data can be run again."""

import csv
import io
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from remnant.data import OwnData, load
from remnant.data.dataset import Labels
from remnant.data.images import ImageList
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import write_atomically
from remnant.report.audit.samples import AuditedRun


def write_labels(
    path: Path,
    run: AuditedRun,
    labels: Mapping[int, int],
    data_dir: Path | None,
    dropped: Collection[int] = (),
    added: Sequence[str] = (),
) -> str:
    """Write the labels of a run, some of them corrected, and return the command that uses them.

    `labels` are corrections by position in the training set, and the samples at the positions `dropped` are
    left out. The numbers of the classes `added`, which only a table can have, follow those of the run.

    Files of images are listed in a table with all other samples, and with the column `split` if there are
    test samples; other data get the number of a label in each line, of every sample. There is no command,
    but an empty text, for data that are published with noisy labels: they accept no label file.
    """
    corrected = run.observed.copy()
    for position, label in labels.items():
        corrected[position] = label
    own = run.config.data
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(own, OwnData) and isinstance(own.listing.images, ImageList):
        home = Path(os.path.realpath(path.parent))
        names = [*run.data.spec.classes, *added]
        write_atomically(path, table_file(own, run, [names[y] for y in corrected], home, dropped))
        tasks = "" if added and run.config.tasks != 1 else f" tasks={run.config.tasks}"
        return f"remnant run table:{path}{tasks}"
    write_atomically(path, number_file(run, corrected, data_dir))
    declared = " data.clean=true" if isinstance(own, OwnData) and not own.clean else ""
    return f"remnant run ...{declared} --noise file:{path}" if run.data.is_clean or declared else ""


def check_output(path: Path, run: AuditedRun, decisions: Path, overwrite: bool) -> None:
    """Raise RemnantError if a file would be overwritten, unless that is asked for; sources never are."""
    own, folder = run.config.data, run.folder
    files = [file for file in folder.rglob("*") if file.suffix != ".csv" or file.name == "suspects.csv"]
    sources = [decisions, *files]
    if isinstance(own, OwnData):
        sources.append(Path(own.path))
        if isinstance(images := own.listing.images, ImageList):
            sources += [images.home / file for file in images.files]
    if os.path.realpath(path) in map(os.path.realpath, sources):
        raise RemnantError(f"{path}: expected a new file, got one that is read. Choose another name.")
    if os.path.lexists(path) and not overwrite:
        raise RemnantError(
            f"{path}: expected a new file, but it exists. Choose another name, or add --force."
        )


def table_file(
    own: OwnData, run: AuditedRun, labels: Sequence[str], home: Path, dropped: Collection[int] = ()
) -> bytes:
    """Return a table of the listed files with the labels of the training set; `home` is its folder.

    The samples at the positions `dropped` of the training set are left out, and files that cannot be read.

    Without test samples it has no column `split`, so that a run on it holds some out.
    """
    listing, names = own.listing, list(own.listing.labels)
    for i, label in zip(run.data.index.tolist(), labels, strict=True):
        names[i] = label
    files = [_table_path(listing.images.home / file, home) for file in listing.images.files]
    columns: dict[str, list[str] | tuple[str, ...]] = {
        "path": files,
        "label": names,
    }
    if not own.tests_on_training:
        columns["split"] = ["test" if is_test else "train" for is_test in own.is_test]
    columns |= {"task": listing.task} if listing.task else {}
    columns |= {"true_label": listing.truth} if listing.truth else {}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    left_out = {int(run.data.index[position]) for position in dropped}
    left_out |= {number for number, file in enumerate(listing.images.files) if file in run.data.skipped}
    for number, row in enumerate(zip(*columns.values(), strict=True)):
        if number in left_out:
            continue
        _check_cells(row)
        writer.writerow(row)
    return text.getvalue().encode()


def unread_files(run: AuditedRun) -> list[str]:
    """Return the listed files of a user's images that cannot be read, and are in no corrected table."""
    own = run.config.data
    files = own.listing.images.files if isinstance(own, OwnData) else ()
    return [file for file in files if file in run.data.skipped]


def _table_path(file: Path, home: Path) -> str:
    """Return a path relative to the folder of the table if it is inside; it starts with a dot or a slash."""
    return f"./{file.relative_to(home)}" if file.is_relative_to(home) else str(file)


def _check_cells(row: tuple[str, ...]) -> None:
    """Raise RemnantError if a table would be read with other texts than those written."""
    for text in row:
        if text != text.strip() or any("\ud800" <= character <= "\udfff" for character in text):
            raise RemnantError(
                f"{row[0]!r:.200}: expected names in UTF-8 without spaces at their ends, found {text!r:.200}"
                ", which a table cannot contain. Rename it, and repeat the audit."
            )


def number_file(run: AuditedRun, y: Labels, data_dir: Path | None) -> bytes:
    """Return the number of a label in each line, for all samples of the published training split.

    Samples that the run does not use have their published label; those that cannot be used at all have 0.
    """
    source = run.config.data
    full = load(source, data_dir) if isinstance(source, str | OwnData) else source
    labels = np.zeros(full.published, np.int64)
    labels[full.index] = full.y
    labels[run.data.index] = y
    return "".join(f"{label}\n" for label in labels.tolist()).encode()
