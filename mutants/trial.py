"""Testing mutants in copies of the repository, each in a process forked from one that has imported torch.

The parent imports libraries only, never remnant, so that each child imports the mutated source from its
copy. It computes nothing: a process that has used several threads must not be forked.
"""

import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from mutants.mutations import Mutant

KILLED = ("killed", "timeout")
CPU_SECONDS = 400  # about four times what the slowest package needs for all of its tests
SECONDS = 3600  # for tests that wait without computing; a busy machine needs longer than an idle one
SLOW = "not slow and not data and not browser"
# Imported once, before the first fork; torch._dynamo is imported by the first optimizer.
LIBRARIES = (
    *(
        "filelock",
        "hypothesis",
        "jinja2",
        "numpy",
        "PIL.Image",
        "pooch",
        "pydantic",
        "pytest",
        "rich.progress",
    ),
    *("safetensors.torch", "scipy.stats", "sklearn.datasets", "sklearn.metrics", "sklearn.mixture"),
    *("tomli_w", "torch", "torch._dynamo", "tqdm", "typer.testing"),
)
COPIED = (
    "src",
    "tests",
    "docs",
    "examples",
    "results",
    "pyproject.toml",
    "README.md",
    "constraints.txt",
    "bench",
)


@dataclass
class Trial:
    """A mutant that is being tested in a copy of the repository, by the process `pid`."""

    mutant: Mutant
    copy: Path
    pid: int
    started: float = field(default_factory=time.monotonic)

    def outcome(self) -> str | None:
        """Return "killed", "timeout" or "survived", or None while tests are running."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            is_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
            return "timeout" if is_late else "killed" if status else "survived"
        if time.monotonic() - self.started < SECONDS:
            return None
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return "timeout"


class Trials:
    """Tests as many mutants at a time as there are workers. Each worker has a copy of the repository."""

    def __init__(self, root: Path, workers: int) -> None:
        self.root = root
        self.folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self.free = [self._copied(self.folder / str(number)) for number in range(workers)]

    def __enter__(self) -> Self:
        for name in LIBRARIES:
            importlib.import_module(name)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, mutants: list[Mutant]) -> Iterator[tuple[Mutant, str]]:
        """Yield each mutant with its outcome, as soon as it is known."""
        waiting, running = list(reversed(mutants)), list[Trial]()
        while waiting or running:
            while waiting and self.free:
                running.append(_start(waiting.pop(), self.free.pop()))
            for trial in list(running):
                if outcome := trial.outcome():
                    running.remove(trial)
                    shutil.copy(self.root / trial.mutant.path, trial.copy / trial.mutant.path)
                    self.free.append(trial.copy)
                    yield trial.mutant, outcome
            time.sleep(0.05)

    def _copied(self, copy: Path) -> Path:
        for name in COPIED:
            into, source = copy / name, self.root / name
            into.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, into)
        # Bytecode that is checked by hash: a mutant may have the time and size of the original.
        command = [
            sys.executable,
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "checked-hash",
            "src",
            "tests",
        ]
        subprocess.run(command, cwd=copy, check=True)
        return copy


def _start(mutant: Mutant, copy: Path) -> Trial:
    (copy / mutant.path).write_text(mutant.source)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
            status = _test(mutant, copy)
        finally:
            os._exit(status)
    return Trial(mutant, copy, pid)


def _test(mutant: Mutant, copy: Path) -> int:
    """Run the tests of a mutant in this process; return 0 if all pass."""
    import pytest

    os.chdir(copy)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(copy / "src"))
    os.environ |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with open(copy / "output.txt", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    words = [
        "-q",
        "-x",
        "-m",
        SLOW,
        "--import-mode=importlib",
        "--hypothesis-seed=0",
        "-p",
        "no:cacheprovider",
    ]
    words += ["-o", "addopts=", "--tb=short", f"--basetemp={copy / 'tmp'}"]
    nearest, rest = _tests_of(mutant.path)
    failed = pytest.main([*words, "--doctest-modules", *nearest])
    if failed and failed != pytest.ExitCode.NO_TESTS_COLLECTED:
        return 1
    return int(bool(pytest.main([*words, rest, *(f"--ignore={name}" for name in nearest)])))


def _tests_of(path: str) -> tuple[list[str], str]:
    """Return the files that test a source file most closely, and the folder of all tests of its package."""
    inside = Path(path).relative_to("src/remnant")
    mirror = Path("tests") / inside.with_name(f"test_{inside.name}")
    return [path, *([str(mirror)] if mirror.exists() else [])], f"tests/{inside.parts[0]}"
