from pathlib import Path

import pytest
import torch

from remnant import checkpoint
from remnant.errors import RemnantError

STATE = {
    "run": "a",
    "weights": {"w": torch.arange(6.0).view(2, 3), "b": torch.tensor(7)},
    "empty": {},
    "order": torch.empty(0, dtype=torch.long),
    "cursor": [1, 2, 3],
    "history": {"records": [{"loss": 0.1}], "seconds": 1.5, "note": None},
}


def newest(folder: Path) -> Path:
    return checkpoint.generations(folder)[0]


def test_a_state_comes_back_bit_for_bit() -> None:
    back = checkpoint.unpack(checkpoint.pack(STATE))
    assert torch.equal(back["weights"]["w"], STATE["weights"]["w"])  # type: ignore[index]
    assert back["weights"]["b"].dtype == torch.int64
    assert back["empty"] == {}
    assert back["order"].shape == (0,)
    assert back["cursor"] == [1, 2, 3]
    assert back["history"] == STATE["history"]


def test_floats_survive_exactly() -> None:
    value = 0.1 + 0.2
    assert checkpoint.unpack(checkpoint.pack({"x": value}))["x"] == value


def test_channels_last_tensors_can_be_saved() -> None:
    w = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    assert torch.equal(checkpoint.unpack(checkpoint.pack({"w": w}))["w"], w)


def test_two_generations_are_kept(tmp_path: Path) -> None:
    for number in range(5):
        checkpoint.save(tmp_path, STATE | {"cursor": [number]})
    assert len(checkpoint.generations(tmp_path)) == 2
    state, problems = checkpoint.load(tmp_path, "a")
    assert state is not None
    assert state["cursor"] == [4]
    assert problems == []


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_truncated_checkpoint_falls_back_on_the_one_before(tmp_path: Path, keep: int) -> None:
    checkpoint.save(tmp_path, STATE | {"cursor": [0]})
    checkpoint.save(tmp_path, STATE | {"cursor": [1]})
    newest(tmp_path).write_bytes(newest(tmp_path).read_bytes()[:keep])
    state, problems = checkpoint.load(tmp_path, "a")
    assert state is not None
    assert state["cursor"] == [0]
    assert "damaged" in problems[0]


def test_a_damaged_checkpoint_does_not_push_out_a_sound_one(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, STATE | {"cursor": [0]})
    checkpoint.save(tmp_path, STATE | {"cursor": [1]}).write_bytes(b"")
    checkpoint.load(tmp_path, "a")
    checkpoint.save(tmp_path, STATE | {"cursor": [2]}).write_bytes(b"")
    state, _ = checkpoint.load(tmp_path, "a")
    assert state is not None
    assert state["cursor"] == [0]


def test_a_single_flipped_bit_is_noticed(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, STATE)
    path = checkpoint.save(tmp_path, STATE)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    _, problems = checkpoint.load(tmp_path, "a")
    assert str(path) in problems[0]


def test_when_nothing_can_be_used_it_says_so_and_deletes_nothing(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, STATE)
    path.write_bytes(b"")
    with pytest.raises(RemnantError, match="--force"):
        checkpoint.load(tmp_path, "a")
    assert path.exists()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, STATE)
    with pytest.raises(RemnantError, match="expected a checkpoint of run b, found one of a"):
        checkpoint.load(tmp_path, "b")


def test_an_empty_folder_has_no_state(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path, "a") == (None, [])


def test_a_write_that_fails_leaves_the_old_file_and_no_remains(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    (target / "inside").write_text("old")
    with pytest.raises(RemnantError, match="nothing that was there has changed"):
        checkpoint.write_atomically(target, b"new")  # a folder cannot be replaced by a file
    assert (target / "inside").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".00000001-ab.safetensors.part").write_bytes(b"half")
    checkpoint.clear_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []
