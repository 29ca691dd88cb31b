"""A lock on a run folder, and signals that stop a run."""

import contextlib
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from filelock import FileLock, Timeout

from remnant.errors import Busy, RemnantError
from remnant.experiment.checkpoint import short_reason


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a run folder and lock it against other processes; it is unlocked when the process ends."""
    path = folder / ".lock"
    # A file that exists is not a lock: locks of earlier runs stay where they are. If the file system has no
    # locks, this is an error.
    lock = FileLock(path, fallback_to_soft=False)
    try:
        (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise RemnantError(
                f"{path}: expected a file, found a folder, link or pipe. Remove it, and try again."
            )
        lock.acquire(timeout=0)
    except Timeout:
        raise Busy(
            f"{folder}: another process is working on this run. Wait for it, or stop it first."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a null character
        where = getattr(error, "filename", None) or folder
        raise RemnantError(
            f"{folder}: the run folder cannot be used ({where}: {short_reason(error)}). Remove "
            "what is in the way, or choose a writable folder with --out (out=...)."
        ) from error
    try:
        yield
    finally:
        lock.release()


class StopSignal:
    """Whether SIGINT or SIGTERM was received; a second signal has its usual effect."""

    def __init__(self) -> None:
        self.received = False

    def __enter__(self) -> "StopSignal":
        is_main = threading.current_thread() is threading.main_thread()  # other threads cannot handle signals
        signals = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        self._before = {number: signal.signal(number, self._receive) for number in signals}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        signal.signal(number, self._before[signal.Signals(number)])
