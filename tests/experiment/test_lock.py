import errno
import fcntl
import os
import signal
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from remnant.errors import RemnantError
from remnant.experiment.lock import StopSignal, locked
from remnant.sweep.claims import Claims


def test_a_folder_is_created_and_locked_until_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with locked(folder):
        assert (folder / "checkpoint").is_dir()
        with pytest.raises(RemnantError, match="another process is working on this run"), locked(folder):
            pass
    with locked(folder):
        pass


def test_a_folder_that_another_lock_holds_is_an_error(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".lock"), pytest.raises(RemnantError, match="Wait for it"), locked(tmp_path):
        pass


def test_a_file_system_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_implemented(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    (tmp_path / ".lock").touch()  # left by an earlier run
    monkeypatch.setattr(fcntl, "flock", not_implemented)
    with pytest.raises(RemnantError, match="Function not implemented"), locked(tmp_path):
        pass
    with pytest.raises(RemnantError, match="Function not implemented"):
        Claims(tmp_path).take("a" * 64)


def test_a_folder_is_unlocked_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        _ = 1 / 0
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    expected = r"file/run/checkpoint: Not a directory.*choose a writable folder with --out \(out="
    with pytest.raises(RemnantError, match=expected), locked(tmp_path / "file" / "run"):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_once_and_handlers_are_restored(number: signal.Signals) -> None:
    received: list[int] = []
    before = signal.signal(number, lambda n, frame: received.append(n))
    try:
        with StopSignal() as stop:
            assert not stop.received
            os.kill(os.getpid(), number)
            assert stop.received
            assert received == []
            os.kill(os.getpid(), number)  # the second one has its usual effect
            assert received == [number]
        os.kill(os.getpid(), number)
        assert received == [number] * 2
    finally:
        signal.signal(number, before)


def test_signals_are_left_alone_outside_the_main_thread() -> None:
    handler, inside = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with StopSignal() as stop:
            inside.append((signal.getsignal(signal.SIGINT), stop.received))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [(handler, False)]
