import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save as save_tensors

from remnant.errors import RemnantError
from remnant.experiment import checkpoint
from remnant.experiment.checkpoint import History

STATE: dict[str, Any] = {
    "run": "a",
    "weights": {"w": torch.arange(6.0).view(2, 3), "b": torch.tensor(7)},
    "empty": {},
    "order": torch.empty(0, dtype=torch.long),
    "cursor": [1, 2, 3],
    "history": {"records": [{"loss": 0.1}], "seconds": 1.5, "note": None},
}


def newest(folder: Path) -> Path:
    return checkpoint.generations(folder)[0]


def test_a_state_is_restored_bit_for_bit() -> None:
    restored = checkpoint.unpack(checkpoint.pack(STATE))
    assert torch.equal(restored["weights"]["w"], STATE["weights"]["w"])
    assert restored["weights"]["b"].dtype == torch.int64
    assert restored["empty"] == {}
    assert restored["order"].shape == (0,)
    assert restored["cursor"] == [1, 2, 3]
    assert restored["history"] == STATE["history"]


def test_floats_are_restored_exactly() -> None:
    value = 0.1 + 0.2
    assert checkpoint.unpack(checkpoint.pack({"x": value}))["x"] == value


def test_channels_last_tensors_can_be_saved() -> None:
    w = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    assert torch.equal(checkpoint.unpack(checkpoint.pack({"w": w}))["w"], w)


def test_a_history_is_restored_exactly() -> None:
    rng = np.random.default_rng(0)
    values = [*(rng.random(200) * 10.0 ** rng.integers(-300, 300, 200)).tolist(), 5e-324, 1e22, -0.0]
    records = [{"loss": value, "nested": [{"nan": math.nan, "none": None}]} for value in values]
    history = History(records, 1, 2, {"learn": 3.0}, 4, 5, 0.1, {"learn": 0.7}, {"learn": (0.1 + 0.2, 3)})
    assert repr(History.restored(json.loads(json.dumps(vars(history))))) == repr(history)


def test_a_history_of_an_earlier_version_has_defaults() -> None:
    assert History.restored({"steps": 3}) == History(steps=3)


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    for number in range(5):
        checkpoint.save(tmp_path, STATE | {"cursor": [number]})
    assert len(checkpoint.generations(tmp_path)) == 2
    state, problems = checkpoint.load(tmp_path, "a")
    assert state is not None
    assert state["cursor"] == [4]
    assert problems == []


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_the_previous_checkpoint_is_used_if_the_newest_is_truncated(tmp_path: Path, length: int) -> None:
    checkpoint.save(tmp_path, STATE | {"cursor": [0]})
    checkpoint.save(tmp_path, STATE | {"cursor": [1]})
    newest(tmp_path).write_bytes(newest(tmp_path).read_bytes()[:length])
    state, problems = checkpoint.load(tmp_path, "a")
    assert state is not None
    assert state["cursor"] == [0]
    assert "damaged" in problems[0]
    assert "do not match the digest" in problems[0]


def test_a_damaged_checkpoint_does_not_replace_an_intact_one(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, STATE | {"cursor": [0]})
    checkpoint.save(tmp_path, STATE | {"cursor": [1]}).write_bytes(b"")
    checkpoint.load(tmp_path, "a")
    checkpoint.save(tmp_path, STATE | {"cursor": [2]}).write_bytes(b"")
    state, _ = checkpoint.load(tmp_path, "a")
    assert state is not None
    assert state["cursor"] == [0]


def test_a_single_flipped_bit_is_detected(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, STATE)
    path = checkpoint.save(tmp_path, STATE)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    _, problems = checkpoint.load(tmp_path, "a")
    assert str(path) in problems[0]


def test_no_intact_checkpoint_is_an_error_and_nothing_is_deleted(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, STATE)
    path.write_bytes(b"")
    with pytest.raises(RemnantError, match=r"no checkpoint can be used.*Restart.*--force"):
        checkpoint.load(tmp_path, "a")
    assert path.exists()


def test_a_checkpoint_of_another_run_is_an_error(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, STATE)
    with pytest.raises(RemnantError, match="expected a checkpoint of run b, found one of a"):
        checkpoint.load(tmp_path, "b")


def test_an_empty_folder_has_no_state(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path, "a") == (None, [])


def test_a_write_that_fails_leaves_the_old_file_and_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    (target / "inside").write_text("old")
    with pytest.raises(RemnantError, match="existing files are unchanged"):
        checkpoint.write_atomically(target, b"new")  # a folder cannot be replaced by a file
    assert (target / "inside").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_disk_that_stays_broken_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", fail)
    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(RemnantError, match=r"cannot be written \(Input/output error\)"):
        checkpoint.write_atomically(tmp_path / "file", b"new")


def test_an_old_checkpoint_that_cannot_be_deleted_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "unlink", fail)
    for number in range(4):
        checkpoint.save(tmp_path, STATE | {"cursor": [number]})
    assert len(checkpoint.generations(tmp_path)) == 4


def test_temporary_files_of_dead_processes_are_deleted_and_those_of_living_ones_are_kept(
    tmp_path: Path,
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    dead = [
        ".00000001-ab.safetensors.part",
        f".result.json.{ended.pid}.part",
        f".result.json.{os.getpid()}.part",
    ]
    alive = tmp_path / f".result.json.{os.getppid()}.part"
    for name in (*dead, alive.name):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / ".folder.part").mkdir()
    checkpoint.clear_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([alive, tmp_path / ".folder.part"])


def test_a_damaged_file_is_renamed_without_replacing_an_earlier_one(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "file").write_text(f"{number}")
        checkpoint.set_aside(tmp_path / "file")
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"file.damaged": "0", "file.damaged2": "1", "file.damaged3": "2"}


def forged(folder: Path, content: bytes) -> None:
    """Write a checkpoint of any content with a valid digest."""
    digest = hashlib.sha256(content).hexdigest()[:16]
    (folder / f"00000009-{digest}.safetensors").write_bytes(content)


def with_state(text: str) -> bytes:
    return save_tensors({"/weights/w": torch.zeros(2)}, metadata={"state": text})


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(save_tensors({"a": torch.zeros(2)}), id="no state"),
        pytest.param(with_state("{"), id="no JSON"),
        pytest.param(with_state("[1, 2]"), id="a list"),
        pytest.param(with_state("7"), id="a number"),
        pytest.param(with_state("{}"), id="no place for a tensor"),
        pytest.param(with_state('{"weights": 3}'), id="a number in the place of a table"),
        pytest.param(with_state('{"weights": [1]}'), id="a list in the place of a table"),
        pytest.param(with_state("[" * 100_000 + "]" * 100_000), id="deeply nested"),
        pytest.param((10**9).to_bytes(8, "little") + b"{}", id="header longer than the file"),
        pytest.param((10**6).to_bytes(8, "little") + b"[" * 10**6, id="deeply nested header"),
        pytest.param((2).to_bytes(8, "little") + b"[]", id="header that is a list"),
        pytest.param(with_state('{"weights": ' + "1" * 5000 + "}"), id="a number of 5,000 digits"),
    ],
)
def test_a_forged_checkpoint_is_damaged(tmp_path: Path, content: bytes) -> None:
    checkpoint.save(tmp_path, STATE)
    forged(tmp_path, content)
    state, problems = checkpoint.load(tmp_path, "a")
    assert state is not None
    assert state["cursor"] == [1, 2, 3]
    assert "is damaged (" in problems[0]
    assert not problems[0].endswith("()")


def test_a_checkpoint_without_the_name_of_its_run_is_an_error(tmp_path: Path) -> None:
    forged(tmp_path, save_tensors({}, metadata={"state": json.dumps({"run": ["b"] * 1000})}))
    with pytest.raises(RemnantError, match="expected a checkpoint of run b, found one of "):
        checkpoint.load(tmp_path, "b")


@pytest.mark.parametrize("target", ["/proc/kmsg", "/dev/zero", "nowhere"])
def test_a_checkpoint_that_could_be_endless_is_not_read(tmp_path: Path, target: str) -> None:
    path = tmp_path / "00000001-0123456789abcdef.safetensors"
    path.symlink_to(target)
    for read in (checkpoint.read, checkpoint.plain_values):
        with pytest.raises(checkpoint.READ_ERRORS):
            read(path)


def test_a_folder_that_cannot_be_synced_is_not_reported_as_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("remnant.experiment.checkpoint._sync_folder", fail)
    with pytest.raises(RemnantError, match="it was replaced, but may be lost"):
        checkpoint.write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_temporary_file_that_a_killed_process_left_is_deleted_with_the_next_write(tmp_path: Path) -> None:
    for name in (".model[1].4194305.part", ".other.4194305.part"):  # beyond the largest process id
        (tmp_path / name).touch()
    checkpoint.write_atomically(tmp_path / "model[1]", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.4194305.part", "model[1]"]
