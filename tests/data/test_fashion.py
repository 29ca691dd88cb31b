import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from remnant.data.fashion import FASHION_MNIST_FILES, load_fashion_mnist, parse_idx
from remnant.data.files import DataFiles
from remnant.errors import RemnantError


def idx(x: np.ndarray) -> bytes:
    sizes = b"".join(n.to_bytes(4, "big") for n in x.shape)
    return bytes([0, 0, 8, x.ndim]) + sizes + x.tobytes()


def images(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 28, 28), dtype=np.uint8)


def contents(labels: list[int]) -> dict[str, bytes]:
    return {
        "train-images-idx3-ubyte.gz": idx(images(3, seed=0)),
        "train-labels-idx1-ubyte.gz": idx(np.array(labels, np.uint8)),
        "t10k-images-idx3-ubyte.gz": idx(images(2, seed=1)),
        "t10k-labels-idx1-ubyte.gz": idx(np.array([9, 0], np.uint8)),
    }


def write(folder: Path, contents: dict[str, bytes], level: int = 9) -> DataFiles:
    """Write these files and return a description of them as the published files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(gzip.compress(content, level))
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in contents.items()}
    return replace(FASHION_MNIST_FILES, md5=md5)


@pytest.mark.parametrize("place", [".", "fashion-mnist", "FashionMNIST/raw"])
def test_images_and_labels_are_read_from_each_folder_layout(tmp_path: Path, place: str) -> None:
    files = write(tmp_path / place, contents([2, 0, 9]))
    data = load_fashion_mnist(tmp_path, files)
    x = data.train.take(torch.arange(3))
    assert np.array_equal(x.numpy(), images(3, seed=0)[:, None])
    assert np.array_equal(data.test.take(torch.arange(2)).numpy(), images(2, seed=1)[:, None])
    assert [data.spec.classes[y] for y in data.y] == ["pullover", "t-shirt", "ankle-boot"]
    assert data.test_y.tolist() == [9, 0]


def test_the_compression_level_does_not_matter(tmp_path: Path) -> None:
    files = write(tmp_path, contents([2, 0, 9]), level=9)
    write(tmp_path, contents([2, 0, 9]), level=1)
    assert len(load_fashion_mnist(tmp_path, files).train) == 3


def test_a_truncated_file_is_an_error_with_the_repair_command(tmp_path: Path) -> None:
    files = write(tmp_path, contents([2, 0, 9]))
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RemnantError) as error:
        load_fashion_mnist(tmp_path, files)
    message = str(error.value)
    assert f"{path}: expected md5 {files.md5[path.name]} after decompression" in message
    assert "found 100 bytes of damaged gzip data" in message
    assert f"remnant data get fashion-mnist --data-dir {tmp_path}" in message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected an idx file that starts with 00000801, found  and 0 bytes"),
        (bytes([0, 0, 8, 1, 0, 0]), "starts with 00000801, found 00000801 and 6 bytes"),
        (idx(images(1, seed=0)), "starts with 00000801, found 00000803"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "starts with 00000801, found 00000d01"),
        (idx(np.zeros(5, np.uint8))[:-1], r"expected 5 values for the shape \(5,\), found 4"),
        (idx(np.zeros(5, np.uint8)) + b"x", r"expected 5 values for the shape \(5,\), found 6"),
    ],
)
def test_an_idx_file_with_a_wrong_header_or_size_is_an_error(content: bytes, problem: str) -> None:
    with pytest.raises(RemnantError, match=f"labels.gz: .*{problem}"):
        parse_idx(content, 1, Path("labels.gz"))


@pytest.mark.parametrize("labels", [[1, 2], [1, 2, 10]])
def test_labels_that_do_not_match_the_images_are_an_error(tmp_path: Path, labels: list[int]) -> None:
    files = write(tmp_path, contents(labels))
    with pytest.raises(RemnantError, match=r"train-labels.*expected a label from 0 to 9 for each"):
        load_fashion_mnist(tmp_path, files)


@pytest.mark.data
def test_fashion_mnist_of_debian_is_loaded_completely() -> None:
    data = load_fashion_mnist(FASHION_MNIST_FILES.installed)
    assert np.bincount(data.y).tolist() == [6_000] * 10
    assert np.bincount(data.test_y).tolist() == [1_000] * 10
    assert [data.spec.classes[y] for y in data.y[:3]] == ["ankle-boot", "t-shirt", "t-shirt"]
    x = data.train.take(torch.arange(60_000))
    assert x.shape == (60_000, 1, 28, 28)
    assert (x.double().mean() / 255).item() == pytest.approx(data.spec.transform.mean[0], abs=1e-4)
    assert (x.double().std() / 255).item() == pytest.approx(data.spec.transform.std[0], abs=1e-4)
