"""Commands on own data."""

import json
import shutil
from pathlib import Path

import pytest
from cli_helpers import Invoke
from own_files import table_of_images, write_folder

QUICK = ["epochs=2", "batch=4", "net=small:4", "--image-size", "8", "buffer_size=8", "--data-dir", "cache"]


@pytest.fixture
def photos(invoke: Invoke, tmp_path: Path) -> Path:
    return write_folder(tmp_path / "my photos", {"Katze ü": 8, "dog=1": 8, "eel": 8, "fox": 8})


def test_a_folder_is_run_and_what_is_unknown_is_said(invoke: Invoke, photos: Path, tmp_path: Path) -> None:
    (photos / "eel" / "notes.txt").write_text("x")
    (photos / "eel" / "0.png").write_bytes(b"damaged")
    done = invoke("run", "folder:my photos", *QUICK)
    assert done.code == 0, done.err
    assert "24 training and 8 test images of 4 classes, 8 x 8 pixels" in done.out
    assert "left out: eel/notes.txt: not the suffix of an image: .txt" in done.out
    assert "left out: eel/0.png: not an intact image: another kind of file" in done.out
    assert done.out.count("eel/0.png") == 1
    assert "2 left out" not in done.out
    assert "aer-abs on my photos, labels as given, seed 0" in done.out
    assert "held-out share, against the given labels" in done.out
    assert "buffer purity              unknown" in done.out
    assert "samples left out                 2" in done.out
    assert "audit 'folder:my photos' --data-dir cache" in done.out
    assert "--method" not in done.out
    folder = Path(done.out.splitlines()[-1])
    result = json.loads((folder / "result.json").read_text())
    assert result["noise_rate"] is None
    assert set(result["skipped"]) == {"eel/notes.txt", "eel/0.png"}
    assert "already finished" in invoke("run", str(folder), "--data-dir", "cache").out


def test_the_same_content_elsewhere_is_the_same_run(invoke: Invoke, photos: Path, tmp_path: Path) -> None:
    done = invoke("run", f"folder:{photos}", *QUICK, "-q")
    shutil.copytree(photos, tmp_path / "copy")
    again = invoke("run", "folder:copy", *QUICK)
    assert "already finished" in again.out
    assert again.out.splitlines()[-1] == done.out.strip()
    (tmp_path / "copy" / "eel").rename(tmp_path / "copy" / "gnu")  # the same numbers, another name
    other = invoke("run", "folder:copy", *QUICK, "-q")
    assert other.out != done.out


def test_quiet_prints_the_path_of_the_result_only(invoke: Invoke, photos: Path) -> None:
    (photos / "eel" / "notes.txt").write_text("x")
    for words in (("run", "folder:my photos", *QUICK), ("audit", "folder:my photos", *QUICK)):
        done = invoke(*words, "-q")
        assert (done.code, done.err, len(done.out.splitlines())) == (0, "", 1), words
        assert Path(done.out.strip()).exists()
    folder = invoke("run", "folder:my photos", *QUICK, "-q").out.strip()
    done = invoke("learn", folder, "folder:my photos", "-o", "new", "-q")
    assert (done.code, done.out) == (0, "new\n")
    assert {line[:9] for line in done.err.splitlines()} <= {"warning: "}


def test_a_dry_run_does_not_decode(invoke: Invoke, photos: Path, tmp_path: Path) -> None:
    done = invoke("run", "folder:my photos", *QUICK, "--dry-run")
    assert done.code == 0, done.err
    assert not (tmp_path / "cache").exists()
    assert "# data      24 training samples in 2 task(s): [12, 12]" in done.out
    assert "# folder    named when the images are decoded, at the start of the run" in done.out
    assert "# time      about " in done.out


def test_a_check_lists_what_would_be_left_out(invoke: Invoke, photos: Path) -> None:
    done = invoke("data", "check", "folder:my photos", "--data-dir", "cache")
    assert (done.code, done.out) == (
        0,
        "folder:my photos: 24 training and 8 test samples of 4 classes; 0 left out\n",
    )
    shutil.copy(photos / "eel" / "0.png", photos / "fox" / "copy.png")
    (photos / "eel" / "1.png").write_bytes(b"")
    done = invoke("data", "check", "folder:my photos", "--data-dir", "cache")
    assert done.code == 1
    first, note, last = done.out.splitlines()
    assert first.endswith("eel/1.png: left out: not an intact image: another kind of file")
    assert note.endswith("different labels: 1, such as eel/0.png and fox/copy.png")
    assert last.endswith("1 left out")


def test_strict_refuses_data_of_which_something_is_left_out(invoke: Invoke, photos: Path) -> None:
    (photos / "eel" / "0.png").write_bytes(b"damaged")
    done = invoke("run", "folder:my photos", *QUICK, "--strict")
    assert done.code == 2
    assert "1 left out: 1 x not an intact image: another kind of file" in done.err


def test_noise_is_added_only_to_labels_that_are_declared_clean(invoke: Invoke, photos: Path) -> None:
    done = invoke("run", "folder:my photos", *QUICK, "--noise", "symmetric:0.5")
    assert done.code == 2
    assert "data.clean=true" in done.err
    done = invoke("run", "folder:my photos", *QUICK, "--noise", "symmetric:0.5", "data.clean=true")
    assert done.code == 0, done.err
    assert "noisy labels stored              " in done.out
    assert "unknown" not in done.out
    assert "mean over tasks, held-out share" in done.out
    assert "against the given labels" not in done.out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["folder:nothing"], "expected a folder with a folder for each class, found nothing"),
        (["table:nothing.csv"], "expected a CSV file, found: No such file or directory"),
        (["folder:my photos", "tasks=3"], "Give the number of classes of each task: split=[1,1,2]"),
        (["folder:my photos", "tasks=arrival:2"], "needs a table"),
        (["digits", "--image-size", "16"], "only own data has the setting image_size"),
    ],
)
def test_mistakes_are_errors_without_a_traceback(
    invoke: Invoke, photos: Path, words: list[str], line: str
) -> None:
    done = invoke("run", *words)
    assert done.code == 2
    assert line in done.err
    assert "Traceback" not in done.err


SLOW = [
    pytest.param(method, "arrival:3", marks=pytest.mark.slow)
    for method in ("gdumb", "puridiver", "spr", "cnll")
]


@pytest.mark.parametrize(
    ("method", "tasks"), [("aer-abs", "column"), ("aer-abs", "arrival:3"), ("er", "1"), *SLOW]
)
def test_a_table_is_run_with_tasks_by_rows(invoke: Invoke, tmp_path: Path, method: str, tasks: str) -> None:
    labels = ["a", "b"] * 9 + ["c", "a"] * 9  # a occurs in every task
    columns = {"task": ["day 2"] * 18 + ["day 10"] * 18, "true_label": labels}
    table_of_images(tmp_path, labels, **columns)
    done = invoke("run", "table:table.csv", f"tasks={tasks}", "--method", method, *QUICK)
    assert done.code == 0, done.err
    result = json.loads((Path(done.out.splitlines()[-1]) / "result.json").read_text())
    expected = {"column": [["a", "b"], ["a", "c"]], "1": [["a", "b", "c"]],
                "arrival:3": [["a", "b"], ["a", "b", "c"], ["a", "c"]]}  # fmt: skip
    assert [sorted(names) for names in result["classes"]] == expected[tasks]
    assert len(result["accuracy"]) == len(result["classes"])
    assert set(result["accuracy_per_class"]) == {"a", "b", "c"}
    assert result["tested_on"] == "held-out share"
    assert result["noise_rate"] == 0
