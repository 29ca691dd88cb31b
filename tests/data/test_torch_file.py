import io
import zipfile
from collections import OrderedDict
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import pytest
import torch

from remnant.data import torch_file
from remnant.data.torch_file import read_torch, read_weights
from remnant.errors import RemnantError

LABELS = np.array([3, 0, 9, 9, 1])
DTYPES = [np.int64, np.int32, np.int16, np.uint8, np.float32, np.float64]


def with_pickle(path: Path, content: bytes, *, plain: bool = False) -> Path:
    """Write a file in the format of torch.save around this pickle."""
    if plain:
        target = io.BytesIO()
        torch.save({}, target, _use_new_zipfile_serialization=False)
        head = target.getvalue().split(b"\x80\x02}q\x00.")[0]
        path.write_bytes(head + content + b"\x80\x02]q\x00.")
        return path
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    return path


@pytest.mark.parametrize("zipped", [True, False])
def test_arrays_tensors_and_lists_of_every_dtype_are_read(tmp_path: Path, zipped: bool) -> None:
    for dtype in DTYPES:
        array = LABELS.astype(dtype)
        for value in (array, torch.from_numpy(array), LABELS.tolist()):
            fields = {"clean_label": value, "other": np.arange(3), "note": "manual"}
            torch.save(fields, tmp_path / "l.pt", _use_new_zipfile_serialization=zipped)
            found = read_torch(tmp_path / "l.pt")
            assert found.keys() == {"clean_label", "other"}
            assert found["clean_label"].tolist() == LABELS.tolist()
            assert found["clean_label"].dtype == np.int64


@pytest.mark.parametrize("zipped", [True, False])
def test_a_slice_of_a_tensor_is_read_as_that_slice(tmp_path: Path, zipped: bool) -> None:
    both = torch.arange(10)
    fields = {"a": both[3:6], "b": both[6:]}
    torch.save(fields, tmp_path / "l.pt", _use_new_zipfile_serialization=zipped)
    found = {name: y.tolist() for name, y in read_torch(tmp_path / "l.pt").items()}
    assert found == {"a": [3, 4, 5], "b": [6, 7, 8, 9]}


@pytest.mark.parametrize("value", [np.inf, np.nan, 1.5, 1e300, 2**63])
def test_an_array_with_a_number_that_is_no_int64_is_no_label_array(tmp_path: Path, value: float) -> None:
    torch.save({"a": np.array([0, value]), "b": LABELS}, tmp_path / "l.pt")
    assert read_torch(tmp_path / "l.pt").keys() == {"b"}


def test_big_endian_arrays_are_read(tmp_path: Path) -> None:
    torch.save({"a": LABELS.astype(">i4")}, tmp_path / "l.pt")
    assert read_torch(tmp_path / "l.pt")["a"].tolist() == LABELS.tolist()


def test_files_written_with_numpy_1_are_read(tmp_path: Path) -> None:
    torch.save({"a": LABELS}, tmp_path / "new.pt", _use_new_zipfile_serialization=False)
    old = (tmp_path / "new.pt").read_bytes().replace(b"numpy._core", b"numpy.core")
    (tmp_path / "old.pt").write_bytes(old)
    assert read_torch(tmp_path / "old.pt")["a"].tolist() == LABELS.tolist()


def test_values_that_are_not_1d_integer_arrays_are_ignored(tmp_path: Path) -> None:
    torch.save({"square": np.eye(2), "half": np.array([0.5]), "flag": [True]}, tmp_path / "l.pt")
    assert read_torch(tmp_path / "l.pt") == {}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (b"cos\nsystem\n(S'touch %s'\ntR", "os.system"),
        (b'cbuiltins\neval\n(S\'open("%s", "w")\'\ntR', "builtins.eval"),
        (b"(S'touch %s'\nios\nsystem\n", "os.system"),
        (b"\x8c\x02os\x8c\x06system\x93(\x8c\x07touch %s\x94tR", "os.system"),
        (b"cnumpy._core.multiarray\nscalar\n(S'%s'\ntR", "numpy._core.multiarray.scalar"),
        (b"ctorch\nload\n(S'%s'\ntR", "torch.load"),
        (b"ctorch.storage\n_load_from_bytes\n(S'%s'\ntR", "torch.storage._load_from_bytes"),
        (b"c_codecs\ndecode\n(S'%s'\ntR", "_codecs.decode"),
    ],
)
def test_a_file_that_calls_code_is_an_error_and_runs_nothing(
    tmp_path: Path, call: bytes, name: str, plain: bool
) -> None:
    trace = tmp_path / "trace"
    content = b"\x80\x02" + call.replace(b"%s", bytes(trace)) + b"."
    path = with_pickle(tmp_path / "l.pt", content, plain=plain)
    with pytest.raises(RemnantError, match=f"l.pt: .*the forbidden name {name}"):
        read_torch(path)
    assert not trace.exists()


def test_an_array_of_objects_is_an_error(tmp_path: Path) -> None:
    torch.save({"a": np.array([None, "x"])}, tmp_path / "l.pt")
    with pytest.raises(RemnantError, match=r"l\.pt: .*an array of 'O8', not of numbers"):
        read_torch(tmp_path / "l.pt")


def test_a_tensor_of_another_dtype_or_shape_is_an_error(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(3, dtype=torch.bfloat16)}, tmp_path / "l.pt")
    with pytest.raises(RemnantError, match=r"the forbidden name torch\.BFloat16Storage"):
        read_torch(tmp_path / "l.pt")
    torch.save({"a": torch.ones(3, 2)}, tmp_path / "l.pt")
    with pytest.raises(RemnantError, match="not 1-D"):
        read_torch(tmp_path / "l.pt")
    crafted = b"\x80\x02(U\x07storageU\x01OU\x010tQ."
    with pytest.raises(RemnantError, match="a tensor of 'O', not of numbers"):
        read_torch(with_pickle(tmp_path / "l.pt", crafted))


STAND_INS = [
    *(torch_file._NumberArray, torch_file._NumberType, torch_file._Bytes),
    *(torch_file._Tensor, torch_file._Dict, torch_file._Storage),
]


def test_a_pickle_cannot_change_the_stand_ins(tmp_path: Path) -> None:
    before = [dict(vars(kind)) for kind in STAND_INS]
    for module, name in torch_file._STAND_INS:
        for state in (b"}U\x05valueK\x01s", b"N}U\x05valueK\x01s\x86"):
            content = b"\x80\x02c%s\n%s\n" % (module.encode(), name.encode()) + state + b"b."
            with pytest.raises(RemnantError, match=r"l\.pt: expected a dict"):
                read_torch(with_pickle(tmp_path / "l.pt", content))
        assert [dict(vars(kind)) for kind in STAND_INS] == before


@pytest.mark.parametrize(
    "content", [b"", b"no pickle", b"PK\x03\x04 cut short", b"\x80\x02]q\x00.", b"\x80\x02K\x01." * 5]
)
def test_a_file_of_another_format_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "l.pt").write_bytes(content)
    with pytest.raises(RemnantError, match=r"l\.pt: expected a dict of number arrays"):
        read_torch(tmp_path / "l.pt")
    with pytest.raises(RemnantError, match=r"l\.pt: expected a dict of number arrays"):
        read_torch(with_pickle(tmp_path / "l.pt", content))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_file_is_an_error(tmp_path: Path, zipped: bool) -> None:
    torch.save({"a": torch.arange(1000)}, tmp_path / "l.pt", _use_new_zipfile_serialization=zipped)
    whole = (tmp_path / "l.pt").read_bytes()
    for fraction in (0.1, 0.5, 0.9):
        (tmp_path / "l.pt").write_bytes(whole[: int(fraction * len(whole))])
        with pytest.raises(RemnantError, match=r"l\.pt: expected a dict of number arrays"):
            read_torch(tmp_path / "l.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_weights_are_read_with_their_shapes_and_strides(tmp_path: Path, zipped: bool) -> None:
    convolution = torch.arange(24.0).reshape(4, 3, 2).permute(2, 0, 1)  # not contiguous
    weights = {"conv": convolution, "steps": torch.tensor(7), "bias": torch.ones(2).double()}
    torch.save(OrderedDict(weights), tmp_path / "w.pth", _use_new_zipfile_serialization=zipped)
    found = read_weights(tmp_path / "w.pth")
    assert found.keys() == weights.keys()
    for name, value in weights.items():
        assert np.array_equal(found[name], value.numpy())
        assert found[name].shape == tuple(value.shape)


@pytest.mark.parametrize(("shape", "step"), [((3,), (2,)), ((2, 3), (3, 1)), ((-1,), (1,)), ((2,), (1, 1))])
def test_a_tensor_that_reaches_beyond_its_storage_is_an_error(
    shape: tuple[int, ...], step: tuple[int, ...]
) -> None:
    with pytest.raises(UnpicklingError, match="a tensor"):
        torch_file._Tensor(torch_file._Storage("<f4", "0"), 0, shape, step).of(np.zeros(4, np.float32))
