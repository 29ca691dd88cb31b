import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import NO_BUFFER, TINY, Invoke, remnant
from run_helpers import assert_identical

from remnant.cli.run import parse
from remnant.errors import RemnantError


@pytest.mark.slow
def test_the_last_line_printed_is_the_run_folder(tmp_path: Path) -> None:
    done = remnant("run", *TINY, cwd=tmp_path)
    assert done.returncode == 0
    folder = tmp_path / done.stdout.splitlines()[-1]
    assert json.loads((folder / "result.json").read_text())["finished"]
    for words in ("final average accuracy", "buffer purity", "noisy labels stored", "Try next"):
        assert words in done.stdout
    assert "after task 5: accuracy per task" in done.stdout
    assert "\x1b" not in done.stdout


def test_words_are_a_recipe_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse([], []) == (None, {})
    assert parse(["digits", "lr = 0.1"], ["noise=a=b"]) == ("digits", {"noise": "a=b", "lr": 0.1})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=1").mkdir()
    assert parse(["lr=1"], []) == ("lr=1", {})  # a folder of this name
    assert parse([f"lr={'1' * 5000}"], [])[0] is None  # no file can have such a name
    with pytest.raises(RemnantError, match="expected one recipe, got a, b"):
        parse(["a", "b"], [])
    with pytest.raises(RemnantError, match=r"expected key=value, got 'lr'. Write settings as lr=0\.1\."):
        parse([], ["lr"])
    with pytest.raises(RemnantError, match="expected each setting once, got lr twice"):
        parse(["lr=0.5"], ["lr=0.25"])


def test_common_settings_are_options(invoke: Invoke) -> None:
    options = ["--epochs", "2", "--lr", "0.05", "--buffer-size", "20", "--batch", "8", "--net", "small:4"]
    a = invoke("run", "-q", "per_class=12", *options, "--seed", "1")
    assert a.code == 0, a.err
    words = ["epochs=2", "lr=0.05", "buffer_size=20", "batch=8", "net=small:4", "seed=1"]
    assert invoke("run", "-q", "--per-class", "12", *words).out == a.out


def test_a_folder_may_have_brackets_and_an_equals_sign_in_its_name(invoke: Invoke) -> None:
    done = invoke("run", "--out", "a[/b]lr=1", "--method", "finetune", *NO_BUFFER)
    assert done.code == 0
    folder = done.out.splitlines()[-1]
    again = invoke("run", f"{folder}/config.toml", "--out", "a[/b]lr=1")
    assert "this run is already finished" in again.out
    assert again.out.splitlines()[-1] == folder
    assert invoke("run", folder, "--out", "a[/b]lr=1", "-q").out == f"{folder}\n"


def test_suggested_commands_work_again_when_the_run_is_shown_again(invoke: Invoke) -> None:
    words = ["--method", "er", *TINY[:2], *TINY[3:], "epochs=1", "--data-dir", "my data"]
    done = invoke("run", *words)
    # aer-abs would need two epochs.
    command = "per_class=12 net=small:4 buffer_size=20 batch=8 epochs=1 --method er-ace --data-dir 'my data'"
    assert f"remnant run {command}\n" in done.out
    assert f"remnant run {command}\n" in invoke("run", *words).out
    assert invoke("run", *shlex.split(command)).code == 0
    again = invoke("run", done.out.splitlines()[-1])
    assert f"remnant run {done.out.splitlines()[-1]} --seed 1\n" in again.out


def test_quiet_prints_the_folder_and_nothing_else(invoke: Invoke) -> None:
    done = invoke("run", "--quiet", "--method", "finetune", *NO_BUFFER)
    assert len(done.out.splitlines()) == 1
    assert done.err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "aer-sba"], "did you mean 'aer-abs'"),
        (["digit"], "did you mean 'digits'"),
        (["lr=fast", "epochs=0"], "epochs:"),
        (["a", "b"], "expected one recipe"),
        (["buffer_size=20", "--set", "buffer_size=50"], "each setting once, got buffer_size"),
        (["buffer=20"], "'buffer' has been renamed: use 'buffer_size'"),
        (["--set", "learner.expert_steps=3"], "'learner' has been renamed: use 'algorithm'"),
        (["cifar10", "--data-dir", "nowhere"], "remnant data get cifar10"),
        (["--noise", "file:nowhere.npy"], "nowhere.npy"),
        (["--noise", f"symmetric:1{'0' * 400}"], "rate expects a number, got 1000"),
        (["--noise", f"symmetric:1{'0' * 5000}"], "rate expects a number, got '1000"),
        ([f"noise=symmetric:1{'0' * 5000}"], "rate expects a number, got '1000"),
        (["out=here"], "unknown key 'out'"),
        (["force=true", "loggers=3", "data_dir=x"], "unknown key 'loggers'"),
        (["--set", "lr"], "expected key=value, got 'lr'"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(
    invoke: Invoke, tmp_path: Path, words: list[str], message: str
) -> None:
    done = invoke("run", *words)
    assert done.code == 2
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def test_force_and_strict_reach_the_run(invoke: Invoke) -> None:
    words = ["run", "--method", "finetune", "--strict", "--save-every", "0", *NO_BUFFER]
    folder = Path(invoke(*words).out.splitlines()[-1])
    before = (folder / "result.json").stat().st_mtime_ns
    assert "already finished" in invoke(*words).out
    assert "already finished" not in invoke(*words, "--force").out
    assert (folder / "result.json").stat().st_mtime_ns != before


def test_tensorboard_events_are_written_if_asked_for(invoke: Invoke) -> None:
    pytest.importorskip("tensorboard")
    words = ["run", "-q", "--method", "finetune", *NO_BUFFER]
    folder = Path(invoke(*words, "--tensorboard").out.strip())
    assert list((folder / "tensorboard").iterdir())
    assert not (Path(invoke(*words, "--seed", "1").out.strip()) / "tensorboard").exists()


@pytest.mark.slow
def test_ctrl_c_saves_and_the_same_command_resumes(invoke: Invoke, tmp_path: Path) -> None:
    words = ["run", *TINY, "epochs=12"]
    words.remove("epochs=2")
    command = [sys.executable, "-m", "remnant", *words]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        while "epoch " not in run.stdout.readline():
            pass
        os.kill(run.pid, signal.SIGINT)
        err = run.stderr.read()
        assert run.wait() == 130
    assert "remnant: stopped after step" in err
    assert "same command" in err
    (folder,) = (tmp_path / "runs").iterdir()
    assert list((folder / "checkpoint").iterdir())
    resumed = invoke(*words)
    assert "resuming after step" in resumed.out
    whole = invoke(*words, "--out", "whole")
    assert_identical(Path(whole.out.splitlines()[-1]), folder)


def test_a_run_folder_is_resumed_where_it_is(invoke: Invoke, tmp_path: Path) -> None:
    first = invoke("run", "--quiet", "--out", str(tmp_path / "elsewhere"), *TINY)
    folder = first.out.splitlines()[-1]
    again = invoke("run", folder)
    assert again.code == 0
    assert "already finished" in again.out
    assert Path(again.out.splitlines()[-1]).resolve() == Path(folder).resolve()
    assert not (tmp_path / "runs").exists()
