"""Claims on runs, so that two sweeps on one folder do not start the same run.

A claim is a locked file. The operating system unlocks it when its process ends in any way, so a claim never
outlives its process, and there is nothing to expire.
"""

from pathlib import Path

from filelock import FileLock, Timeout

from remnant.errors import RemnantError


class Claims:
    """The claims of this process on runs below a folder."""

    def __init__(self, out: Path) -> None:
        self.folder = out / ".sweep" / "claims"
        self._locks: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        """Claim a run; return whether it is not claimed by another process."""
        lock = FileLock(self._path(key), fallback_to_soft=False)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError as error:
            raise RemnantError(
                f"{self.folder}: cannot be used ({error.strerror}). Choose a writable folder with --out."
            ) from error
        self._locks[key] = lock
        return True

    def release(self, key: str) -> None:
        """Give up a claim."""
        self._locks.pop(key).release()

    def close(self) -> None:
        """Give up all claims."""
        for key in list(self._locks):
            self.release(key)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key[:16]}.lock"
