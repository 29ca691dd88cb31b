import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from cli_helpers import Invoke, remnant

from remnant.errors import Interrupted


def test_importing_the_command_line_does_not_import_torch() -> None:
    code = "import sys, remnant.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["run", "--help"],
        ["list", "--help"],
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
