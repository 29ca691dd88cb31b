"""The commands learn, predict, export and audit."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from cli_helpers import Invoke
from learner_helpers import small_learner
from own_files import table_of_images, write_folder
from PIL import Image

from remnant.learner.saved import read_learner


@pytest.fixture
def home(invoke: Invoke) -> Path:
    """A folder with a saved learner and two images."""
    small_learner().save("model")
    Path("photos/=a b").mkdir(parents=True)
    Image.new("RGB", (30, 20), (200, 0, 0)).save("photos/=a b/ä.png")
    Image.new("L", (9, 9), 7).save("photos/grey.jpg")
    return Path()


def test_predict_prints_a_table_of_all_images_in_a_folder(home: Path, invoke: Invoke) -> None:
    done = invoke("predict", "model", "photos")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["path"] for row in rows] == ["photos/=a b/ä.png", "photos/grey.jpg"]
    assert {row["label"] for row in rows} <= {"4", "7"}
    assert all(0.5 <= float(row["confidence"]) <= 1 for row in rows)


def test_a_file_that_is_no_image_is_skipped_with_an_exit_status(home: Path, invoke: Invoke) -> None:
    Path("photos/bad.png").write_text("no image")
    done = invoke("predict", "model", "photos", "--format", "json")
    assert done.code == 1
    assert len(json.loads(done.out)) == 2
    assert "skipped photos/bad.png" in done.err


def test_learn_leaves_the_state_untouched_and_lists_suspects(home: Path, invoke: Invoke) -> None:
    small_learner(labels=("4", "7")).save("model")
    for name in ("7", "cat"):
        Path(f"more/{name}").mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (9, 9), (i * 90, 0, 0)).save(f"more/{name}/{i}.png")
    before = {path.name: path.read_bytes() for path in Path("model").iterdir()}
    Path("more/cat/bad.png").write_text("no image")
    done = invoke("learn", "model", "folder:more", "-o", "new", "--data-dir", "cache")
    assert done.code == 0, done.err
    assert "learned 4 samples (1 left out); 3 classes" in done.out
    assert "suspect labels among all 12 samples" in done.out
    assert "left out: cat/bad.png: not an intact image: another kind of file" in done.err
    assert {path.name: path.read_bytes() for path in Path("model").iterdir()} == before
    assert "more/cat/1.png" in Path("new/suspects.csv").read_text()
    assert invoke("learn", "model", "folder:more", "-o", "model").code == 2


def test_settings_that_may_differ_between_tasks_can_be_changed(home: Path, invoke: Invoke) -> None:
    small_learner(labels=("4", "7")).save("model")
    table = table_of_images(Path("more"), ["4", "7", "4", "7"])
    words = ("learn", "model", f"table:{table}", "-o", "new", "--data-dir", "cache")
    done = invoke(*words, "epochs=4", "lr=0.02")
    assert done.code == 0, done.err
    before, after = (read_learner(Path(name)).settings for name in ("model", "new"))
    assert after == before | {"epochs": 4, "lr": 0.02}


def test_learn_replaces_a_learner_only_if_asked_for(home: Path, invoke: Invoke) -> None:
    small_learner(labels=("4", "7")).save("model")
    small_learner(labels=("4", "7")).save("old")
    before = Path("old/learner.safetensors").read_bytes()
    table = table_of_images(Path("more"), ["4", "7", "4", "7"])
    words = ("learn", "model", f"table:{table}", "-o", "old", "--data-dir", "cache")
    done = invoke(*words)
    assert done.code == 2
    assert "old: expected a new folder, but a learner is saved in it" in done.err
    assert Path("old/learner.safetensors").read_bytes() == before
    assert invoke(*words, "--force").code == 0
    assert Path("old/suspects.csv").is_file()


def test_learn_says_how_many_labels_the_network_predicts(home: Path, invoke: Invoke) -> None:
    small_learner(labels=("4", "7")).save("model")
    table = table_of_images(Path("more"), ["4", "7", "truck"] * 2)
    words = ("learn", "model", f"table:{table}", "--data-dir", "cache", "lr=1e-9", "epochs=1")
    done, quiet = invoke(*words, "-o", "new"), invoke(*words, "-o", "quiet", "-q")
    rows = csv.DictReader(io.StringIO(Path("new/suspects.csv").read_text()))
    right = sum(row["given"] == row["suggested"] for row in rows if row["task"] == "2")
    assert f"the network predicts the given label of {right} of 6 new samples\n" in done.out
    assert "warning: the network predicts the given label of only 0 of 2 samples of" in done.err
    assert (quiet.out, quiet.err) == ("quiet\n", done.err)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("buffer_size=7", "buffer_size: expected one of the settings that may differ between tasks"),
        ("folder=x", "folder: expected one of the settings that may differ between tasks"),
        ("net=small:8", "net: expected one of the settings that may differ between tasks"),
        ("head=3", "head: expected one of the settings that may differ between tasks"),
        ("epochz=7", "did you mean 'epochs'?"),
        ("--epochs=7", "got --epochs: write epochs=7"),
        ("epochs", "expected key=value, got 'epochs'. Write settings as lr=0.1."),
        ("lr=fast", "lr: expected a valid number, got 'fast'"),
    ],
)
def test_other_settings_of_a_further_task_are_refused(
    word: str, message: str, home: Path, invoke: Invoke
) -> None:
    done = invoke("learn", "model", "folder:photos", word, "-o", "new")
    assert done.code == 2
    assert message in done.err
    assert not Path("new").exists()


def test_photos_are_predicted_by_the_square_in_their_centre(home: Path, invoke: Invoke) -> None:
    for side in ((30, 8), (8, 8)):  # black, with a red square in the centre
        photo = Image.new("RGB", side, (0, 0, 0))
        photo.paste((200, 0, 0), (side[0] // 2 - 4, 0, side[0] // 2 + 4, 8))
        photo.save(f"{side[0]}.tif")
    wide, square = json.loads(invoke("predict", "model", "30.tif", "8.tif", "--format", "json").out)
    assert wide | {"path": ""} == square | {"path": ""}


def test_export_writes_a_model_and_its_card(home: Path, invoke: Invoke) -> None:
    assert "model card" in invoke("export", "model", "--format", "safetensors", "-o", "a.safetensors").out
    assert Path("a.safetensors").exists()
    assert Path("a.safetensors.md").exists()


def test_an_export_to_onnx_says_beforehand_that_it_takes_long(
    home: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remnant.learner.export.export", lambda *given: "written")
    done = invoke("export", "model", "-o", "a.onnx")
    assert (done.out, "may take a minute" in done.err) == ("written\n", True)


def test_a_missing_package_for_onnx_is_the_only_thing_that_export_says(
    home: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    done = invoke("export", "model", "-o", "a.onnx")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("remnant: expected the packages for ONNX, but onnxruntime is not installed")
    assert "minute" not in done.err


def test_export_overwrites_files_only_if_asked_for(home: Path, invoke: Invoke) -> None:
    words = ("export", "model", "--format", "safetensors", "-o")
    Path("mine.png").write_text("mine")
    Path("b.safetensors.md").write_text("mine")
    for name in ("mine.png", "b.safetensors"):
        done = invoke(*words, name)
        assert done.code == 2
        assert "add --force" in done.err
    assert Path("mine.png").read_text() == Path("b.safetensors.md").read_text() == "mine"
    assert invoke(*words, "b.safetensors", "--force").code == 0


def test_learn_says_which_samples_and_columns_it_does_not_use(home: Path, invoke: Invoke) -> None:
    table = table_of_images(
        Path("more"), ["4", "7", "4", "7"], split=["", "", "test", ""], task=[1, 2, 2, 2], note=["x"] * 4
    )
    small_learner(labels=("4", "7")).save("model")
    done = invoke("learn", "model", f"table:{table}", "-o", "new", "--data-dir", "cache")
    assert done.code == 0, done.err
    assert "note: samples of the test split, which are not learned: 1" in done.err
    assert "note: the column task is not used" in done.err
    assert "note: columns that are not used: 'note'" in done.err


def test_an_audit_overwrites_nothing_but_an_earlier_page(invoke: Invoke) -> None:
    table = table_of_images(Path("photos"), ["a", "b"] * 4)
    before = table.read_bytes()
    for file in (table, Path("photos/images/0.png"), Path("photos")):
        done = invoke("audit", f"table:{table}", "net=small:4", "epochs=2", "-o", str(file))
        assert done.code == 2
        assert "expected a new file or an earlier page" in done.err
    assert table.read_bytes() == before


@pytest.mark.parametrize("words", [("--method", "gdumb"), ("--method", "spr"), ("--method", "cnll")])
def test_an_audit_by_a_method_that_judges_no_labels_is_refused_before_training(
    words: tuple[str, ...], invoke: Invoke
) -> None:
    write_folder(Path("photos"), {"cat": 6, "dog": 6})
    done = invoke("audit", "folder:photos", "net=small:4", *words, "--data-dir", "cache")
    assert done.code == 2
    assert "expected one that trains on the stream itself" in done.err
    assert "all work except gdumb, gdumb+coteaching, gdumb+dividemix, spr, cnll, cnll.unlimited." in done.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "nowhere", "photos"),
        ("predict", "model", "nowhere.png"),
        ("predict", "model", "photos", "--format", "xml"),
        ("export", "model", "--format", "xml", "-o", "a"),
        ("export", "model", "--format", "safetensors", "-o", "no/folder/a"),
        ("learn", "nowhere", "photos", "-o", "new"),
        ("learn", "model", "folder:nowhere", "-o", "new"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], home: Path, invoke: Invoke) -> None:
    done = invoke(*words)
    assert done.code in (1, 2)
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.fixture
def audited(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run on a folder, whose page has been written; its decisions change the first sample."""
    monkeypatch.setenv("REMNANT_DATA", "cache")
    write_folder(Path("photos"), {"cat": 6, "dog": 6})
    words = ("folder:photos", "epochs=2", "net=small:4", "batch=8", "buffer_size=8", "-q")
    done = invoke("audit", *words, "--most", "4")
    assert done.code == 0, done.err
    page = Path(done.out.splitlines()[-1])
    assert page.name == "audit.html"
    assert page.read_text().count("data:image/png") == 4
    first = next(csv.DictReader(io.StringIO((page.parent / "suspects.csv").read_text())))
    other = "dog" if first["given"] == "cat" else "cat"
    text = f"id,path,given,decision,label\n{first['id']},{first['path']},{first['given']},wrong,{other}\n"
    Path("decisions.csv").write_text(text)
    return str(page.parent)


def test_decisions_of_an_audit_give_a_table_that_can_be_run(audited: str, invoke: Invoke) -> None:
    done = invoke("audit", "--apply", "decisions.csv", audited, "-o", "labels.csv")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == (
        "labels changed: 1, confirmed: 0, samples left out: 0, left as they are: 11"
    )
    assert done.out.splitlines()[-1] == "labels.csv"
    assert "table:labels.csv" in done.out
    assert invoke("run", "table:labels.csv", "--dry-run", "tasks=1", "net=small:4").code == 0
    assert "it exists" in invoke("audit", "--apply", "decisions.csv", audited, "-o", "labels.csv").err
    assert invoke("audit", "--apply", "decisions.csv", audited, "-o", "labels.csv", "--force").code == 0


def test_an_audit_of_no_run_says_how_to_find_runs(invoke: Invoke) -> None:
    Path("decisions.csv").write_text("")
    for words in (("RUN",), ("--apply", "decisions.csv", "RUN", "-o", "labels.csv")):
        done = invoke("audit", *words)
        assert done.code == 2
        assert done.err.startswith("remnant: RUN: expected ")
        assert done.err.endswith("Find run folders with `remnant runs`.\n")
        assert "cifar100" not in done.err


def test_a_decision_with_a_new_class_is_applied_with_a_note(audited: str, invoke: Invoke) -> None:
    text = Path("decisions.csv").read_text()
    Path("decisions.csv").write_text(f"{text.rpartition(',')[0]},truck\n")
    done = invoke("audit", "--apply", "decisions.csv", audited, "-o", "labels.csv")
    assert (done.code, done.err) == (0, "note: 'truck' becomes a new class\n")
    assert Path("labels.csv").read_text().count(",truck\n") == 1


def test_a_damaged_file_is_left_out_of_the_corrected_labels(invoke: Invoke, tmp_path: Path) -> None:
    write_folder(Path("photos"), {"cat": 6, "dog": 6})
    Path("photos/cat/2.png").write_text("no image")
    words = ("folder:photos", "epochs=2", "net=small:4", "batch=8", "buffer_size=8", "-q")
    run = str(Path(invoke("audit", *words, "--data-dir", "cache").out.strip()).parent)
    Path("decisions.csv").write_text("id,path,given,decision,label\n")
    words = ("--apply", "decisions.csv", run, "--data-dir", "cache", "-o", "labels.csv")
    done = invoke("audit", *words)
    assert done.err == "note: files that cannot be read, and are left out of labels.csv: cat/2.png\n"
    assert len(Path("labels.csv").read_text().splitlines()) == 12
    assert invoke("audit", *words, "--force", "-q").err == ""


def test_a_finished_run_is_audited_again_without_training(audited: str, invoke: Invoke) -> None:
    done = invoke("audit", audited, "-o", "page.html")
    assert "already finished" in done.out
    assert Path("page.html").read_text().count("data:image/png") == 12
    for words in (
        ("--apply", "decisions.csv", audited),
        ("--apply", "decisions.csv", "-o", "labels.csv"),
        ("--apply", "decisions.csv", audited, "epochs=3", "-o", "labels.csv"),
        ("--apply", "nowhere.csv", audited, "-o", "labels.csv"),
        ("--apply", "decisions.csv", "photos", "-o", "labels.csv"),
        ("--apply", "decisions.csv", audited, "-o", "decisions.csv", "--force"),
    ):
        done = invoke("audit", *words)
        assert (done.code, len(done.err.strip().splitlines())) == (2, 1), words
    assert not Path("labels.csv").exists()
