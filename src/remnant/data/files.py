"""Finding, checking and downloading the files of a published data set.

A data folder is what `--data-dir` or REMNANT_DATA names; without one the user's cache is used, and
only then does loading download what is missing. Each file is hashed whenever it is read.
"""

import gzip
import hashlib
import os
import shlex
import sys
import tarfile
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from remnant.errors import RemnantError

# What reading a file of arrays can raise: of another form, damaged, packed in an unknown way, encrypted;
# where the head of an array is damaged, as Python that is no Python, or of a size beyond all memory.
UNREADABLE = (
    *(OSError, EOFError, KeyError, TypeError, ValueError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(tokenize.TokenError, SyntaxError),
)


@dataclass(frozen=True)
class Download:
    """One file on the publisher's server."""

    url: str
    md5: str  # of the file as it is sent
    files: tuple[str, ...]  # the data files it gives
    folder: str | None = None  # where they are in it, if it is a tar archive


@dataclass(frozen=True)
class Published:
    """The files of a data set and where they come from."""

    name: str  # as in `remnant data get NAME`
    md5: Mapping[str, str]  # file name -> md5 of its content, of the unzipped content for *.gz
    downloads: tuple[Download, ...]
    places: tuple[str, ...]  # folders below a data folder that may hold them; new files go to the first
    installed: Path | None = None  # where a package of the operating system puts them


@dataclass(frozen=True)
class Place:
    """The folder that holds, or shall hold, the files of a data set."""

    files: Published
    path: Path
    asked: Path | None  # the data folder the user named, if any


@dataclass(frozen=True)
class FileCheck:
    """What was found where a data file belongs."""

    path: Path
    problem: str | None  # expected and found, or None if the file is as published
    exists: bool


def data_dir(option: Path | None) -> Path | None:
    """Return the data folder the user named: the option, else REMNANT_DATA, else None."""
    named = option or os.environ.get("REMNANT_DATA")
    return Path(named).expanduser() if named else None


def root(folder: Path | None) -> Path:
    """Return the data folder itself: the one that was named, or the user's cache."""
    import pooch

    return folder or Path(pooch.os_cache("remnant"))


def naming(folder: Path | None) -> str:
    """Return what to add to a command so that it looks into this data folder."""
    return "" if folder is None else f" --data-dir {shlex.quote(str(folder))}"


def mend(name: str, folder: Path | None) -> str:
    """Return the command that brings the files of this name in order."""
    return f"remnant data get {name}{naming(folder)}"


def locate(files: Published, folder: Path | None, *, writable: bool = False) -> Place:
    """Return the first place that holds every file, or the place to put them if none does.

    A place of the operating system is looked at last, only if no folder was named, and never when
    the files are to be written.
    """
    home = files.places[0]
    below = root(folder)
    candidates = [below / place for place in files.places]
    if below.name == Path(home).name:
        candidates.insert(0, below)
    if folder is None and files.installed and not writable:
        candidates.append(files.installed)
    whole = (c for c in candidates if all((c / name).is_file() for name in files.md5))
    return Place(files, next(whole, candidates[0]), folder)


def ready(files: Published, folder: Path | None) -> Place:
    """Return the place of the files; without a named folder, download those that are missing."""
    place = locate(files, folder)
    missing = {name for name in files.md5 if not (place.path / name).exists()}
    if missing and folder is None:
        _fetch(place, missing)
    return place


def read(place: Place, name: str) -> bytes:
    """Return the content of one file, unzipped, if it is exactly what was published."""
    path = place.path / name
    try:
        return _read(path, place.files.md5[name])
    except _MismatchError as problem:
        command = mend(place.files.name, place.asked)
        raise RemnantError(f"{path}: {problem}; to mend it: {command}") from problem


def check(files: Published, folder: Path | None) -> list[FileCheck]:
    """Look at every file and say what is wrong with each."""
    return _check(locate(files, folder))


def get(files: Published, folder: Path | None) -> str:
    """Download the files that are missing or wrong; return a sentence that says what was done."""
    found = check(files, folder)
    if not any(c.problem for c in found):
        return (
            f"{files.name}: all {len(found)} files in {found[0].path.parent} are as published; "
            "nothing to download"
        )
    place = locate(files, folder, writable=True)
    wrong = {c.path.name for c in _check(place) if c.problem}
    _fetch(place, wrong)
    return f"{files.name}: downloaded {', '.join(sorted(wrong))} to {place.path}"


class _MismatchError(Exception):
    """A file is not what was published: expected and found."""


def _check(place: Place) -> list[FileCheck]:
    checks = []
    for name, md5 in place.files.md5.items():
        path = place.path / name
        problem = None
        try:
            _read(path, md5)
        except _MismatchError as unlike:
            problem = str(unlike)
        checks.append(FileCheck(path, problem, path.exists()))
    return checks


def _read(path: Path, md5: str) -> bytes:
    is_zipped = path.suffix == ".gz"
    expected = f"expected md5 {md5}{' once unzipped' if is_zipped else ''}"
    try:
        content = raw = path.read_bytes()
        if is_zipped:
            content = gzip.decompress(raw)
    except FileNotFoundError as error:
        raise _MismatchError("expected a file, found nothing") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _MismatchError(f"{expected}, found {len(raw):,} bytes of broken gzip ({error})") from error
    except OSError as error:
        raise _MismatchError(f"expected a readable file, found: {error.strerror}") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise _MismatchError(f"{expected}, found {found} ({len(raw):,} bytes)")
    return content


def _fetch(place: Place, names: Collection[str]) -> None:
    """Download these files; each appears in its place whole and checked, or not at all."""
    import filelock

    try:
        place.path.mkdir(parents=True, exist_ok=True)
        # Runs started side by side on an empty cache download once.
        with filelock.FileLock(place.path / ".remnant.lock"):
            wrong = {c.path.name for c in _check(place) if c.problem}.intersection(names)
            for download in place.files.downloads:
                if wanted := wrong.intersection(download.files):
                    _put(place, download, wanted)
    except OSError as error:
        raise RemnantError(
            f"{place.path}: expected a folder that can be written, found: {error}; "
            "name another one with --data-dir"
        ) from error


def _put(place: Place, download: Download, names: Collection[str]) -> None:
    # Inside the folder itself, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(prefix=".download-", dir=place.path) as temporary:
        by_hand = (
            f"to do it by hand, put {', '.join(download.files)} into {place.path}, "
            "or name a folder that has them with --data-dir"
        )
        arrived = retrieve(download.url, f"md5:{download.md5}", Path(temporary), by_hand)
        unpacked = arrived.parent
        if download.folder is not None:
            with tarfile.open(arrived) as archive:
                archive.extractall(unpacked, filter="data")
            unpacked /= download.folder
        for name in sorted(names):
            try:
                _read(unpacked / name, place.files.md5[name])
            except _MismatchError as problem:
                raise RemnantError(f"{name} in {download.url}: {problem}") from problem
            (unpacked / name).chmod(0o644)  # downloads are made readable for their owner only
            (unpacked / name).replace(place.path / name)


def retrieve(url: str, known_hash: str | None, folder: Path, by_hand: str) -> Path:
    """Download a file into a folder; `by_hand` says what else can be done if that fails."""
    import pooch

    name = url.rsplit("/", 1)[-1]
    try:
        pooch.retrieve(
            url, known_hash=known_hash, fname=name, path=folder, progressbar=sys.stderr.isatty()
        )
    except OSError as error:
        raise RemnantError(f"could not download {url} ({error}); {by_hand}") from error
    except ValueError as error:
        raise RemnantError(f"{url} did not send what was published: {error} {by_hand}") from error
    return folder / name
