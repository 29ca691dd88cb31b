from pathlib import Path

import numpy as np
import pytest

from remnant.errors import RemnantError
from remnant.features.store import DIGESTS, VECTORS, FeatureStore, image_digest

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


def filled(folder: Path) -> FeatureStore:
    store = FeatureStore(folder, width=2)
    with store.locked():
        store.append([A, B], np.array([[1, 2], [3, 4]], np.float32))
    return store


def test_vectors_are_found_by_digest_in_another_process(tmp_path: Path) -> None:
    filled(tmp_path / "s")
    store = FeatureStore(tmp_path / "s", 2)
    assert store.places == {A: 0, B: 1}
    assert store.vectors()[store.places[B]].tolist() == [3, 4]


def test_an_empty_store_has_nothing_and_creates_nothing(tmp_path: Path) -> None:
    assert FeatureStore(tmp_path / "s", 2).places == {}
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(("file", "extra"), [(VECTORS, b"123456789"), (VECTORS, b"1" * 8), (DIGESTS, b"12")])
def test_what_a_killed_process_left_is_overwritten(tmp_path: Path, file: str, extra: bytes) -> None:
    filled(tmp_path)
    with (tmp_path / file).open("ab") as stream:
        stream.write(extra)
    store = FeatureStore(tmp_path, 2)
    assert store.places == {A: 0, B: 1}
    with store.locked():
        store.append([C], np.array([[5, 6]], np.float32))
    again = FeatureStore(tmp_path, 2)
    assert again.places == {A: 0, B: 1, C: 2}
    assert again.vectors().tolist() == [[1, 2], [3, 4], [5, 6]]


def test_digests_without_vectors_are_not_used(tmp_path: Path) -> None:
    filled(tmp_path)
    with (tmp_path / VECTORS).open("r+b") as stream:
        stream.truncate(15)
    assert FeatureStore(tmp_path, 2).places == {A: 0}


def test_parts_of_another_process_are_seen_once_the_store_is_locked(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path, 2)
    filled(tmp_path)
    with store.locked():
        assert store.places == {A: 0, B: 1}


def test_images_of_different_shape_or_pixels_have_different_digests() -> None:
    images = [np.zeros((1, 2, 8), np.uint8), np.zeros((1, 4, 4), np.uint8), np.ones((1, 4, 4), np.uint8)]
    assert len({image_digest(image) for image in images}) == 3
    assert image_digest(images[0]) == image_digest(images[0][:, ::-1].copy())


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RemnantError, match="expected to read and write features there"),
        FeatureStore(tmp_path / "file" / "s", 2).locked(),
    ):
        pass
