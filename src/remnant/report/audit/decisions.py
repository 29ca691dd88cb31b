"""Decisions about labels, which were downloaded from audit.html as CSV."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from remnant.data.own.table import LABEL, PATH, Row, parse_table, table_text
from remnant.errors import RemnantError, nearest
from remnant.report.audit.samples import AuditedRun, encodable, leaves_out
from remnant.suspects.table import cell

WRONG, RIGHT, DROP, SKIP = "wrong", "right", "drop", "skip"
NO_CLASS = -1  # in the place of a label
COLUMNS = ("id", PATH, "given", "decision", LABEL)


@dataclass(frozen=True)
class Decisions:
    """Labels that are to be changed, samples that are to be left out, and the number of confirmed labels."""

    labels: Mapping[int, int]  # position in the training set -> new label
    confirmed: int
    dropped: frozenset[int] = frozenset()  # positions of samples that belong to no class
    added: tuple[str, ...] = ()  # new classes, whose numbers follow those of the run
    notes: tuple[str, ...] = ()  # what a user should know of the new classes


def read_decisions(file: Path, run: AuditedRun) -> Decisions:
    """Read decisions about the samples of a run; raise RemnantError at the first line that does not fit."""
    table = parse_table(table_text(file, str(file)), str(file))
    if missing := [name for name in COLUMNS if name not in table.columns]:
        raise RemnantError(
            f"{file}: expected the columns {', '.join(COLUMNS)}, found no column {missing[0]!r}. Download "
            "the decisions again."
        )
    for place, why in table.left_out.items():
        raise RemnantError(f"{file}, {place}: found {why}. Download the decisions again.")
    reader = _Reader(run)
    found: dict[int, int | None] = {}  # position -> label
    first: dict[int, int] = {}  # position -> line
    for line, row in table.rows.items():
        try:
            position, label = reader.decision(row)
            if position in first:
                raise ValueError(f"expected one decision about each sample, found {row['id']!r} also in line "
                                 f"{first[position]}. Remove one of them")  # fmt: skip
        except ValueError as error:
            end = "" if str(error).endswith("?") else "."
            raise RemnantError(f"{file}, line {line}: {error}{end}") from error
        first[position], found[position] = line, label
    labels = {position: label for position, label in found.items() if label is not None and label >= 0}
    changed = {position: label for position, label in labels.items() if label != run.observed[position]}
    dropped = frozenset(position for position, label in found.items() if label == NO_CLASS)
    added = tuple(reader.added)
    notes = [f"{name!r:.200} becomes a new class{nearest(name, run.classes).rstrip('.')}" for name in added]
    return Decisions(changed, len(labels) - len(changed), dropped, added, tuple(notes))


class _Reader:
    """Finds the sample and the label of a decision; cells are compared as they are written."""

    def __init__(self, run: AuditedRun) -> None:
        self.run = run
        self.position = {str(run.data.index[doubt.position]): doubt.position for doubt in run.doubts}
        self.added: list[str] = []
        self.number: dict[str, int] = {}
        for i, name in enumerate(run.classes):
            self.number.setdefault(_cell(name), i)
            self.number.setdefault(name.strip(), i)

    def decision(self, row: Row) -> tuple[int, int | None]:
        """Return the position of a sample and its label, None if it was skipped; raise ValueError."""
        position = self.position.get(row["id"])
        if position is None:
            raise ValueError(f"expected the id of a sample of {self.run.id}, found {row['id']!r:.60}")
        given, path = self.run.classes[self.run.observed[position]], self.run.file(position)
        for name, what, value in (("given", "given label", given), (PATH, PATH, path)):
            if row[name] not in (_cell(value), value.strip()):
                raise ValueError(
                    f"expected the {what} {value!r:.200} of sample {row['id']}, found {row[name]!r:.200}: "
                    "the decisions are about another run, or were changed"
                )
        return position, self._label(row, self.run.observed[position])

    def _label(self, row: Row, given: int) -> int | None:
        decision, name = row["decision"].lower(), row[LABEL]
        if decision == SKIP:
            return None
        if decision == DROP:
            self._check_drop()
            return NO_CLASS
        if decision not in (WRONG, RIGHT):
            expected = f"{WRONG}, {RIGHT}, {DROP} or {SKIP}"
            raise ValueError(f"expected the decision {expected}, found {decision!r:.60}")
        if decision == RIGHT and not name:
            return given
        label = self._number(name, may_be_new=decision == WRONG)
        if (label == given) != (decision == RIGHT):
            expected = "the given label" if decision == RIGHT else "another label than the given one"
            raise ValueError(f"expected {expected} with the decision {decision}, found {name!r:.200}")
        return label

    def _number(self, name: str, *, may_be_new: bool) -> int:
        """Return the number of a class; one that the run does not have is added, if labels are texts."""
        if name not in self.number:
            if not (name and may_be_new and leaves_out(self.run)):
                hint = nearest(name, self.run.classes).rstrip(".")
                raise ValueError(f"expected a class of the run as label, found {name!r:.200}{hint}")
            self.number[name] = len(self.run.classes) + len(self.added)
            self.added.append(_plain(name))
        return self.number[name]

    def _check_drop(self) -> None:
        if not leaves_out(self.run):
            raise ValueError(
                f"expected another decision than {DROP}: only a table of image files leaves samples out, and "
                f"the label file of {self.run.data.spec.name} has a line for each. Write {SKIP}"
            )


def _cell(text: str) -> str:
    """Return a text as it is read from a CSV file, without spaces around it."""
    return encodable(cell(text)).strip()


def _plain(text: str) -> str:
    """Return the text of a cell without the mark of one that spreadsheets would take for a formula.

    >>> _plain("'=a"), _plain("'s")
    ('=a', "'s")
    """
    return text[1:] if text[:1] == "'" and cell(text[1:]) == text else text
