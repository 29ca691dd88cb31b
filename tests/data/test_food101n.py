import json
from pathlib import Path

import food_files
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from remnant.cli import app
from remnant.data import DATA, get, load, subset
from remnant.data.dataset import UNKNOWN, Dataset, MemoryMapped
from remnant.data.food101n import CLASSES
from remnant.data.images import read_image
from remnant.errors import RemnantError
from remnant.noise import Given, Symmetric, check_clean
from remnant.stream import Stream, make_stream

SPLIT = [20, 20, 20, 20, 21]
HOME = "Food-101N_release"


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the published folder, with few photos."""
    food_files.write_food(tmp_path / HOME)
    return tmp_path / HOME


def stream_of(data: Dataset) -> Stream:
    return make_stream(data, Given()(data, rng()), range(101), SPLIT, 0.0, rng())


def test_there_are_101_classes() -> None:
    assert len(set(CLASSES)) == 101
    assert [CLASSES[c] for c in (0, 20, 40, 60, 80, 100)] == [
        *("apple_pie", "chicken_wings", "french_fries", "lobster_bisque", "pulled_pork_sandwich"),
        "waffles",
    ]


def test_photos_are_in_the_order_of_the_list(home: Path) -> None:
    is_clean = food_files.write_food(home)
    data = load("food101n", home.parent)
    assert [CLASSES[c] for c in data.y] == [key.split("/")[0] for key in is_clean]
    assert (data.published, data.index.tolist()) == (21, list(range(21)))
    x = data.train.take(torch.tensor([4, 0]))
    assert x.shape == (2, 3, 224, 224)
    assert np.array_equal(x[0].numpy(), read_image(food_files.photo(home, list(is_clean)[4]), 224))


def test_the_true_label_is_the_given_label_or_unknown(home: Path) -> None:
    data = load("food101n", home.parent)
    assert data.truth is not None
    assert (data.truth == data.y).tolist() == [True, True, False] * 7
    assert set(data.truth[2::3]) == {UNKNOWN}


@pytest.mark.parametrize(("name", "count"), [("food101n", 14), ("food101n-val", 21)])
def test_the_test_split_has_the_clean_samples_or_all(home: Path, name: str, count: int) -> None:
    data = load(name, home.parent)
    assert len(data.test) == len(data.test_y) == count
    assert data.test_y.min() >= 0
    last = data.test.take(torch.tensor([count - 1]))[0]
    key = f"waffles/vw{1 if name == 'food101n' else 2}.jpg"
    assert np.array_equal(last.numpy(), read_image(food_files.photo(home, key), 224))


def test_the_three_datasets_share_decoded_images(home: Path) -> None:
    for name in ("food101n", "food101n-val"):
        load(name, home.parent)
    food_files.write_food101(home.parent / "food-101")
    clean = load("food101n-clean", home.parent)
    assert len(clean.test_y) == 14
    found = sorted(folder.name.rpartition("-")[0] for folder in home.parent.glob("food101*-????????????"))
    assert found == ["food101-test", "food101n-train", "food101n-val"]


def test_the_data_folder_may_be_the_published_one(home: Path) -> None:
    assert len(load("food101n", home).y) == 21
    food_files.write_food101(home.parent / "food-101")
    assert len(load("food101n-clean", home).test_y) == 14


def test_missing_files_are_an_error_with_download_instructions(home: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RemnantError, match=r"expected the folders images and meta.*kuanghuei\.github"):
        load("food101n", tmp_path / "empty")
    with pytest.raises(RemnantError, match=r"data\.vision\.ee\.ethz\.ch.*food101n-val do not need them"):
        load("food101n-clean", home.parent)
    with pytest.raises(
        RemnantError, match=r"food101n cannot be downloaded automatically: download it from https://kuanghuei"
    ):
        get("food101n", home.parent)


@pytest.mark.parametrize(
    ("file", "lines", "expected"),
    [
        ("classes.txt", ["class_name", *CLASSES[1:]], r"found 100, which differ in apple_pie"),
        ("classes.txt", CLASSES, r"found 100, which differ in apple_pie"),
        ("verified_train.tsv", ["pho/a.jpg\t1"], "line 1: expected the header class_name/key and verif"),
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
        (
            "verified_val.tsv",
            ["class_name/key\tverification_label", "pho/../a\t1"],
            "separated by one slash",
        ),
        ("verified_val.tsv", [], "found an empty file"),
    ],
)
def test_a_list_of_another_format_is_an_error(home: Path, file: str, lines: list[str], expected: str) -> None:
    food_files.write_list(home, file, lines)
    with pytest.raises(RemnantError, match=expected):
        load("food101n", home.parent)


def test_a_subset_goes_by_the_given_label_and_stays_on_disk(home: Path) -> None:
    data = subset(load("food101n", home.parent), 2, rng())
    assert np.bincount(data.y, minlength=101).max() == 2
    assert len(data.y) == 14
    assert isinstance(data.train, MemoryMapped)
    assert np.array_equal(data.truth == data.y, data.index % 3 < 2)
    assert len(subset(load("food101n", home.parent), 3, rng()).y) == 21  # including mislabelled samples


def test_a_missing_photo_is_skipped_with_its_label(home: Path) -> None:
    food_files.photo(home, "apple_pie/va0.jpg").unlink()
    data = load("food101n", home.parent)
    expected = [dish for dish in food_files.DISHES for _ in range(2)][1:]
    assert [CLASSES[label] for label in data.test_y] == expected
    assert [*data.skipped] == [f"{home.name}/images/apple_pie/va0.jpg"]


def test_the_stream_has_the_verified_labels(home: Path) -> None:
    stream = stream_of(load("food101n", home.parent))
    assert (stream.truth == stream.observed).tolist() == [True, True, False] * 7
    assert stream.observed.min() >= 0


def test_unknown_labels_stay_unknown_in_any_class_order(home: Path) -> None:
    data = load("food101n", home.parent)
    sizes = [101 - 60, 20, 20, 20]
    stream = make_stream(data, data.y, range(100, -1, -1), sizes, 0.0, rng())
    assert (stream.truth[2::3] == UNKNOWN).all()
    assert stream.truth[0] == stream.observed[0] == 100


def test_no_noise_is_added_to_noisy_labels(home: Path) -> None:
    data = load("food101n", home.parent)
    with pytest.raises(RemnantError, match="true labels of food101n differ from its labels"):
        check_clean(Symmetric(0.5), data.spec.name, is_clean=data.is_clean, has_truth=True)
    check_clean(Given(), "food101n", is_clean=data.is_clean, has_truth=False)


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words), catch_exceptions=True)
    return done.exit_code, done.output + str(done.exception or "")


TINY = [
    *("data=food101n", "noise=given", "split=[20,20,20,20,21]", "net=resnet34-224:2", "epochs=2"),
    *("buffer_size=6", "batch=4", "lr=0.01"),
]


def test_a_run_reports_skipped_files(home: Path, tmp_path: Path) -> None:
    food_files.photo(home, "pho/p0.jpg").write_bytes(b"damaged")
    food_files.photo(home, "steak/vs0.jpg").unlink()
    where = ["--data-dir", str(tmp_path), "--out", str(tmp_path / "runs")]
    code, output = run("run", *TINY, *where, "--strict")
    assert code == 1
    assert "first: Food-101N_release" in output
    assert not (tmp_path / "runs").exists()
    code, output = run("run", *TINY, *where)
    assert code == 0, output
    (folder,) = (tmp_path / "runs").iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert list(result["skipped"]) == [f"{HOME}/images/pho/p0.jpg", f"{HOME}/images/steak/vs0.jpg"]
    assert f"left out: {HOME}/images/pho/p0.jpg: not an intact image: another kind of file" in output
    assert result["buffer"]["purity"] == pytest.approx(100 * (1 - result["buffer"]["noisy"] / 6))
    assert len(result["accuracy"]) == 5
    assert "strict" not in (folder / "config.toml").read_text()


def test_the_check_command_reads_every_photo(home: Path, tmp_path: Path) -> None:
    code, output = run("data", "check", "food101n", "--data-dir", str(tmp_path))
    assert code == 0, output
    assert f"{home}/meta/verified_val.tsv: ok" in output
    path = food_files.photo(home, "pho/p0.jpg")
    path.write_bytes(path.read_bytes()[:400])
    code, output = run("data", "check", "food101n", "--data-dir", str(tmp_path))
    assert code == 1
    assert f"food101n: {path}: not an intact image" in output
    assert not list(tmp_path.glob("food101n-*"))


def test_given_noise_is_shown_by_given_label(home: Path, tmp_path: Path) -> None:
    words = ["data", "noise", "food101n", "--noise", "given", "--data-dir", str(tmp_path)]
    code, output = run(*words)
    assert code == 0, output
    assert "7 of 21 labels are noisy, 33.33 %" in output
    assert "100 waffles" in output
    assert "there is no transition matrix" in output
    code, output = run(*words, "--plot", str(tmp_path / "noise.svg"))
    assert code == 1
    assert "expected noise with known true labels" in output


@pytest.mark.parametrize(
    ("data", "noise", "expected"),
    [
        ("food101n", "symmetric:0.4", "food101n has noisy labels whose true classes are unknown"),
        ("food101n-val", "none", "Use the noise `given`"),
        ("digits", "given", "published with noisy labels, and digits is not one. Use none"),
    ],
)
def test_noise_that_does_not_fit_the_dataset_is_an_error(data: str, noise: str, expected: str) -> None:
    code, output = run("data", "noise", data, "--noise", noise)
    assert code == 1
    assert expected in output


def test_photos_can_be_augmented_weakly_and_strongly() -> None:
    x = torch.randint(0, 256, (4, 3, 224, 224), dtype=torch.uint8)
    transform = DATA["food101n"].spec.transform
    assert torch.equal(transform.plain(x), x.float() / 255)
    for augment in (transform.augmented, transform.strong):
        assert augment(x, torch.Generator().manual_seed(0)).shape == x.shape
