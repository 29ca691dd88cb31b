"""Testing mutants in copies of the repository, each in a process forked from one that has imported torch.

The parent imports libraries only, never remnant, so that each child imports the mutated source from its
copy. It computes nothing: a process that has used several threads must not be forked.
"""

import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from mutants.calls import Calls, Only, Recorder, with_records
from mutants.mutations import Mutant

KILLED = ("killed", "timeout")
FACTOR, LEAST = 4, 20  # CPU seconds of a mutant: this many times those of its tests without a change
SECONDS = 3600  # for tests that wait without computing; a busy machine needs longer than an idle one
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


WORDS = (
    *("-q", "-m", "not slow and not data and not browser", "--import-mode=importlib"),
    *("--doctest-modules", "--hypothesis-seed=0", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=short"),
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
        self.calls: dict[str, Calls] = {}  # by package

    def __enter__(self) -> Self:
        for name in LIBRARIES:
            importlib.import_module(name)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def measure(self, package: str) -> None:
        """Run the tests of a package without any change, and record which functions they call."""
        copy, written = self.free[0], self.folder / f"{package}.json"
        files = [file.relative_to(self.root) for file in self.root.glob(f"src/remnant/{package}/**/*.py")]
        for file in files:
            (copy / file).write_text(with_records(str(file), (self.root / file).read_text()))
        paths = [f"src/remnant/{package}", f"tests/{package}"]
        os.waitpid(_fork(lambda: _pytest(copy, paths, Recorder(written))), 0)
        if not written.exists() or not json.loads(written.read_text()):
            sys.exit(f"The tests of {package} did not run:\n{(copy / 'output.txt').read_text()[-2000:]}")
        for file in files:
            shutil.copy(self.root / file, copy / file)
        self.calls[package] = Calls(written)
        for name in self.calls[package].left_out:
            print(f"left out, because it fails without a mutation: {name}", flush=True)

    def run(self, mutants: list[Mutant]) -> Iterator[tuple[Mutant, str]]:
        """Yield each mutant with its outcome, as soon as it is known."""
        waiting, running = list(reversed(mutants)), list[Trial]()
        while waiting or running:
            while waiting and self.free:
                running.append(self._start(waiting.pop(), self.free.pop()))
            for trial in list(running):
                if outcome := trial.outcome():
                    running.remove(trial)
                    shutil.copy(self.root / trial.mutant.path, trial.copy / trial.mutant.path)
                    self.free.append(trial.copy)
                    yield trial.mutant, outcome
            time.sleep(0.05)

    def _start(self, mutant: Mutant, copy: Path) -> Trial:
        calls = self.calls[mutant.package]
        tests = calls.tests_of(mutant, (self.root / mutant.path).read_text())
        files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
        limit = round(LEAST + FACTOR * sum(calls.seconds[name] for name in tests))
        (copy / mutant.path).write_text(mutant.source)

        def test() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            return _pytest(copy, ["-x", *files], Only(tests)) if tests else 0

        return Trial(mutant, copy, _fork(test))

    def _copied(self, copy: Path) -> Path:
        for name in COPIED:
            into, source = copy / name, self.root / name
            into.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, into)
        # Bytecode that is checked by hash: a mutant may have the time and size of the original.
        checked = ("--invalidation-mode", "checked-hash")
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", *checked, "src", "tests"], cwd=copy, check=True
        )
        return copy


def _fork(work: Callable[[], int]) -> int:
    """Run a function in a new process, whose exit status it returns; return the number of the process."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setsid()
            status = work()
        finally:
            os._exit(status)
    return pid


def _pytest(copy: Path, words: list[str], plugin: object) -> int:
    """Run tests of a copy in this process; return 0 if all pass. The words are options and paths."""
    os.chdir(copy)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(copy / "src"))
    os.environ |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with open(copy / "output.txt", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    return int(bool(pytest.main([*WORDS, f"--basetemp={copy / 'tmp'}", *words], plugins=[plugin])))
