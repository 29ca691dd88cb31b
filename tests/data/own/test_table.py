from pathlib import Path

import pytest
from own_files import table_of_images, write_table

from remnant.data.own import parse_own_data
from remnant.data.own.listing import Listing
from remnant.data.own.table import parse_table
from remnant.errors import RemnantError


def listing(path: Path) -> Listing:
    return parse_own_data(f"table:{path}").listing


def error(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(RemnantError) as raised:
        _ = parse_own_data(f"table:{path}").spec
    return str(raised.value).removeprefix(str(path))


def test_paths_are_relative_to_the_table(tmp_path: Path) -> None:
    found = listing(table_of_images(tmp_path, ["b", "a", "b"]))
    assert found.images.open(1) == tmp_path / "images" / "1.png"
    assert found.labels == ("b", "a", "b")
    assert (found.is_test, found.truth, found.task, found.left_out) == (None, (), (), {})
    assert found.is_ordered


def test_optional_columns_are_read(tmp_path: Path) -> None:
    columns = {"task": ["x 10", "x 9", "x 9"], "true_label": ["a", "b", "c"], "split": ["train", "", "TEST"]}
    found = listing(table_of_images(tmp_path, ["a", "b", "b"], **columns))
    assert found.task == ("x 10", "x 9", "x 9")
    assert found.truth == ("a", "b", "c")
    assert found.is_test is not None
    assert found.is_test.tolist() == [False, False, True]


@pytest.mark.parametrize(
    "content",
    [
        b"path,label\na b.png,cat\n\"x,y.png\",\"a \"\"dog\"\"\"\n",
        b"\xef\xbb\xbfpath;label\r\na b.png;cat\r\n\r\nx,y.png;\"a \"\"dog\"\"\"\r\n",
        b" label \tpath\n cat\ta b.png\n\"a \"\"dog\"\"\"\tx,y.png",
        b"path,label,\ra b.png,cat,\r\"x,y.png\",\"a \"\"dog\"\"\",\r",
        b"sep=;\r\npath;label\r\na b.png;cat\r\nx,y.png;\"a \"\"dog\"\"\"\r\n",
        b"\n\npath;label;\"taken, by, whom\"\na b.png;cat;\nx,y.png;\"a \"\"dog\"\"\";\n",
    ],
)  # fmt: skip
def test_delimiters_quotes_line_ends_and_a_byte_order_mark(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    found = listing(tmp_path / "t.csv")
    assert found.images.files == ("a b.png", "x,y.png")
    assert found.labels == ("cat", 'a "dog"')


def test_rows_that_cannot_be_used_are_left_out_with_the_reason(tmp_path: Path) -> None:
    rows = [
        ("a.png", "cat", "train"),
        ("b.png", "", ""),
        ("", "cat", ""),
        ("./a.png", "cat", ""),
        ("a.png", "dog", ""),
        ("c.png", "dog", "tset"),
        ("d.png",),
        ("e.png", "dog", "", "more"),
        ("f.png", "dog", ""),
    ]
    found = listing(write_table(tmp_path / "t.csv", ("path", "label", "split"), rows))
    assert found.images.files == ("a.png", "f.png")
    assert found.left_out == {
        "line 8": "1 values instead of 3",
        "line 9": "4 values instead of 3",
        "b.png (line 3)": "no label",
        "line 4": "no path",
        "./a.png (line 5)": "listed before, in line 2",
        "a.png (line 6)": "listed before, in line 2 with the label 'cat'",
        "c.png (line 7)": "split: expected train or test, found 'tset'",
    }


def test_a_missing_task_is_left_out(tmp_path: Path) -> None:
    found = listing(table_of_images(tmp_path, ["a", "b", "a"], task=[1, 2, ""]))
    assert found.left_out == {"images/2.png (line 4)": "no task"}


def test_a_missing_column_is_an_error_that_suggests_the_nearest(tmp_path: Path) -> None:
    text = error(tmp_path / "t.csv", b"path,lable\na.png,cat\n")
    assert text == (
        ": expected the columns path and label, found path, lable: there is no column 'label'; did you mean "
        "'lable'? Rename it in the first line of the table."
    )
    assert "no column 'path'." in error(tmp_path / "t.csv", b"x,label\n1,2\n")
    assert "'label' twice" in error(tmp_path / "t.csv", b"path,label,label\n1,2,3\n")


def test_columns_that_are_not_used_are_noted(tmp_path: Path) -> None:
    found = listing(table_of_images(tmp_path, ["a", "b"] * 2, true_lable=[1] * 4, width=[2] * 4))
    assert found.notes == ("columns that are not used: 'true_lable'; did you mean 'true_label'?, 'width'",)


def test_true_labels_are_used_only_if_all_are_known(tmp_path: Path) -> None:
    found = listing(table_of_images(tmp_path, ["a", "b"] * 2, true_label=["a", "", "b", "b"]))
    assert found.truth == ()
    assert found.notes == ("true labels are not used, because 1 of 4 are missing",)


def test_a_table_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    assert error(path, b"path,label\na.png,caf\xe9\n") == (
        ", line 2: expected text in UTF-8, found the byte 0xe9. Save the table as CSV in UTF-8."
    )
    assert "0xff" in error(path, "path,label\na.png,b\n".encode("utf-16"))
    assert "expected a CSV file with the columns path and label, found no text" in error(path, b"")
    assert "found no images" in error(path, b"path,label\n")
    assert "found only 'x'" in error(path, b"path,label\na.png,x\n")
    assert ", line 2: expected CSV, but " in error(path, b'path,label\n"a.png,x\n')
    huge = error(path, b"path,label\na.png," + b"x" * 200_000 + b"\n")
    assert "line 2: expected CSV, but field larger than field limit" in huge
    path.unlink()
    for place, found in ((path, "No such file"), (tmp_path, "it is not a regular file")):
        with pytest.raises(RemnantError, match=f"expected a CSV file, found: {found}"):
            _ = listing(place)


def test_the_column_of_the_labels_can_be_chosen() -> None:
    table = parse_table("path,label,breed\na.png,1,pug\n", "t.csv", "breed")
    assert table.rows == {2: {"path": "a.png", "label": "1", "breed": "pug"}}
