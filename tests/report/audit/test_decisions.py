import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from audit_runs import HOSTILE, hostile_run, table_run
from own_files import table_of_images

from remnant.errors import RemnantError
from remnant.report.audit.decisions import COLUMNS, read_decisions
from remnant.report.audit.labels import write_labels
from remnant.suspects.table import cell

RUN = hostile_run()
NAMES = [cell(name) for name in HOSTILE]


def written(path: Path, *rows: Sequence[object]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return path


def row(id: int, decision: str, label: str) -> list[object]:
    return [id, cell(RUN.file(id)), NAMES[id // 2], decision, label]


def test_decisions_change_confirm_and_skip_labels(tmp_path: Path) -> None:
    file = written(
        tmp_path / "d.csv",
        row(0, "wrong", NAMES[1]),
        row(2, "right", NAMES[1]),
        row(3, "wrong", HOSTILE[0]),
        row(4, "skip", ""),
    )
    found = read_decisions(file, RUN)
    assert found.labels == {0: 1, 3: 0}
    assert found.confirmed == 1


def test_a_file_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_bytes(
        b"\xef\xbb\xbfid;path;given;decision;label\r\n6;6/${alert(4)} \xc3\xa4.png;cat;Right;cat\r\n"
    )
    assert read_decisions(file, RUN).confirmed == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(0, "skip", ""), [99, "", "cat", "skip", ""]], r"line 3: expected the id of .*hostile-1.*'99'"),
        ([[6, RUN.file(6), "dog", "skip", ""]], r"line 2: expected the given label 'cat' .*found 'dog'"),
        ([[6, "other.png", "cat", "skip", ""]], r"line 2: expected the path .*found 'other.png'"),
        ([row(0, "wrong", "cta")], r"line 2: expected a class of the run .*did you mean 'cat'"),
        ([row(0, "wrong", "")], r"line 2: expected a class of the run as label, found ''"),
        ([row(6, "wrong", "cat")], r"line 2: expected another label than the given one"),
        ([row(6, "right", NAMES[1])], r"line 2: expected the given label with the decision right"),
        ([row(6, "maybe", "cat")], r"line 2: expected the decision wrong, right, drop or skip, .*'maybe'"),
        ([row(6, "drop", "")], r"line 2: expected another decision than drop: .* Write skip"),
        ([row(0, "skip", ""), row(0, "skip", "")], r"line 3: expected one decision .*also in line 2"),
        ([[1, 2]], r"line 2: found 2 values instead of 5"),
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit_is_named(rows: list[list[object]], message: str, tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=message) as error:
        read_decisions(written(tmp_path / "d.csv", *rows), RUN)
    assert "\n" not in str(error.value)


def test_a_hint_ends_with_one_mark(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"; did you mean 'cat'\?$"):
        read_decisions(written(tmp_path / "d.csv", row(0, "wrong", "cta")), RUN)


def test_a_label_that_is_no_class_becomes_one_if_labels_are_texts(tmp_path: Path) -> None:
    table = table_of_images(tmp_path, ["automobile", "dog"] * 4)
    run = table_run(table, tmp_path / "cache", test_share=0)
    given = ["automobile", "dog"] * 4
    lines = [(i, f"images/{i}.png", given[i]) for i in range(8)]
    changes = ("wrong", "truck"), ("wrong", "automobil"), ("wrong", "truck"), ("wrong", "'=1")
    file = written(tmp_path / "d.csv", *((*line, *new) for line, new in zip(lines, changes, strict=False)))
    found = read_decisions(file, run)
    assert found.labels == {0: 2, 1: 3, 2: 2, 3: 4}
    assert found.added == ("truck", "automobil", "=1")
    assert found.notes == (
        "'truck' becomes a new class",
        "'automobil' becomes a new class; did you mean 'automobile'?",
        "'=1' becomes a new class",
    )
    write_labels(tmp_path / "labels.csv", run, found.labels, None, added=found.added)
    again = table_run(tmp_path / "labels.csv", tmp_path / "cache", test_share=0)
    names = [again.data.spec.classes[y] for y in again.observed]
    assert names == ["truck", "automobil", "truck", "=1", *given[4:]]


@pytest.mark.parametrize(("decision", "label"), [("right", "truck"), ("wrong", "")])
def test_a_label_that_is_given_or_missing_is_no_new_class(decision: str, label: str, tmp_path: Path) -> None:
    run = table_run(table_of_images(tmp_path, ["car", "dog"] * 4), tmp_path / "cache", test_share=0)
    with pytest.raises(RemnantError, match=f"expected a class of the run as label, found '{label}'"):
        read_decisions(written(tmp_path / "d.csv", [0, "images/0.png", "car", decision, label]), run)


def test_missing_files_and_columns_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match="expected a CSV file"):
        read_decisions(tmp_path / "none.csv", RUN)
    (tmp_path / "d.csv").write_text("id,path,label\n")
    with pytest.raises(RemnantError, match="found no column 'given'"):
        read_decisions(tmp_path / "d.csv", RUN)
