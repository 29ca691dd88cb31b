from pathlib import Path
from typing import Any

import pytest
import torch

from remnant.errors import RemnantError
from remnant.experiment import checkpoint

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


def test_temporary_files_of_a_killed_process_are_deleted(tmp_path: Path) -> None:
    (tmp_path / ".00000001-ab.safetensors.part").write_bytes(b"half")
    checkpoint.clear_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []
