"""Finding, checking and downloading the files of a published dataset.

The data folder is set by `--data-dir` or REMNANT_DATA. If neither is set, the user's cache is used, and
loading a dataset downloads missing files. The hash of a file is checked whenever the file is read.
"""

import contextlib
import gzip
import hashlib
import lzma
import os
import shlex
import shutil
import sys
import tarfile
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from remnant.errors import MissingFiles, RemnantError
from remnant.settings import read_file, user_path

TEMPORARY = ".download-"  # start of the names of temporary folders
LOCK = ".remnant.lock"
# Errors raised by reading an array file (.npy, .npz) that has another format, is damaged, encrypted or
# compressed by an unknown method. A damaged array header can be invalid Python or specify a huge size.
ARRAY_READ_ERRORS = (
    *(OSError, EOFError, KeyError, TypeError, ValueError, MemoryError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(tokenize.TokenError, SyntaxError),
)
MAX_HEADER = 1000  # characters in the header of an array file; numpy needs seconds for one of 10,000 blanks


@dataclass(frozen=True)
class Download:
    """One file on the publisher's server."""

    url: str
    md5: str  # of the downloaded file
    files: tuple[str, ...]  # names of the data files it contains
    folder: str | None = None  # folder of these files in the download, if it is a tar archive


@dataclass(frozen=True)
class DataFiles:
    """The files of a dataset and where they come from."""

    name: str  # as in `remnant data get NAME`
    md5: Mapping[str, str]  # file name -> md5 of its content, decompressed for *.gz
    downloads: tuple[Download, ...]
    places: tuple[str, ...]  # subfolders of the data folder to search; the first is used for downloads
    installed: Path | None = None  # folder in which a package of the operating system installs the files


@dataclass(frozen=True)
class Place:
    """The folder that contains, or will contain, the files of a dataset."""

    files: DataFiles
    path: Path
    data_dir: Path | None  # the data folder chosen by the user, if any


@dataclass(frozen=True)
class FileCheck:
    """The result of checking one data file."""

    path: Path
    problem: str | None  # what was expected and found, or None if the file is as published
    exists: bool


def data_dir(option: Path | None) -> Path | None:
    """Return the data folder chosen by the user: the option, else REMNANT_DATA, else None."""
    chosen = option or os.environ.get("REMNANT_DATA")
    return user_path(chosen) if chosen else None


def root(folder: Path | None) -> Path:
    """Return the data folder: the one chosen by the user, or the user's cache."""
    import pooch

    return folder or Path(pooch.os_cache("remnant"))


def data_dir_option(folder: Path | None) -> str:
    """Return the option, with a leading space, that makes a command use this data folder."""
    return "" if folder is None else f" --data-dir {shlex.quote(str(folder))}"


def repair_command(name: str, folder: Path | None) -> str:
    """Return the command that downloads missing and damaged files of this name."""
    return f"remnant data get {name}{data_dir_option(folder)}"


def locate(files: DataFiles, folder: Path | None, *, writable: bool = False) -> Place:
    """Return the first place that contains every file, or the place to download them to if none does.

    The folder `files.installed` is searched last, and only if the user chose no data folder and the place
    need not be writable.
    """
    parent = root(folder)
    candidates = [parent / place for place in files.places]
    if parent.name == Path(files.places[0]).name:
        candidates.insert(0, parent)
    if folder is None and files.installed and not writable:
        candidates.append(files.installed)
    complete = (c for c in candidates if all((c / name).is_file() for name in files.md5))
    return Place(files, next(complete, candidates[0]), folder)


def prepare(files: DataFiles, folder: Path | None) -> Place:
    """Return the place of the files; if the user chose no data folder, download missing files."""
    place = locate(files, folder)
    missing = {name for name in files.md5 if not (place.path / name).exists()}
    if missing and folder is None:
        _fetch(place, missing)
    return place


def require(files: DataFiles, folder: Path | None) -> None:
    """Raise MissingFiles if a file is missing, without downloading anything."""
    place = locate(files, folder)
    missing = [name for name in files.md5 if not (place.path / name).exists()]
    if missing:
        urls = ", ".join(d.url for d in files.downloads if set(d.files).intersection(missing))
        who = f"a run downloads {urls}, as does" if folder is None else f"to download {urls}"
        raise MissingFiles(
            f"{place.path}: expected {', '.join(missing)}, found nothing; {who}: "
            f"{repair_command(files.name, folder)}"
        )


def read(place: Place, name: str) -> bytes:
    """Return the uncompressed content of one file, after checking that it is as published."""
    path = place.path / name
    try:
        return _read(path, place.files.md5[name])
    except _MismatchError as problem:
        command = repair_command(place.files.name, place.data_dir)
        raise RemnantError(f"{path}: {problem}; to repair it: {command}") from problem


def check(files: DataFiles, folder: Path | None) -> list[FileCheck]:
    """Check every file."""
    return _check(locate(files, folder))


def get(files: DataFiles, folder: Path | None) -> str:
    """Download missing and damaged files; return a sentence that describes what was done."""
    checks = check(files, folder)
    if not any(c.problem for c in checks):
        clear(checks[0].path.parent)
        return (
            f"{files.name}: all {len(checks)} files in {checks[0].path.parent} match the published ones; "
            "nothing to download"
        )
    place = locate(files, folder, writable=True)
    damaged = {c.path.name for c in _check(place) if c.problem}
    _fetch(place, damaged)
    return f"{files.name}: downloaded {', '.join(sorted(damaged))} to {place.path}"


class _MismatchError(Exception):
    """A file differs from the published one; the message says what was expected and found."""


def _check(place: Place) -> list[FileCheck]:
    checks = []
    for name, md5 in place.files.md5.items():
        path = place.path / name
        problem = None
        try:
            _read(path, md5)
        except _MismatchError as error:
            problem = str(error)
        checks.append(FileCheck(path, problem, path.exists()))
    return checks


def _read(path: Path, md5: str) -> bytes:
    is_gzip = path.suffix == ".gz"
    expected = f"expected md5 {md5}{' after decompression' if is_gzip else ''}"
    try:
        content = raw = read_file(path)
        if is_gzip:
            content = gzip.decompress(raw)
    except FileNotFoundError as error:
        raise _MismatchError("expected a file, found nothing") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _MismatchError(
            f"{expected}, found {len(raw):,} bytes of damaged gzip data ({error})"
        ) from error
    except OSError as error:
        raise _MismatchError(f"expected a readable file, found: {error.strerror}") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise _MismatchError(f"{expected}, found {found} ({len(raw):,} bytes)")
    return content


def _fetch(place: Place, names: Collection[str]) -> None:
    """Download these files; each is moved into its place only after it is complete and checked."""
    import filelock

    try:
        place.path.mkdir(parents=True, exist_ok=True)
        # The lock prevents concurrent runs from downloading the same files.
        with filelock.FileLock(place.path / LOCK, fallback_to_soft=False):
            damaged = {c.path.name for c in _check(place) if c.problem}.intersection(names)
            for download in place.files.downloads:
                if wanted := damaged.intersection(download.files):
                    _download(place, download, wanted)
    except OSError as error:
        raise RemnantError(
            f"{place.path}: expected a writable folder, found: {error}; choose another one with --data-dir "
            "(data_dir=...)"
        ) from error


def clear(target: Path) -> None:
    """Remove what killed downloads left in a folder that is complete; failures are left to the next one."""
    import filelock

    if any(target.glob(f"{TEMPORARY}*")):
        lock = filelock.FileLock(target / LOCK, timeout=0, fallback_to_soft=False)
        with contextlib.suppress(OSError), lock:
            _remove_leftovers(target)


def _remove_leftovers(target: Path) -> None:
    for leftover in target.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _download(place: Place, download: Download, names: Collection[str]) -> None:
    with download_folder(place.path) as temporary:
        advice = (
            f"to download manually, put {', '.join(download.files)} into {place.path}, "
            "or choose a folder that contains them with --data-dir (data_dir=...)"
        )
        downloaded = retrieve(download.url, f"md5:{download.md5}", temporary, advice)
        unpacked = downloaded.parent
        if download.folder is not None:
            _extract(downloaded, download.url)
            unpacked /= download.folder
        for name in sorted(names):
            try:
                _read(unpacked / name, place.files.md5[name])
            except _MismatchError as problem:
                raise RemnantError(f"{name} in {download.url}: {problem}") from problem
            (unpacked / name).chmod(0o644)  # pooch makes downloads readable by their owner only
            (unpacked / name).replace(place.path / name)


@contextlib.contextmanager
def download_folder(target: Path) -> Iterator[Path]:
    """Create a temporary folder inside a target folder, so that moving a file out of it is atomic.

    The target must be locked: folders that killed processes left there are removed. On a disk that fails,
    deleting may fail as well, which is no reason to fail; `tempfile.TemporaryDirectory` would call itself
    without end.
    """
    _remove_leftovers(target)
    temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=target))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(path: Path, url: str) -> None:
    try:
        with tarfile.open(path) as archive:
            archive.extractall(path.parent, filter="data")
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise RemnantError(
            f"{url}: expected a tar archive, but it cannot be unpacked ({error}). Download it manually."
        ) from error


def retrieve(url: str, known_hash: str | None, folder: Path, advice: str) -> Path:
    """Download a file into a folder; `advice` is the last part of the message if that fails."""
    import pooch

    name = url.rsplit("/", 1)[-1]
    try:
        pooch.retrieve(url, known_hash=known_hash, fname=name, path=folder, progressbar=sys.stderr.isatty())
    except OSError as error:
        raise RemnantError(f"could not download {url} ({error}); {advice}") from error
    except ValueError as error:
        raise RemnantError(f"{url}: expected the published file, found another: {error} {advice}") from error
    return folder / name
