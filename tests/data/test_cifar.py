import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from cifar_files import SAMPLES, cifar10_files, cifar100_files, pickle2, pixels, text, write

from remnant.data import cifar
from remnant.data.cifar import (
    CIFAR10,
    CIFAR10_FILES,
    CIFAR100,
    CIFAR100_COARSE,
    CIFAR100_FILES,
    load_cifar10,
    load_cifar100,
)
from remnant.data.files import DataFiles
from remnant.errors import RemnantError

# Fine class -> superclass, as listed by other libraries.
SUPERCLASS = [
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),
    *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),
    *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),
    *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
]
TRAIN_PIXELS = "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111"  # sha256
TEST_PIXELS = "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56"


def with_train(folder: Path, train: bytes) -> DataFiles:
    contents = {**cifar100_files([0] * SAMPLES, [4] * SAMPLES), "train": train}
    return write(folder / "cifar-100-python", CIFAR100_FILES, contents)


def test_cifar10_keeps_the_order_of_files_and_samples(tmp_path: Path) -> None:
    files = write(tmp_path / "cifar-10-batches-py", CIFAR10_FILES, cifar10_files())
    data = load_cifar10(tmp_path, files)
    x = data.train.take(torch.arange(len(data.train)))
    assert x.shape == (5 * SAMPLES, 3, 32, 32)
    expected = np.concatenate([pixels(i) for i in range(5)])
    assert np.array_equal(x.numpy().reshape(-1, 3072), expected)
    assert data.y.tolist() == [(i + j) % 10 for i in range(5) for j in range(SAMPLES)]
    assert np.array_equal(data.test.take(torch.arange(SAMPLES)).reshape(SAMPLES, -1), pixels(5))
    assert data.test_y.tolist() == [5, 6, 7, 8]
    assert data.index.tolist() == list(range(5 * SAMPLES))


def test_images_are_channels_first_in_row_major_order(tmp_path: Path) -> None:
    data = np.zeros((SAMPLES, 3072), np.uint8)
    data[0, 1024 + 2 * 32 + 5] = 200
    files = write(tmp_path, CIFAR100_FILES, cifar100_files([0] * SAMPLES, [4] * SAMPLES, data))
    image = load_cifar100(tmp_path, files=files).train.take(torch.tensor([0]))[0]
    assert image[1, 2, 5] == 200
    assert image.sum() == 200


def test_the_data_folder_may_be_the_folder_of_the_files(tmp_path: Path) -> None:
    files = write(tmp_path / "anywhere", CIFAR10_FILES, cifar10_files())
    assert len(load_cifar10(tmp_path / "anywhere", files).train) == 5 * SAMPLES


def test_cifar100_has_fine_labels_or_superclasses(tmp_path: Path) -> None:
    fine, coarse = [0, 99, 8, 41], [4, 13, 18, 19]
    files = write(tmp_path / "cifar-100-python", CIFAR100_FILES, cifar100_files(fine, coarse))
    data = load_cifar100(tmp_path, files=files)
    assert [data.spec.classes[y] for y in data.y] == ["apple", "worm", "bicycle", "lawn_mower"]
    assert data.spec is CIFAR100
    data = load_cifar100(tmp_path, coarse=True, files=files)
    assert [data.spec.classes[y] for y in data.y] == [
        "fruit_and_vegetables",
        "non-insect_invertebrates",
        "vehicles_1",
        "vehicles_2",
    ]
    assert data.spec is CIFAR100_COARSE
    assert data.test_y.tolist() == coarse


def test_cifar100_has_twenty_superclasses_of_five_classes() -> None:
    assert list(CIFAR100.superclass) == SUPERCLASS
    assert np.bincount(CIFAR100.superclass).tolist() == [5] * 20


def test_class_names_match_the_published_meta_files_byte_for_byte() -> None:
    fine = [name.encode() for name in CIFAR100.classes]
    coarse = [name.encode() for name in CIFAR100_COARSE.classes]
    meta = pickle2({b"fine_label_names": fine, b"coarse_label_names": coarse})
    assert hashlib.md5(meta).hexdigest() == CIFAR100_FILES.md5["meta"]
    names = [name.encode() for name in CIFAR10.classes]
    meta = pickle2({b"num_cases_per_batch": 10_000, b"label_names": names, b"num_vis": 3072})
    assert hashlib.md5(meta).hexdigest() == CIFAR10_FILES.md5["batches.meta"]


def test_cifar10_classes_are_confused_with_similar_classes() -> None:
    names = CIFAR10.classes
    assert {names[a]: names[b] for a, b in CIFAR10.confused_with.items()} == {
        "truck": "automobile",
        "bird": "airplane",
        "deer": "horse",
        "cat": "dog",
        "dog": "cat",
    }


def test_a_superclass_that_contradicts_the_fine_label_is_an_error(tmp_path: Path) -> None:
    contents = cifar100_files([0, 1, 2, 3], [4, 1, 14, 9])
    files = write(tmp_path / "cifar-100-python", CIFAR100_FILES, contents)
    with pytest.raises(RemnantError, match=r"train: sample 3 is a bear, expected superclass 8, found 9"):
        load_cifar100(tmp_path, files=files)


def test_labels_that_do_not_match_the_images_are_an_error(tmp_path: Path) -> None:
    files = with_train(tmp_path, cifar100_files([0] * 3, [4] * SAMPLES)["train"])
    with pytest.raises(RemnantError, match=r"train: expected 4 fine_labels from 0 to 99.*\(3,\)"):
        load_cifar100(tmp_path, files=files)
    files = with_train(tmp_path, cifar100_files([100] * SAMPLES, [4] * SAMPLES)["train"])
    with pytest.raises(RemnantError, match=r"train: expected 4 fine_labels from 0 to 99.*\[100\]"):
        load_cifar100(tmp_path, files=files)


@pytest.mark.parametrize(
    "content", [b"", b"no pickle", pickle2([1]), pickle2({b"data": 3}), pickle2({b"x": [1]})]
)
def test_a_file_of_another_format_is_an_error_with_its_name(tmp_path: Path, content: bytes) -> None:
    files = with_train(tmp_path, content)
    with pytest.raises(RemnantError, match="train: expected a pickle with the fields data"):
        load_cifar100(tmp_path, files=files)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (b"cos\nsystem\n(S'touch %s'\ntR", "os.system"),
        (b"cposix\nsystem\n(S'touch %s'\ntR", "posix.system"),
        (b'cbuiltins\neval\n(S\'open("%s", "w")\'\ntR', "builtins.eval"),
        (b'c__builtin__\neval\n(S\'open("%s", "w")\'\ntR', "__builtin__.eval"),
        (b"(S'touch %s'\nios\nsystem\n", "os.system"),
        (b"\x8c\x02os\x8c\x06system\x93(\x8c\x07touch %s\x94tR", "os.system"),
        (b"cnumpy.core.multiarray\nscalar\n(S'%s'\ntR", "numpy.core.multiarray.scalar"),
        (b"cnumpy\nload\n(S'%s'\ntR", "numpy.load"),
        (b"c_codecs\nencode\n(S'%s'\ntR", "_codecs.encode"),
    ],
)
def test_a_pickle_that_calls_code_is_an_error_and_runs_nothing(
    tmp_path: Path, call: bytes, name: str
) -> None:
    trace = tmp_path / "trace"
    files = with_train(tmp_path, b"\x80\x02" + call.replace(b"%s", bytes(trace)) + b".")
    with pytest.raises(RemnantError, match=f"train: .*the forbidden name {name}"):
        load_cifar100(tmp_path, files=files)
    assert not trace.exists()


def test_an_object_array_is_an_error_and_its_content_is_not_called(tmp_path: Path) -> None:
    head, tail = pickle2({b"data": pixels(0)}).split(b"U\x02u1")
    files = with_train(tmp_path, head + b"U\x02O8" + tail)
    with pytest.raises(RemnantError, match=r"train: .*array of b'O8', not of bytes"):
        load_cifar100(tmp_path, files=files)
    raw = b"\x89" + text(pixels(0).tobytes())
    hidden = pickle2({b"data": pixels(0)}).replace(raw, b"\x89](cos\nsystem\n(S'true'\ntRe")
    files = with_train(tmp_path, hidden)
    with pytest.raises(RemnantError, match=r"train: .*the forbidden name os\.system"):
        load_cifar100(tmp_path, files=files)


def test_a_pickle_cannot_change_the_numpy_stand_ins(tmp_path: Path) -> None:
    before = dict(vars(cifar._ByteArray))
    files = with_train(tmp_path, b"\x80\x02cnumpy\nndarray\n}U\x05valueK\x01sb.")
    with pytest.raises(RemnantError, match="train: expected a pickle"):
        load_cifar100(tmp_path, files=files)
    assert dict(vars(cifar._ByteArray)) == before


def test_a_changed_file_is_an_error_before_it_is_unpickled(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    files = write(folder, CIFAR10_FILES, cifar10_files())
    trace = tmp_path / "trace"
    (folder / "data_batch_3").write_bytes(b"cos\nsystem\n(S'touch %s'\ntR." % bytes(trace))
    with pytest.raises(RemnantError, match=r"data_batch_3: expected md5 \w+, found \w+ \(\d+ bytes"):
        load_cifar10(tmp_path, files)
    assert not trace.exists()


@pytest.mark.data
def test_the_published_cifar10_is_loaded_completely() -> None:
    data = load_cifar10(Path(os.environ["REMNANT_DATA"]))
    assert np.bincount(data.y).tolist() == [5_000] * 10
    assert np.bincount(data.test_y).tolist() == [1_000] * 10
    assert data.y[:5].tolist() == [6, 9, 9, 4, 1]
    assert data.test_y[:5].tolist() == [3, 8, 8, 0, 6]
    assert data.spec.classes[data.y[0]] == "frog"
    assert data.spec.classes[data.test_y[0]] == "cat"
    train = data.train.take(torch.arange(50_000))
    assert train.shape == (50_000, 3, 32, 32)
    test = data.test.take(torch.arange(10_000))
    assert hashlib.sha256(train.numpy().tobytes()).hexdigest() == TRAIN_PIXELS
    assert hashlib.sha256(test.numpy().tobytes()).hexdigest() == TEST_PIXELS
    mean = train.double().mean(dim=(0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx(data.spec.transform.mean, abs=1e-4)
