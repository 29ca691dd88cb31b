from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import TINY, Invoke


def test_check_prints_one_line_for_an_intact_run(invoke: Invoke) -> None:
    folder = invoke("run", "-q", "--method", "er", *TINY).out.strip()
    assert invoke("check", folder).out == f"{folder}: ok, 6 files, finished\n"
    Path(folder, "result.json").unlink()
    done = invoke("check", folder, folder)
    assert done.code == 0
    assert done.out == f"{folder}: ok, 4 files, not finished\n" * 2


def test_check_prints_a_line_for_each_file_if_asked(invoke: Invoke) -> None:
    folder = invoke("run", "-q", "--method", "er", *TINY).out.strip()
    done = invoke("check", "-v", folder)
    assert done.code == 0
    names = [line.removesuffix(": ok").removeprefix(f"{folder}/") for line in done.out.splitlines()]
    assert names[:4] == ["result.json", "config.toml", "metrics.jsonl", "buffer.safetensors"]
    assert [Path(name).parent.name for name in names[4:]] == ["checkpoint", "checkpoint"]


def test_check_names_the_damaged_files_of_several_runs_and_changes_nothing(invoke: Invoke) -> None:
    a, b = (Path(invoke("run", "-q", "--method", "er", *TINY, f"seed={seed}").out.strip()) for seed in (0, 1))
    (b / "metrics.jsonl").write_text("other")
    (b / "buffer.safetensors").unlink()
    newest = max((b / "checkpoint").iterdir())
    newest.write_bytes(b"")
    done = invoke("check", str(a), str(b))
    assert done.code == 1
    assert f"{b}/metrics.jsonl: expected sha256 " in done.out
    assert f"{b}/buffer.safetensors: No such file or directory\n" in done.out
    assert f"{newest}: its 0 bytes do not match the digest in its name\n" in done.out
    assert done.out.startswith(f"{a}: ok, 6 files, finished\n")
    assert len(done.out.splitlines()) == 1 + 3
    assert (b / "metrics.jsonl").read_text() == "other"
    assert newest.exists()


def test_check_notices_a_changed_config_of_an_unfinished_run(invoke: Invoke) -> None:
    folder = Path(invoke("run", "-q", "--method", "er", *TINY).out.strip())
    (folder / "result.json").unlink()
    assert invoke("check", str(folder)).code == 0
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("epochs = 2", "epochs = 3"))
    done = invoke("check", str(folder))
    assert done.code == 1
    assert f"{config}: it has changed since the last checkpoint\n" in done.out


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes().replace(b"0", b"1", 1)),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes() + b"something else\n"),
        lambda path: path.write_bytes(path.read_bytes() + b"[]\n"),
        Path.unlink,
    ],
)
def test_check_notices_damaged_metrics_of_an_unfinished_run(
    invoke: Invoke, damage: Callable[[Path], object]
) -> None:
    folder = Path(invoke("run", "-q", "--method", "er", *TINY).out.strip())
    (folder / "result.json").unlink()
    damage(folder / "metrics.jsonl")
    done = invoke("check", str(folder))
    assert done.code == 1
    assert done.out.startswith(f"{folder}/metrics.jsonl: ")
    assert done.out.endswith("; it is written again when the run is resumed\n")


def test_check_accepts_metrics_that_were_written_after_the_last_checkpoint(invoke: Invoke) -> None:
    folder = Path(invoke("run", "-q", "--method", "er", *TINY).out.strip())
    (folder / "result.json").unlink()
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"event": "epoch"}\n{"event": "ta')  # a process that was killed while it was writing
    assert invoke("check", str(folder)).code == 0


def test_check_of_something_else_is_not_ok(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in (".", "nowhere", "file", "file/x", "a" * 300):
        done = invoke("check", name)
        assert done.code in (1, 2)
        assert name in done.out + done.err


def test_check_says_what_to_do_with_a_damaged_checkpoint_of_a_finished_run(invoke: Invoke) -> None:
    command = ["run", "-q", "--method", "er", *TINY]
    folder = invoke(*command).out.strip()
    newest = max(Path(folder, "checkpoint").iterdir())
    newest.write_bytes(b"")
    assert "already finished" in invoke(*command).err  # so it repairs nothing
    damaged = invoke("check", folder)
    assert damaged.code == 1
    assert f"{newest}: its 0 bytes do not match the digest in its name; the run is finished, " in damaged.out
    newest.unlink()
    assert invoke("check", folder).code == 0


def test_check_notices_a_checkpoint_of_another_run(invoke: Invoke) -> None:
    a, b = (Path(invoke("run", "-q", "--method", "er", *TINY, f"seed={seed}").out.strip()) for seed in (0, 1))
    (a / "result.json").unlink()
    assert invoke("check", str(a)).code == 0
    other = max((b / "checkpoint").iterdir())
    (a / "checkpoint" / other.name).write_bytes(other.read_bytes())
    done = invoke("check", str(a))
    assert done.code == 1
    assert f"{other.name}: expected a checkpoint of run {a.name}, found {b.name}\n" in done.out
