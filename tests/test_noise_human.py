import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import tiny_data
from publisher import Server, serving
from test_noise import dataset_like, rng
from typer.testing import CliRunner

from remnant.cli_data import app
from remnant.config import resolve
from remnant.data import data_dir, load
from remnant.data.source import Dataset, subset
from remnant.errors import RemnantError
from remnant.noise import Human, survey

TEN = {"aggre": 1, "random1": 2, "random2": 3, "random3": 4, "worse": 5}  # kind -> how far shifted


def asked(name: str, folder: Path) -> Dataset:
    """The labels of a real data set, in random order, as if read from this folder."""
    data = dataset_like(name, rows=4)
    return replace(data, y=rng().permutation(data.y), folder=folder)


def answers(y: np.ndarray) -> dict[str, np.ndarray]:
    """What people might have said of CIFAR-10: labels shifted by a number for each kind."""
    names = {k: k.replace("random", "random_label") if k[-1].isdigit() else f"{k}_label" for k in TEN}
    return {"clean_label": y} | {names[kind]: (y + shift) % 10 for kind, shift in TEN.items()}


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as the published file, or as an .npz, whose names begin with `human_`."""
    if path.suffix == ".npz":
        names = {name: name if name.startswith("clean") else f"human_{name}" for name in arrays}
        np.savez(path, **{names[name]: array for name, array in arrays.items()})
    else:
        torch.save(arrays, path)


@pytest.mark.parametrize("file", ["CIFAR-10_human.pt", "cifar10n_labels.npz"])
@pytest.mark.parametrize("kind", TEN)
def test_each_kind_is_read_from_either_file(tmp_path: Path, kind: str, file: str) -> None:
    data = asked("cifar10", tmp_path)
    write(tmp_path / file, answers(data.y))
    assert np.array_equal(Human(kind)(data, rng()), (data.y + TEN[kind]) % 10)


@pytest.mark.parametrize("file", ["CIFAR-100_human.pt", "cifar100n_labels.npz"])
@pytest.mark.parametrize(
    ("name", "kind", "clean"),
    [("cifar100", "noisy", "clean_label"), ("cifar100-coarse", "coarse", "clean_coarse_label")],
)
def test_cifar100_has_fine_and_coarse_labels(
    tmp_path: Path, name: str, kind: str, clean: str, file: str
) -> None:
    data = asked(name, tmp_path)
    classes = len(data.spec.classes)
    said = {"noisy": "noisy_label", "coarse": "noisy_coarse_label"}[kind]
    write(tmp_path / file, {clean: data.y, said: (data.y + 7) % classes})
    assert np.array_equal(Human(kind)(data, rng()), (data.y + 7) % classes)


def test_the_file_may_lie_beside_the_images(tmp_path: Path) -> None:
    data = asked("cifar10", tmp_path)
    (tmp_path / "cifar-10-batches-py").mkdir()
    write(tmp_path / "cifar-10-batches-py" / "CIFAR-10_human.pt", answers(data.y))
    assert np.array_equal(Human("worse")(data, rng()), (data.y + 5) % 10)


def test_a_subset_gets_the_labels_of_its_own_rows(tmp_path: Path) -> None:
    data = asked("cifar10", tmp_path)
    shifts = np.arange(len(data.y)) % 3
    write(tmp_path / "CIFAR-10_human.pt", answers(data.y) | {"worse_label": (data.y + shifts) % 10})
    part = subset(data, 2, rng(1))
    assert len(part.y) == 20
    assert np.array_equal(Human("worse")(part, rng()), ((data.y + shifts) % 10)[part.index])


def test_the_seed_changes_nothing(tmp_path: Path) -> None:
    data = asked("cifar10", tmp_path)
    write(tmp_path / "CIFAR-10_human.pt", answers(data.y))
    assert np.array_equal(Human("aggre")(data, rng(0)), Human("aggre")(data, rng(1)))


@pytest.mark.parametrize("file", ["CIFAR-10_human.pt", "cifar10n_labels.npz"])
def test_rows_in_another_order_are_refused_with_the_first_that_differs(
    tmp_path: Path, file: str
) -> None:
    data = asked("cifar10", tmp_path)
    other = data.y.copy()
    other[[17, 30]] = (other[[17, 30]] + 1) % 10
    write(tmp_path / file, answers(other))
    names = data.spec.classes
    words = f"in 2 of 40 rows, first in row 17: {names[other[17]]} there, {names[data.y[17]]} here"
    with pytest.raises(RemnantError, match=rf"{file}: its clean_label differs from cifar10 {words}"):
        Human("worse")(data, rng())


def test_a_file_of_other_data_is_refused(tmp_path: Path) -> None:
    data = asked("cifar10", tmp_path)
    write(tmp_path / "CIFAR-10_human.pt", answers(data.y[:30]))
    with pytest.raises(RemnantError, match="each of the 40 training rows of cifar10, found 30"):
        Human("worse")(data, rng())
    write(tmp_path / "CIFAR-10_human.pt", answers(data.y) | {"worse_label": data.y + 5})
    with pytest.raises(RemnantError, match="from 0 to 9, found 5 to 14"):
        Human("worse")(data, rng())


def test_an_array_that_is_not_there_is_named(tmp_path: Path) -> None:
    data = asked("cifar10", tmp_path)
    write(tmp_path / "CIFAR-10_human.pt", {"clean_label": data.y, "worst": data.y})
    with pytest.raises(RemnantError, match=r"expected an array aggre_label.*found clean_label, worst"):
        Human("aggre")(data, rng())


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_a_missing_file_says_where_to_get_it_and_where_to_put_it(tmp_path: Path, name: str) -> None:
    data = asked(name, tmp_path)
    kind, file = {"cifar10": ("worse", "10"), "cifar100": ("noisy", "100")}[name]
    with pytest.raises(RemnantError) as error:
        Human(kind)(data, rng())
    assert f"CIFAR-{file}_human.pt or cifar{file}n_labels.npz in {tmp_path}" in str(error.value)
    assert f"https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/CIFAR-{file}" in str(error.value)
    assert f"remnant data get cifar{file}n --data-dir {tmp_path}" in str(error.value)


def sha256(labels: np.ndarray) -> str:
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Dataset]]:
    """A publisher of made labels on this machine, and the data that they are for."""
    (tmp_path / "published").mkdir()
    (tmp_path / "mine").mkdir()
    data = asked("cifar10", tmp_path / "mine")
    said = answers(data.y)
    write(tmp_path / "published" / "CIFAR-10_human.pt", said)
    with serving(tmp_path / "published") as server:
        made = replace(
            survey.SURVEYS["cifar10"],
            url=f"{server.url}/CIFAR-10_human.pt",
            sha256={name: sha256(labels) for name, labels in said.items()},
        )
        monkeypatch.setitem(survey.BY_NAME, "cifar10n", made)
        yield server, data


def test_human_labels_are_downloaded_once(published: tuple[Server, Dataset]) -> None:
    server, data = published
    folder = data.folder
    assert folder is not None
    words = ["get", "cifar10n", "--data-dir", str(folder)]
    done = CliRunner().invoke(app, words)
    assert "cifar10n: downloaded" in done.output, done.output
    assert np.array_equal(Human("worse")(data, rng()), (data.y + TEN["worse"]) % 10)
    assert "nothing to download" in CliRunner().invoke(app, words).output
    assert server.asked == ["/CIFAR-10_human.pt"]
    assert [path.name for path in folder.iterdir()] == ["CIFAR-10_human.pt"]


@pytest.mark.parametrize("content", ["others", "rubbish", "nothing"])
def test_other_labels_than_the_published_are_refused_and_not_kept(
    published: tuple[Server, Dataset], content: str
) -> None:
    server, data = published
    file = server.folder / "CIFAR-10_human.pt"
    if content == "others":
        write(file, answers(data.y) | {"worse_label": data.y})
    elif content == "rubbish":
        file.write_bytes(b"<html>")
    else:
        file.unlink()
    words = {"others": "expected worse_label with sha256", "rubbish": "expected", "nothing": "could not"}
    with pytest.raises(RemnantError, match=words[content]):
        survey.get(survey.BY_NAME["cifar10n"], data.folder)
    assert data.folder is not None
    assert list(data.folder.iterdir()) == []


def test_an_archive_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "cifar10n_labels.npz").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(RemnantError, match=r"cifar10n_labels\.npz: expected an archive"):
        Human("worse")(asked("cifar10", tmp_path), rng())


def test_objects_in_an_archive_are_left_alone(tmp_path: Path) -> None:
    data = asked("cifar10", tmp_path)
    np.savez(tmp_path / "cifar10n_labels.npz", allow_pickle=True, people=np.array([None]),
             clean_label=data.y, human_worse_label=data.y)  # fmt: skip
    assert np.array_equal(Human("worse")(data, rng()), data.y)


def test_a_kind_must_fit_the_data() -> None:
    with pytest.raises(ValueError, match="unknown kind of human labels 'worst'; did you mean 'worse'"):
        Human("worst")
    for data, kind in (("cifar100", "worse"), ("cifar10", "noisy"), ("digits", "worse")):
        with pytest.raises(RemnantError, match=f"no human labels '{kind}' of {data}.*cifar100: noisy"):
            resolve({"data": data, "noise": f"human:{kind}"})
    with pytest.raises(RemnantError, match="no human labels"):
        Human()(tiny_data(), rng())


def test_it_is_chosen_by_name() -> None:
    config = resolve({"data": "cifar10", "noise": "human:random2"})
    assert config.noise == Human("random2")
    assert "human-random2" in config.run_id("x")


@pytest.mark.data
@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("aggre", 9.01), ("random1", 17.23), ("random2", 18.12), ("random3", 17.64), ("worse", 40.21)],
)
def test_people_err_on_cifar10_as_often_as_published(kind: str, wrong: float) -> None:
    data = load("cifar10", data_dir(None))
    observed = Human(kind)(data, rng())
    assert (observed != data.y).mean() * 100 == pytest.approx(wrong, abs=0.006)
    array = survey.SURVEYS["cifar10"].kinds[kind]
    assert sha256(observed) == survey.SURVEYS["cifar10"].sha256[array]
    part = subset(data, 500, rng())
    assert np.array_equal(Human(kind)(part, rng()), observed[part.index])
