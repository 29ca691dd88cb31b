"""Faults of system calls: the n-th call below a folder fails, or kills the process.

The functions of `os` that change files are replaced in the process at hand. Files that are opened by name are
opened by `_pyio`, the io module of the standard library in Python, whose reads and writes are those of `os`.
"""

import _pyio  # type: ignore[import-not-found]
import builtins
import errno
import io
import mmap
import os
import signal
import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The kinds of calls, by the functions of os that make them; `open` is to read or to write.
KINDS = {
    "open": "open", "write": "write", "ftruncate": "write", "fsync": "fsync", "replace": "rename",
    "rename": "rename", "mkdir": "mkdir", "unlink": "unlink", "remove": "unlink", "rmdir": "unlink",
}  # fmt: skip
CHANGES = ("open to write", "write", "fsync", "rename", "mkdir", "unlink")
APPLIES = {
    "ENOSPC": ("open to write", "write", "fsync", "rename", "mkdir"),
    "EIO": ("open to read", *CHANGES),
    "EACCES": ("open to read", "open to write", "rename", "mkdir", "unlink"),
    "EMFILE": ("open to read", "open to write"),
    "SIGKILL before": CHANGES,
    "SIGKILL amid": ("write",),
    "SIGKILL after": CHANGES,
}


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th call, from 1; without an action, calls are only recorded."""

    nth: int = 0
    action: str = ""  # a key of APPLIES
    is_lasting: bool = False  # all later calls to which the error applies fail as well

    def __str__(self) -> str:
        is_error = self.action and not self.action.startswith("SIGKILL")
        return self.action + ((" from then on" if self.is_lasting else " once") if is_error else "")


def faults_of(kinds: list[str]) -> list[Fault]:
    """Return all faults of a command that makes these calls."""
    return [
        Fault(number, action, is_lasting)
        for number, kind in enumerate(kinds, start=1)
        for action, applies in APPLIES.items()
        if kind in applies
        for is_lasting in ((False,) if action.startswith("SIGKILL") else (False, True))
    ]


class Injector:
    """Counts the calls below a folder, in a process and all that it forks, and makes one of them fail."""

    def __init__(self, folder: Path, fault: Fault) -> None:
        self.folder, self.fault = os.fspath(folder), fault
        self._shared = mmap.mmap(-1, 1 << 20)  # the number of calls, whether one failed, and their kinds

    @property
    def calls(self) -> list[str]:
        """Return the kinds of all calls so far."""
        names = ("open to read", *CHANGES)
        return [names[self._shared[16 + number]] for number in range(self._count())]

    @property
    def has_fired(self) -> bool:
        """Return whether a call failed, or killed its process."""
        return bool(self._shared[8])

    def _count(self) -> int:
        count: int = struct.unpack_from("q", self._shared)[0]
        return count

    def install(self) -> None:
        """Replace the functions of this process."""
        for name, kind in KINDS.items():
            setattr(os, name, self._replaced(getattr(os, name), kind))
        original = io.open

        def open_(file: Any, *args: Any, **kwargs: Any) -> Any:
            is_own = not isinstance(file, int) and self._is_below(file, None)
            return (_pyio.open if is_own else original)(file, *args, **kwargs)

        io.open = builtins.open = tarfile.bltn_open = open_  # type: ignore[attr-defined]

    def _is_below(self, path: Any, folder: int | None) -> bool:
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        elif folder is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
        return os.path.abspath(os.fsdecode(path)).startswith(self.folder)

    def _replaced(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_below(path, kwargs.get("dir_fd")):
                return function(path, *args, **kwargs)
            what = kind
            if kind == "open":
                flags = args[0] if args else kwargs["flags"]
                what = "open to write" if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else "open to read"
            self._before(what, path, lambda: function(path, args[0][: len(args[0]) // 2]))
            done = function(path, *args, **kwargs)
            if self.fault.action == "SIGKILL after" and self._count() == self.fault.nth:
                self._kill()
            return done

        return call

    def _before(self, kind: str, path: Any, write_half: Callable[[], object]) -> None:
        """Count a call; fail if it is its turn. A write to a full disk, or of a killed process, is cut."""
        count = self._count() + 1
        struct.pack_into("q", self._shared, 0, count)
        self._shared[15 + count] = ("open to read", *CHANGES).index(kind)
        fault = self.fault
        is_due = count == fault.nth or (fault.is_lasting and count > fault.nth > 0)
        if not is_due or kind not in APPLIES[fault.action] or fault.action == "SIGKILL after":
            return
        self._shared[8] = 1
        is_cut = kind == "write" and fault.action in ("ENOSPC", "SIGKILL amid")
        if is_cut and count == fault.nth:
            write_half()
        if fault.action.startswith("SIGKILL"):
            self._kill()
        number = getattr(errno, fault.action)
        raise OSError(number, os.strerror(number), None if isinstance(path, int) else os.fspath(path))

    def _kill(self) -> None:
        self._shared[8] = 1
        os.kill(os.getpid(), signal.SIGKILL)
