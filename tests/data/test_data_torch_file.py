import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from remnant.data import torch_file
from remnant.data.torch_file import read_torch
from remnant.errors import RemnantError

LABELS = np.array([3, 0, 9, 9, 1])
KINDS = [np.int64, np.int32, np.int16, np.uint8, np.float32, np.float64]


def with_pickle(path: Path, content: bytes, *, bare: bool = False) -> Path:
    """Write a file of torch's form around this pickle."""
    if bare:
        target = io.BytesIO()
        torch.save({}, target, _use_new_zipfile_serialization=False)
        head = target.getvalue().split(b"\x80\x02}q\x00.")[0]
        path.write_bytes(head + content + b"\x80\x02]q\x00.")
        return path
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    return path


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("form", ["array", "tensor", "list"])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_form_are_read(tmp_path: Path, kind: type, form: str, zipped: bool) -> None:
    array = LABELS.astype(kind)
    value = {"array": array, "tensor": torch.from_numpy(array), "list": LABELS.tolist()}[form]
    fields = {"clean_label": value, "other": np.arange(3), "note": "by hand"}
    torch.save(fields, tmp_path / "l.pt", _use_new_zipfile_serialization=zipped)
    found = read_torch(tmp_path / "l.pt")
    assert found.keys() == {"clean_label", "other"}
    assert found["clean_label"].tolist() == LABELS.tolist()
    assert found["clean_label"].dtype == np.int64


@pytest.mark.parametrize("zipped", [True, False])
def test_a_part_of_a_tensor_is_that_part(tmp_path: Path, zipped: bool) -> None:
    both = torch.arange(10)
    fields = {"a": both[3:6], "b": both[6:]}
    torch.save(fields, tmp_path / "l.pt", _use_new_zipfile_serialization=zipped)
    found = {name: y.tolist() for name, y in read_torch(tmp_path / "l.pt").items()}
    assert found == {"a": [3, 4, 5], "b": [6, 7, 8, 9]}


def test_numbers_of_either_byte_order_are_read(tmp_path: Path) -> None:
    torch.save({"a": LABELS.astype(">i4")}, tmp_path / "l.pt")
    assert read_torch(tmp_path / "l.pt")["a"].tolist() == LABELS.tolist()


def test_the_names_of_an_older_numpy_are_known(tmp_path: Path) -> None:
    torch.save({"a": LABELS}, tmp_path / "new.pt", _use_new_zipfile_serialization=False)
    old = (tmp_path / "new.pt").read_bytes().replace(b"numpy._core", b"numpy.core")
    (tmp_path / "old.pt").write_bytes(old)
    assert read_torch(tmp_path / "old.pt")["a"].tolist() == LABELS.tolist()


def test_what_is_no_row_of_whole_numbers_is_left_out(tmp_path: Path) -> None:
    torch.save({"square": np.eye(2), "half": np.array([0.5]), "flag": [True]}, tmp_path / "l.pt")
    assert read_torch(tmp_path / "l.pt") == {}


@pytest.mark.parametrize("bare", [False, True])
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
def test_a_file_that_would_run_code_is_refused_and_runs_nothing(
    tmp_path: Path, call: bytes, name: str, bare: bool
) -> None:
    trace = tmp_path / "trace"
    content = b"\x80\x02" + call.replace(b"%s", bytes(trace)) + b"."
    path = with_pickle(tmp_path / "l.pt", content, bare=bare)
    with pytest.raises(RemnantError, match=f"l.pt: .*the forbidden name {name}"):
        read_torch(path)
    assert not trace.exists()


def test_an_array_of_objects_is_refused(tmp_path: Path) -> None:
    torch.save({"a": np.array([None, "x"])}, tmp_path / "l.pt")
    with pytest.raises(RemnantError, match=r"l\.pt: .*an array of 'O8', not of numbers"):
        read_torch(tmp_path / "l.pt")


def test_a_tensor_of_unknown_numbers_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(3, dtype=torch.bfloat16)}, tmp_path / "l.pt")
    with pytest.raises(RemnantError, match=r"the forbidden name torch\.BFloat16Storage"):
        read_torch(tmp_path / "l.pt")
    torch.save({"a": torch.ones(3, 2)}, tmp_path / "l.pt")
    with pytest.raises(RemnantError, match="not one row"):
        read_torch(tmp_path / "l.pt")
    made_up = b"\x80\x02(U\x07storageU\x01OU\x010tQ."
    with pytest.raises(RemnantError, match="a tensor of 'O', not of numbers"):
        read_torch(with_pickle(tmp_path / "l.pt", made_up))


STAND_INS = [
    *(torch_file._Array, torch_file._Kind, torch_file._Bytes),
    *(torch_file._Tensor, torch_file._Hooks, torch_file._Storage),
]


@pytest.mark.parametrize("place", [*torch_file._STAND_INS])
def test_a_pickle_cannot_change_the_stand_ins(tmp_path: Path, place: tuple[str, str]) -> None:
    before = [dict(vars(kind)) for kind in STAND_INS]
    name = b"c%s\n%s\n" % (place[0].encode(), place[1].encode())
    for state in (b"}U\x05valueK\x01s", b"N}U\x05valueK\x01s\x86"):
        path = with_pickle(tmp_path / "l.pt", b"\x80\x02" + name + state + b"b.")
        with pytest.raises(RemnantError, match=r"l\.pt: expected a dict"):
            read_torch(path)
    assert [dict(vars(kind)) for kind in STAND_INS] == before


@pytest.mark.parametrize(
    "content", [b"", b"no pickle", b"PK\x03\x04 cut short", b"\x80\x02]q\x00.", b"\x80\x02K\x01." * 5]
)
def test_a_file_of_another_form_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "l.pt").write_bytes(content)
    with pytest.raises(RemnantError, match=r"l\.pt: expected a dict of number arrays"):
        read_torch(tmp_path / "l.pt")
    with pytest.raises(RemnantError, match=r"l\.pt: expected a dict of number arrays"):
        read_torch(with_pickle(tmp_path / "l.pt", content))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_was_cut_short_is_named(tmp_path: Path, zipped: bool) -> None:
    torch.save({"a": torch.arange(1000)}, tmp_path / "l.pt", _use_new_zipfile_serialization=zipped)
    whole = (tmp_path / "l.pt").read_bytes()
    for share in (0.1, 0.5, 0.9):
        (tmp_path / "l.pt").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(RemnantError, match=r"l\.pt: expected a dict of number arrays"):
            read_torch(tmp_path / "l.pt")
