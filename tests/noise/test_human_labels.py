from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from noise_helpers import SHIFTS, annotations, rng, sha256, shuffled, write
from publisher import Server, serving, visible
from typer.testing import CliRunner

from remnant.cli.data import app
from remnant.data.dataset import Dataset
from remnant.errors import RemnantError
from remnant.noise import Human
from remnant.noise.human_labels import DOWNLOADS, HUMAN_LABELS, download


def test_the_file_is_also_found_next_to_the_images(tmp_path: Path) -> None:
    data = shuffled("cifar10", tmp_path)
    (tmp_path / "cifar-10-batches-py").mkdir()
    write(tmp_path / "cifar-10-batches-py" / "CIFAR-10_human.pt", annotations(data.y))
    assert np.array_equal(Human("worse")(data, rng()), (data.y + 5) % 10)


def test_a_missing_array_is_named_in_the_error(tmp_path: Path) -> None:
    data = shuffled("cifar10", tmp_path)
    write(tmp_path / "CIFAR-10_human.pt", {"clean_label": data.y, "worst": data.y})
    with pytest.raises(RemnantError, match=r"expected an array aggre_label.*found clean_label, worst"):
        Human("aggre")(data, rng())


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_error_for_a_missing_file_tells_how_to_download_it(tmp_path: Path, name: str) -> None:
    data = shuffled(name, tmp_path)
    kind, file = {"cifar10": ("worse", "10"), "cifar100": ("noisy", "100")}[name]
    with pytest.raises(RemnantError) as error:
        Human(kind)(data, rng())
    assert f"CIFAR-{file}_human.pt or cifar{file}n_labels.npz in {tmp_path}" in str(error.value)
    assert f"https://github.com/UCSC-REAL/cifar-10-100n/raw/main/data/CIFAR-{file}" in str(error.value)
    assert f"remnant data get cifar{file}n --data-dir {tmp_path}" in str(error.value)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Dataset]]:
    """Serve generated labels from a local server; yield it with the dataset they belong to."""
    (tmp_path / "published").mkdir()
    (tmp_path / "mine").mkdir()
    data = shuffled("cifar10", tmp_path / "mine")
    labels = annotations(data.y)
    write(tmp_path / "published" / "CIFAR-10_human.pt", labels)
    with serving(tmp_path / "published") as server:
        source = replace(
            HUMAN_LABELS["cifar10"],
            url=f"{server.url}/CIFAR-10_human.pt",
            sha256={name: sha256(array) for name, array in labels.items()},
        )
        monkeypatch.setitem(DOWNLOADS, "cifar10n", source)
        yield server, data


def test_human_labels_are_downloaded_once(published: tuple[Server, Dataset]) -> None:
    server, data = published
    folder = data.folder
    assert folder is not None
    arguments = ["get", "cifar10n", "--data-dir", str(folder)]
    done = CliRunner().invoke(app, arguments)
    assert "cifar10n: downloaded" in done.output, done.output
    assert np.array_equal(Human("worse")(data, rng()), (data.y + SHIFTS["worse"]) % 10)
    assert "nothing to download" in CliRunner().invoke(app, arguments).output
    assert server.requests == ["/CIFAR-10_human.pt"]
    assert list(visible(folder)) == ["CIFAR-10_human.pt"]


@pytest.mark.parametrize("content", ["other labels", "no labels", "no file"])
def test_a_download_that_is_not_as_published_raises_and_is_not_kept(
    published: tuple[Server, Dataset], content: str
) -> None:
    server, data = published
    file = server.folder / "CIFAR-10_human.pt"
    if content == "other labels":
        write(file, annotations(data.y) | {"worse_label": data.y})
    elif content == "no labels":
        file.write_bytes(b"<html>")
    else:
        file.unlink()
    messages = {
        "other labels": "expected worse_label with sha256",
        "no labels": "expected",
        "no file": "could not download.*for a manual download, put CIFAR-10_human.pt into",
    }
    with pytest.raises(RemnantError, match=messages[content]):
        download(DOWNLOADS["cifar10n"], data.folder)
    assert data.folder is not None
    assert visible(data.folder) == {}


def test_an_unreadable_npz_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "cifar10n_labels.npz").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(RemnantError, match=r"cifar10n_labels\.npz: expected an archive"):
        Human("worse")(shuffled("cifar10", tmp_path), rng())


def test_object_arrays_in_an_npz_are_ignored(tmp_path: Path) -> None:
    data = shuffled("cifar10", tmp_path)
    np.savez(tmp_path / "cifar10n_labels.npz", allow_pickle=True, annotators=np.array([None]),
             clean_label=data.y, human_worse_label=data.y)  # fmt: skip
    assert np.array_equal(Human("worse")(data, rng()), data.y)
