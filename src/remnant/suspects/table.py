"""The table of all samples of a stream, the most doubtful label first, and its file suspects.csv."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from remnant.buffer import Buffer
from remnant.stream import Stream
from remnant.suspects.scores import (
    DEFAULT,
    END_MARGIN,
    MEAN_MARGIN,
    SCORES,
    Evidence,
    Score,
    Sum,
    standardised,
)
from remnant.suspects.threshold import separate


class Suspect(NamedTuple):
    """A sample with its doubt: a row of suspects.csv."""

    id: int  # position in the dataset
    path: str  # file of the sample; empty if it has none
    task: int  # in which it was learned, from 1
    is_suspect: bool
    score: float  # from 0 to 1; lower is more doubtful, below 1/2 is suspect
    given: str  # observed label
    suggested: str  # label that the network predicts at the end of the stream
    in_buffer: bool


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of all samples, in the order of the evidence."""

    id: Tensor  # (n,) positions in the training set
    task: Tensor  # (n,)
    y: Tensor  # (n,) observed labels
    suggested: Tensor  # (n,)
    score: Tensor  # (n,) from 0 to 1
    noise_rate: float  # estimate

    @property
    def is_suspect(self) -> Tensor:
        """Return which labels are suspect, (n,)."""
        return self.score < 0.5

    def order(self) -> Tensor:
        """Return the positions of the samples, the most doubtful first."""
        return self.score.argsort(stable=True)


def scored(evidence: Sequence[Evidence], score: Score | Sum | None = None) -> Scored:
    """Return the scores of the samples of all tasks.

    The score of a sample is (s + t) / 2. s, from 0 to 1, is the logistic function of its value, which is
    standardised among the samples of the same task and observed label; t is 0 for suspect labels, 1 for
    trusted ones.
    """
    score = score or SCORES[DEFAULT]
    y, task = torch.cat([e.statistics.y for e in evidence]), torch.cat([e.task for e in evidence])
    values = torch.cat([standardised(score(e), e.statistics.y) for e in evidence])
    end = torch.cat([END_MARGIN(e) for e in evidence])
    margin = torch.cat([(MEAN_MARGIN if _has_rivals(e) else END_MARGIN)(e) for e in evidence])
    found = separate(values, margin, end, y, task)
    return Scored(
        id=torch.cat([e.statistics.id for e in evidence]),
        task=task,
        y=y,
        suggested=torch.cat([e.suggested for e in evidence]),
        score=(values.sigmoid() + (~found.is_suspect).double()) / 2,
        noise_rate=float(found.noise.mean()),
    )


def _has_rivals(evidence: Evidence) -> bool:
    """Return whether a task has several classes: in training, a single one was compared with past classes."""
    return len(evidence.statistics.y.unique()) > 1


def rows(
    found: Scored, names: Sequence[str], index: Tensor, files: Sequence[str], stored: Tensor
) -> list[Suspect]:
    """Return all samples, the most doubtful first.

    `names` are those of the classes. `index` and `files`, which may be empty, give the position in the
    dataset and the file of each sample of the training set, `stored` the samples in the buffers.
    """
    in_buffer = torch.isin(found.id, stored)
    return [
        Suspect(
            id=int(index[found.id[i]]),
            path=files[int(found.id[i])] if files else "",
            task=int(found.task[i]) + 1,
            is_suspect=bool(found.is_suspect[i]),
            score=float(found.score[i]),
            given=names[int(found.y[i])],
            suggested=names[int(found.suggested[i])],
            in_buffer=bool(in_buffer[i]),
        )
        for i in found.order().tolist()
    ]


def suspects_file(found: Scored, stream: Stream, buffers: Mapping[str, Buffer]) -> bytes:
    """Return the content of suspects.csv for the samples of a stream."""
    stored = torch.cat(
        [torch.empty(0, dtype=torch.long), *(buffer.samples().id for buffer in buffers.values())]
    )
    return csv_file(rows(found, stream.spec.classes, stream.index, stream.files, stored))


def csv_file(table: Sequence[Suspect]) -> bytes:
    """Return the content of suspects.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Suspect._fields)
    for row in table:
        writer.writerow([cell(value) for value in row])
    return text.getvalue().encode(errors="backslashreplace")


def cell(value: object) -> str:
    """Return the text of a cell; a text that spreadsheets would take for a formula starts with '.

    A carriage return, which csv does not quote and which starts a row in a spreadsheet, is escaped.

    >>> [cell(value) for value in (True, 0.25, "cat", "=1+1", chr(13))]
    ['true', '0.25', 'cat', "'=1+1", '\\\\r']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value).replace("\r", "\\r")
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text
