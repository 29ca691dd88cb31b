import json
from pathlib import Path

import food_files as made
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from remnant.cli import app
from remnant.data import DATA, get, load, subset
from remnant.data.food101n import CLASSES
from remnant.data.pictures import read_picture
from remnant.data.source import UNKNOWN, Dataset, Mapped
from remnant.errors import RemnantError
from remnant.noise import Clean, Given, Symmetric
from remnant.stream import Stream, make_stream

SPLIT = [20, 20, 20, 20, 21]
HOME = "Food-101N_release"


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The published folder, with few photos."""
    made.write_food(tmp_path / HOME)
    return tmp_path / HOME


def stream_of(data: Dataset) -> Stream:
    return make_stream(data, Given()(data, rng()), range(101), SPLIT, 0.0, rng())


def test_there_are_a_hundred_and_one_dishes() -> None:
    assert len(set(CLASSES)) == 101
    assert [CLASSES[c] for c in (0, 20, 40, 60, 80, 100)] == [
        *("apple_pie", "chicken_wings", "french_fries", "lobster_bisque", "pulled_pork_sandwich"),
        "waffles",
    ]


def test_a_photo_is_in_the_row_of_its_line(home: Path) -> None:
    verdicts = made.write_food(home)
    data = load("food101n", home.parent)
    assert [CLASSES[c] for c in data.named] == [key.split("/")[0] for key in verdicts]
    assert (data.published, data.index.tolist()) == (21, list(range(21)))
    x = data.train.take(torch.tensor([4, 0]))
    assert x.shape == (2, 3, 224, 224)
    assert np.array_equal(x[0].numpy(), read_picture(made.photo(home, list(verdicts)[4]), 224))


def test_a_label_is_true_or_its_truth_is_unknown(home: Path) -> None:
    data = load("food101n", home.parent)
    assert data.given is not None
    assert (data.y == data.given).tolist() == [True, True, False] * 7
    assert set(data.y[2::3]) == {UNKNOWN}


@pytest.mark.parametrize(("name", "rows"), [("food101n", 14), ("food101n-val", 21)])
def test_the_test_set_has_the_right_rows_or_all(home: Path, name: str, rows: int) -> None:
    data = load(name, home.parent)
    assert len(data.test) == len(data.test_y) == rows
    assert data.test_y.min() >= 0
    last = data.test.take(torch.tensor([rows - 1]))[0]
    key = f"waffles/vw{1 if name == 'food101n' else 2}.jpg"
    assert np.array_equal(last.numpy(), read_picture(made.photo(home, key), 224))


def test_the_three_data_sets_share_what_is_decoded(home: Path) -> None:
    for name in ("food101n", "food101n-val"):
        load(name, home.parent)
    made.write_food101(home.parent / "food-101")
    clean = load("food101n-clean", home.parent)
    assert len(clean.test_y) == 14
    found = sorted(
        folder.name.rpartition("-")[0] for folder in home.parent.glob("food101*-????????????")
    )
    assert found == ["food101-test", "food101n-train", "food101n-val"]


def test_the_data_folder_may_be_the_published_one(home: Path) -> None:
    assert len(load("food101n", home).y) == 21
    made.write_food101(home.parent / "food-101")
    assert len(load("food101n-clean", home).test_y) == 14


def test_what_is_missing_is_said_with_where_to_get_it(home: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RemnantError, match=r"expected the folders images and meta.*kuanghuei\.github"):
        load("food101n", tmp_path / "empty")
    with pytest.raises(RemnantError, match=r"data\.vision\.ee\.ethz\.ch.*food101n-val do without it"):
        load("food101n-clean", home.parent)
    with pytest.raises(
        RemnantError, match=r"food101n cannot be downloaded: get it at https://kuanghuei"
    ):
        get("food101n", home.parent)


@pytest.mark.parametrize(
    ("file", "lines", "expected"),
    [
        ("classes.txt", ["class_name", *CLASSES[1:]], r"found 100, which differ in apple_pie"),
        ("classes.txt", CLASSES, r"found 100, which differ in apple_pie"),
        ("verified_train.tsv", ["pho/a.jpg\t1"], "line 1: expected the head class_name/key and verif"),
        (
            "verified_train.tsv",
            ["class_name/key\tverification_label", "pho/a.jpg\t2"],
            "line 2: .* 0 or 1",
        ),
        (
            "verified_train.tsv",
            ["class_name/key\tverification_label", "phoo/a\t1"],
            "did you mean 'pho'",
        ),
        ("verified_val.tsv", ["class_name/key\tverification_label", "pho/../a\t1"], "with one slash"),
        ("verified_val.tsv", [], "found an empty file"),
    ],
)
def test_a_list_of_another_kind_is_refused(
    home: Path, file: str, lines: list[str], expected: str
) -> None:
    made.write_list(home, file, lines)
    with pytest.raises(RemnantError, match=expected):
        load("food101n", home.parent)


def test_a_subset_goes_by_the_given_label_and_stays_on_disk(home: Path) -> None:
    data = subset(load("food101n", home.parent), 2, rng())
    assert np.bincount(data.named, minlength=101).max() == 2
    assert len(data.y) == 14
    assert isinstance(data.train, Mapped)
    assert np.array_equal(data.y == data.named, data.index % 3 < 2)
    assert len(subset(load("food101n", home.parent), 3, rng()).y) == 21  # wrong ones among them


def test_a_photo_that_is_not_there_takes_its_label_with_it(home: Path) -> None:
    made.photo(home, "apple_pie/va0.jpg").unlink()
    data = load("food101n", home.parent)
    expected = [dish for dish in made.DISHES for _ in range(2)][1:]
    assert [CLASSES[label] for label in data.test_y] == expected
    assert [*data.skipped] == [f"{home.name}/images/apple_pie/va0.jpg"]


def test_purity_is_what_the_people_said_who_looked(home: Path) -> None:
    stream = stream_of(load("food101n", home.parent))
    assert (stream.truth == stream.observed).tolist() == [True, True, False] * 7
    assert stream.observed.min() >= 0


def test_unknown_stays_unknown_in_any_order_of_classes(home: Path) -> None:
    data = load("food101n", home.parent)
    sizes = [101 - 60, 20, 20, 20]
    stream = make_stream(data, data.named, range(100, -1, -1), sizes, 0.0, rng())
    assert (stream.truth[2::3] == UNKNOWN).all()
    assert stream.truth[0] == stream.observed[0] == 100


@pytest.mark.parametrize("noise", [Clean(), Symmetric(0.5)])
def test_rows_of_unknown_truth_cannot_be_observed(home: Path, noise: Clean | Symmetric) -> None:
    data = load("food101n", home.parent)
    with pytest.raises(RemnantError, match="found rows without one: their true class is not known"):
        make_stream(data, noise(data, rng()), range(101), SPLIT, 0.0, rng())


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words), catch_exceptions=True)
    return done.exit_code, done.output + str(done.exception or "")


TINY = [
    *("data=food101n", "noise=given", "split=[20,20,20,20,21]", "net=resnet34-224:2", "epochs=2"),
    *("buffer=6", "batch=4", "lr=0.01", "-q"),
]


def test_a_run_from_end_to_end_names_what_it_skipped(home: Path, tmp_path: Path) -> None:
    made.photo(home, "pho/p0.jpg").write_bytes(b"damaged")
    made.photo(home, "steak/vs0.jpg").unlink()
    where = ["--data-dir", str(tmp_path), "--out", str(tmp_path / "runs")]
    code, said = run("run", *TINY, *where, "--strict")
    assert code == 1
    assert "2 files could not be read and are left out, the first is skipped Food-101N_release" in said
    assert not (tmp_path / "runs").exists()
    code, said = run("run", *TINY, *where)
    assert code == 0, said
    (folder,) = (tmp_path / "runs").iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert list(result["skipped"]) == [f"{HOME}/images/pho/p0.jpg", f"{HOME}/images/steak/vs0.jpg"]
    assert f"skipped {HOME}/images/pho/p0.jpg: expected a whole picture" in said
    assert result["memory"]["purity"] == pytest.approx(100 * (1 - result["memory"]["wrong"] / 6))
    assert len(result["accuracy"]) == 5
    assert "strict" not in (folder / "config.toml").read_text()


def test_the_check_command_reads_every_photo(home: Path, tmp_path: Path) -> None:
    code, said = run("data", "check", "food101n", "--data-dir", str(tmp_path))
    assert code == 0, said
    assert f"{home}/meta/verified_val.tsv: ok" in said
    path = made.photo(home, "pho/p0.jpg")
    path.write_bytes(path.read_bytes()[:400])
    code, said = run("data", "check", "food101n", "--data-dir", str(tmp_path))
    assert code == 1
    assert f"food101n: {path}: expected a whole picture, found" in said
    assert not list(tmp_path.glob("food101n-*"))


def test_noise_that_came_with_the_data_is_shown_by_given_label(home: Path, tmp_path: Path) -> None:
    words = ["data", "noise", "food101n", "--noise", "given", "--data-dir", str(tmp_path)]
    code, said = run(*words)
    assert code == 0, said
    assert "7 of 21 labels are wrong, 33.33 %" in said
    assert "100 waffles" in said
    assert "there is no transition matrix" in said
    code, said = run(*words, "--plot", str(tmp_path / "noise.svg"))
    assert code == 1
    assert "expected noise that can be drawn" in said


@pytest.mark.parametrize(
    ("data", "noise", "expected"),
    [
        ("food101n", "symmetric:0.4", "nobody knows the right ones, which other noise is made from"),
        ("food101n-val", "none", "Use given"),
        ("digits", "given", "the labels that digits came with are taken to be right. Use none"),
    ],
)
def test_data_and_noise_that_do_not_fit_are_refused(data: str, noise: str, expected: str) -> None:
    code, said = run("data", "noise", data, "--noise", noise)
    assert code == 1
    assert expected in said


def test_photos_can_be_augmented_weakly_and_strongly() -> None:
    x = torch.randint(0, 256, (4, 3, 224, 224), dtype=torch.uint8)
    view = DATA["food101n"].spec.view
    assert torch.equal(view.plain(x), x.float() / 255)
    for seen in (view.augmented, view.strong):
        assert seen(x, torch.Generator().manual_seed(0)).shape == x.shape
