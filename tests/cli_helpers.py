"""Running commands of the command line, in this process or in one of their own."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from remnant.cli import main

TINY = ["per_class=12", "net=small:4", "epochs=2", "buffer_size=20", "batch=8"]
NO_BUFFER = [word for word in TINY if "buffer" not in word]  # for finetune


def remnant(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "remnant", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    code: object
    out: str
    err: str


class Invoke:
    """Runs commands in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *words: str) -> Done:
        self.monkeypatch.setattr("sys.argv", ["remnant", *words])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        return Done(code, *self.capsys.readouterr())
