import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from cli_helpers import TINY, Invoke, remnant

from remnant import cli
from remnant.errors import Interrupted


def test_importing_the_command_line_does_not_import_torch() -> None:
    code = "import sys, remnant.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["run", "-h"],
        ["run", "--help"],
        ["list", "--help"],
        ["check", "--help"],
        ["audit", "--help"],
        ["data", "--help"],
        ["data", "get", "--help"],
        ["data", "check", "--help"],
        ["data", "noise", "--help"],
    ],
)
def test_every_command_has_help(invoke: Invoke, words: list[str]) -> None:
    done = invoke(*words)
    assert done.code == 0
    assert "Usage: remnant" in done.out
    assert not {"<int>", "<float>", "<path>"} & set(done.out.split())
    assert done.err == ""


def test_the_version_is_that_of_the_package(invoke: Invoke) -> None:
    done = invoke("--version")
    assert (done.code, done.out) == (0, f"remnant {version('remnant')}\n")


def test_shell_completion_is_offered(invoke: Invoke) -> None:
    help_text = invoke("--help").out
    assert "--show-completion" in help_text
    assert "--install-completion" in help_text


def test_shell_completion_completes_commands(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("remnant")
    settings = {"_REMNANT_COMPLETE": "complete_bash", "COMP_WORDS": "remnant ", "COMP_CWORD": "1"}
    env = os.environ | settings
    shown = subprocess.run([script], env=env, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert {"run", "list", "data"} <= set(shown.stdout.split())


def test_an_unknown_command_is_an_error(invoke: Invoke) -> None:
    done = invoke("rum")
    assert done.code == 2
    assert "No such command 'rum'" in done.err


def test_a_mistake_is_a_message_without_a_traceback(tmp_path: Path) -> None:
    done = remnant("run", "--method", "aer-sba", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("remnant: the settings cannot be used:\n  - method: ")
    assert "did you mean 'aer-abs'" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_command_exits_with_130(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object, **options: object) -> None:
        raise Interrupted("stopped after step 3")

    monkeypatch.setattr("remnant.experiment.run.execute", stop)
    done = invoke("run")
    assert done.code == 130
    assert "remnant: stopped after step 3" in done.err


LIST = f"{sys.executable} -m remnant list methods"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (f"{LIST} | head -1; exit ${{PIPESTATUS[0]}}", 1, ""),
        (f"{LIST} >&-", 0, ""),
        (f"{LIST} >&- 2>&-", 0, ""),
        (
            f"{LIST} > /dev/full",
            2,
            "remnant: a file, or the output, cannot be used: No space left on device.\n",
        ),
    ],
)
def test_output_that_cannot_be_written_is_not_a_traceback(
    tmp_path: Path, command: str, code: int, message: str
) -> None:
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, message)


@pytest.mark.slow
def test_a_run_can_be_shown_in_any_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ASCII.items():
        monkeypatch.setenv(name, value)
    words = [
        b"run",
        b"--out",
        b"caf\xe9 \xc3\xa9",
        *(word.encode() for word in (*TINY, "method=er", "tasks=1")),
    ]
    command = [os.fsencode(sys.executable), b"-m", b"remnant", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    folder = done.stdout.splitlines()[-1]
    assert folder.startswith(b"caf\xe9 \xc3\xa9/digits-er-")  # exactly, for scripts
    assert os.path.exists(os.path.join(os.fsencode(tmp_path), folder, b"result.json"))
    assert b"caf\\udce9" in done.stdout  # for people


def test_too_little_address_space_for_torch_is_an_error(tmp_path: Path) -> None:
    command = f"ulimit -v 600000; {sys.executable} -m remnant run -q"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "remnant: expected at least 0.7 GB of memory to load torch, but this process may use 0.6 GB only. "
        "Raise the limit: ulimit -v unlimited\n"
    )
    assert not list(tmp_path.iterdir())


def test_an_interruption_before_training_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["remnant", "list", "methods"])
    monkeypatch.setattr("remnant.cli.listing.show", interrupt)
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert done.value.code == 130
    assert capsys.readouterr().err == "remnant: interrupted. Run the same command again.\n"
