"""Commands in forked processes: everything is imported already, so that one takes a fraction of a second."""

import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from inject import Fault, Injector

TIMEOUT = 60  # seconds until a command counts as one that hangs


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int  # exit code, or minus the signal
    output: str  # of standard output and standard error
    has_fired: bool = False
    calls: tuple[str, ...] = ()
    hangs: bool = False


def run(words: Sequence[str], folder: Path, fault: Fault, before: Callable[[], None] = lambda: None) -> Ended:
    """Run a command with a fault of the calls below a folder; `before` is called in its process first."""
    injector = Injector(folder, fault)
    pid, pipe = start(words, [before, injector.install])
    output, hangs = _read(pipe, time.monotonic() + TIMEOUT)
    if hangs:
        os.killpg(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Ended(status, output, injector.has_fired, tuple(injector.calls), hangs)


def start(words: Sequence[str], before: Sequence[Callable[[], None]]) -> tuple[int, int]:
    """Start a command; return its process and a pipe, which ends with it and all processes that it starts."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.setsid()
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
        for prepare in before:
            prepare()
        status = _call_main(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _call_main(words: Sequence[str]) -> int:
    from remnant.cli import main

    sys.argv = ["remnant", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _read(pipe: int, deadline: float) -> tuple[str, bool]:
    """Return what a command prints, and whether it hangs."""
    parts = []
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        parts.append(os.read(pipe, 1 << 16))
        if not parts[-1]:
            break
    else:
        parts.append(b"")
        os.close(pipe)
        return b"".join(parts).decode(errors="replace"), True
    os.close(pipe)
    return b"".join(parts).decode(errors="replace"), False


def finish(pid: int, pipe: int) -> Ended:
    """Wait for a command that was started."""
    output, hangs = _read(pipe, time.monotonic() + TIMEOUT)
    if hangs:
        os.killpg(pid, signal.SIGKILL)
    return Ended(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output, hangs=hangs)


def limit_memory(margin: int) -> Callable[[], None]:
    """Return a function that lets this process allocate so many bytes more than it has now."""

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + margin
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    return limit


class ForkedProcess:
    """A worker of a sweep that is forked instead of started; it is used like subprocess.Popen."""

    def __init__(self, command: Sequence[str], stdin: int, stdout: int, stderr: IO[bytes]) -> None:
        (jobs, to_worker), (from_worker, answers) = os.pipe(), os.pipe()
        self.pid, self._status = os.fork(), None
        if not self.pid:
            for target, source in enumerate((jobs, answers, stderr.fileno())):
                os.dup2(source, target)
            os.close(to_worker)
            os.close(from_worker)
            from remnant.sweep.backends.worker import main

            sys.stdin = os.fdopen(0, closefd=False)
            try:
                main()
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.close(jobs)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(to_worker, "wb"), os.fdopen(from_worker, "rb")
        self._status: int | None = None

    def wait(self) -> int:
        """Return minus the signal that ended the process, or its exit code."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def poll(self) -> int | None:
        """Return None: whether it has ended is not needed."""
        return self._status

    def terminate(self) -> None:
        """Send SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)
