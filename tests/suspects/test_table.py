"""The table of suspects: scores from 0 to 1, its order, and cells that no spreadsheet evaluates."""

import csv
import io

import pytest
import torch
from suspects_helpers import evidence

from remnant.suspects.table import Suspect, cell, csv_file, rows, scored

DOUBTFUL = [-3.0] * 8 + [-2.5] * 2 + [2.0] * 8 + [2.5, 3.0] * 6


def test_a_score_below_one_half_is_suspect_and_lower_is_more_doubtful() -> None:
    found = scored([evidence(DOUBTFUL)])
    assert found.is_suspect.tolist() == [True] * 10 + [False] * 20
    assert (found.score >= 0).all()
    assert (found.score <= 1).all()
    assert found.score[0] < found.score[9] < 0.5 <= found.score[10] < found.score[-1]
    assert found.noise_rate == pytest.approx(1 / 3, abs=0.01)


def test_samples_are_compared_with_those_of_their_own_task() -> None:
    easier = [margin + 2.6 for margin in DOUBTFUL]  # also doubtful below 0
    found = scored([evidence(DOUBTFUL), evidence(easier, [1] * 30, task=1)])
    assert found.score[:30].tolist() == pytest.approx(found.score[30:].tolist())


def test_low_margins_in_training_are_no_doubt_if_the_task_has_one_class_that_was_learned() -> None:
    """In training, its samples can only be compared with past classes, which the network knows already."""
    margins, learned = [margin - 6.0 for margin in DOUBTFUL], [3.0] * 30
    assert not scored([evidence(margins, [5] * 30, end=learned)]).is_suspect.any()
    assert scored([evidence(margins, [5, 6] * 15, end=learned)]).is_suspect.any()


def test_rows_are_in_order_of_doubt_with_names_and_files() -> None:
    found = scored([evidence([1.0, -9.0, 2.0], [0, 1, 1])])
    names, files = ("cat", "dog"), ("a.png", "b.png", "c.png")
    table = rows(found, names, torch.tensor([10, 20, 30]), files, torch.tensor([2]))
    assert [row.id for row in table] == [20, 10, 30]
    first = table[0]
    assert (first.path, first.task, first.given, first.suggested, first.in_buffer) == (
        "b.png",
        1,
        "dog",
        "dog",
        False,
    )
    assert table[2].in_buffer


def test_the_file_is_a_table_whose_cells_are_not_formulas() -> None:
    row = Suspect(3, "=cmd.png", 1, True, 0.125, '@cat, "x"\n', "-dog", False)
    header, found = csv.reader(io.StringIO(csv_file([row]).decode()))
    assert header == ["id", "path", "task", "is_suspect", "score", "given", "suggested", "in_buffer"]
    assert found == ["3", "'=cmd.png", "1", "true", "0.125", '\'@cat, "x"\n', "'-dog", "false"]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx"])
def test_a_text_that_looks_like_a_formula_is_quoted(text: str) -> None:
    assert cell(text) == f"'{text}"


def test_names_that_are_not_text_in_utf_8_are_escaped() -> None:
    assert b"\\udcff.png" in csv_file([Suspect(0, "\udcff.png", 1, False, 0.9, "a", "b", False)])
