"""What a run does to its process: compute threads, a lock on its folder, an ear for signals."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import torch
from filelock import FileLock, Timeout

from remnant.errors import RemnantError


@contextlib.contextmanager
def compute(threads: int) -> Iterator[None]:
    """Compute on this many threads, and put the number back afterwards.

    On a CPU a fixed number of threads is all that the same bits need.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a run folder and keep other processes out of it; the lock dies with the process."""
    lock = FileLock(folder / ".lock")
    try:
        (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise RemnantError(
            f"{folder}: another process is working on this run. Wait for it, or stop it first."
        ) from None
    except OSError as error:
        raise RemnantError(
            f"{folder}: the run folder cannot be made ({error.strerror}). "
            "Choose a place that can be written to with --out."
        ) from error
    try:
        yield
    finally:
        lock.release()


class Stop:
    """Whether a signal asked to stop; a second one is not held back."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> "Stop":
        is_main = threading.current_thread() is threading.main_thread()  # no other hears signals
        heard = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        self._before = {number: signal.signal(number, self._ask) for number in heard}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(number, self._before[signal.Signals(number)])
