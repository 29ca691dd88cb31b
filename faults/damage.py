"""Damage to files: what a disk, a backup tool or a user may do to a file between two commands."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes() or b"x")
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def _obeys_permissions() -> bool:
    """Return whether this process cannot read a file without permissions; root usually can."""
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0)
        try:
            Path(file.name).read_bytes()
        except PermissionError:
            return True
    return False


DAMAGES: dict[str, Callable[[Path], object]] = {
    "file truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "byte flipped": _flip,
    "file emptied": lambda path: path.write_bytes(b""),
    "file removed": Path.unlink,
    "folder instead": _replaced(lambda path: (path / "inside").mkdir(parents=True)),
    "FIFO instead": _replaced(os.mkfifo),
    "link to nowhere instead": _replaced(lambda path: path.symlink_to("nowhere")),
    **({"no permissions": lambda path: path.chmod(0)} if _obeys_permissions() else {}),
}
