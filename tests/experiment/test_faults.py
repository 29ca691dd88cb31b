"""Damaged files in run folders: each is a message or is repaired, and the results stay the same bytes."""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_helpers import Invoke
from conftest import tiny_config
from run_helpers import StopAt, without_cost

from remnant.config import Config
from remnant.errors import Interrupted, RemnantError
from remnant.experiment import checkpoint
from remnant.experiment.result import check_run
from remnant.experiment.run import execute
from remnant.experiment.runner import Options

FILES = ("config.toml", "metrics.jsonl", "buffer.safetensors")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes() or b"x")
    middle = len(content) // 2
    # A letter: another last digit of a float may be the same number.
    content[next((i for i in range(middle, len(content)) if chr(content[i]).isalpha()), middle)] ^= 1
    path.write_bytes(content)


def replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a function that puts something else in the place of a file."""

    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": flip,
    "empty": lambda path: path.write_bytes(b""),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe\x00{" + path.read_bytes()),
    "removed": Path.unlink,
    "folder": replaced(lambda path: (path / "inside").mkdir(parents=True)),
    "fifo": replaced(os.mkfifo),
    "dangling link": replaced(lambda path: path.symlink_to("nowhere")),
    "link loop": replaced(lambda path: path.symlink_to(path.name)),
}


@contextlib.contextmanager
def without_hanging() -> Iterator[None]:
    """Raise if the body blocks, for example because it reads from a pipe."""

    def fail(*_: object) -> None:
        raise TimeoutError("the command hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def config() -> Config:
    """A few steps in two tasks."""
    return tiny_config(method="er", tasks=2, epochs=2, batch=32)


@pytest.fixture(scope="module")
def finished(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return execute(config, Options(out=tmp_path_factory.mktemp("finished")), [])


@pytest.fixture(scope="module")
def interrupted(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted twice, and has two checkpoints."""
    out = tmp_path_factory.mktemp("interrupted")
    for steps in (3, 2):
        with pytest.raises(Interrupted):
            execute(config, Options(out=out), [StopAt(steps)])
    return next(out.iterdir())


def rerun(config: Config, folder: Path) -> list[str]:
    """Run the same command; if it ends with a message, remove what it names and run it again."""
    logger = StopAt(0)
    with without_hanging():
        try:
            execute(config, Options(out=folder.parent), [logger])
        except RemnantError as error:
            (named,) = [path for path in folder.rglob("*") if f"{path}:" in str(error)]
            named.rename(folder.parent / "removed")
            execute(config, Options(out=folder.parent), [logger])
    return logger.notes


def assert_same_results(a: Path, b: Path) -> None:
    assert without_cost(a) == without_cost(b)
    for name in FILES:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    assert not list(b.rglob("*.part"))
    assert not any(check_run(b).values())


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_file_of_a_finished_run_is_reported_and_written_again(
    config: Config, finished: Path, tmp_path: Path, kind: str
) -> None:
    for name in ("result.json", *FILES):
        folder = shutil.copytree(finished, tmp_path / name / finished.name)
        DAMAGES[kind](folder / name)
        with without_hanging():
            states = check_run(folder)
        is_gone = not os.path.lexists(folder / "result.json")  # without results it is an unfinished run
        assert is_gone or [n for n, problem in states.items() if problem] == [name]
        notes = rerun(config, folder)
        assert is_gone or f"{name} is damaged" in notes[0]
        assert any("resuming after step" in note for note in notes)
        assert os.path.lexists(folder / f"{name}.damaged") == (kind != "removed" and not is_gone)
        assert_same_results(finished, folder)


@pytest.mark.parametrize("kind", DAMAGES)
def test_an_interrupted_run_with_a_damaged_file_ends_with_the_same_result(
    config: Config, finished: Path, interrupted: Path, tmp_path: Path, kind: str
) -> None:
    newest, oldest = checkpoint.generations(interrupted / "checkpoint")
    for path in (
        interrupted / "config.toml",
        interrupted / "metrics.jsonl",
        interrupted / ".lock",
        newest,
        oldest,
    ):
        folder = shutil.copytree(interrupted, tmp_path / path.name / interrupted.name)
        DAMAGES[kind](folder / path.relative_to(interrupted))
        with without_hanging():
            states = check_run(folder)
        if path == newest and kind != "removed":
            assert states[f"checkpoint/{newest.name}"]
        notes = rerun(config, folder)
        assert f"resuming after step {3 if path == newest else 5}" in notes[-1]
        assert_same_results(finished, folder)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_run_without_any_intact_checkpoint_is_an_error_and_keeps_its_files(
    config: Config, interrupted: Path, tmp_path: Path, kind: str
) -> None:
    folder = shutil.copytree(interrupted, tmp_path / interrupted.name)
    for path in checkpoint.generations(folder / "checkpoint"):
        DAMAGES[kind](path)
    before = sorted(os.listdir(folder / "checkpoint"))
    if kind == "removed":
        assert not rerun(config, folder)  # nothing to resume from
        return
    with without_hanging(), pytest.raises(RemnantError, match=r"no checkpoint can be used.*force=True"):
        execute(config, Options(out=tmp_path), [])
    assert sorted(os.listdir(folder / "checkpoint")) == before


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k in ("truncated", "fifo") else [pytest.mark.slow]) for k in DAMAGES]
)
def test_every_command_that_reads_a_damaged_file_prints_a_message(
    invoke: Invoke, finished: Path, tmp_path: Path, kind: str
) -> None:
    for name in ("result.json", "config.toml", ".lock"):
        folder = shutil.copytree(finished, tmp_path / name / finished.name)
        DAMAGES[kind](folder / name)
        commands = (
            ["check"],
            ["run", "--out", str(folder.parent), "--dry-run"],
            ["run", "--out", str(folder.parent)],
        )
        for words in commands:
            with without_hanging():
                done = invoke(*words, str(folder))
            assert done.code in (0, 1, 2)
            assert done.code == 0 or str(folder) in done.out + done.err


def test_a_damaged_run_without_checkpoints_keeps_its_results(
    config: Config, finished: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(finished, tmp_path / finished.name)
    shutil.rmtree(folder / "checkpoint")
    (folder / "metrics.jsonl").unlink()
    before = (folder / "result.json").read_bytes()
    for _ in range(2):
        with pytest.raises(RemnantError, match=r"metrics\.jsonl: damaged .*no checkpoint .*force=True"):
            execute(config, Options(out=tmp_path), [])
    assert (folder / "result.json").read_bytes() == before


def test_stray_files_among_the_checkpoints_are_ignored(
    config: Config, finished: Path, interrupted: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(interrupted, tmp_path / interrupted.name)
    place = folder / "checkpoint"
    (place / "12-abc.safetensors").write_text("mine")
    (place / "99999999-weights.safetensors").mkdir()
    (place / "00000000-0123456789abcdef.safetensors").mkdir()  # like an old checkpoint
    (place / "99999999-0123456789abcdef.safetensors").mkdir()  # like the newest one
    (place / "½-0123456789abcdef.safetensors").write_text("mine")
    rerun(config, folder)
    assert (place / "12-abc.safetensors").read_text() == "mine"
    assert (place / "99999999-0123456789abcdef.safetensors.damaged").is_dir()
    assert without_cost(folder) == without_cost(finished)
