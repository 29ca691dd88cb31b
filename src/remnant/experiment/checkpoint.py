"""Checkpoints: the complete state of a run in one file, which survives crashes.

A checkpoint is a safetensors file whose header holds the plain values as JSON. Its file name has a serial
number and a digest of its content. It is written to a temporary file, synced to disk and renamed, and the
previous checkpoint is kept. Pickle is not used.
"""

import contextlib
import glob
import hashlib
import json
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors, save as save_tensors
from torch import Tensor

from remnant.errors import RemnantError
from remnant.settings import check_regular, read_file

GENERATIONS = 2  # checkpoints that are kept
NAME = re.compile(r"(?P<serial>[0-9]{8,12})-(?P<digest>[0-9a-f]{16})\.safetensors")
# Errors raised by reading a file that is damaged, or that has other content than expected.
RESTART = "Restart from the beginning with --force (force=True)."
READ_ERRORS = (OSError, SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


Count = Annotated[int, Field(ge=0)]


@dataclass
class History:
    """The progress of a run, saved with every checkpoint."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    records: list[dict[str, Any]] = field(default_factory=list)  # the lines of metrics.jsonl
    tasks: Count = 0  # finished
    steps: Count = 0  # finished
    planned: dict[str, float] = field(default_factory=dict)  # finished steps of the plan, by kind of work
    samples: Count = 0  # of the stream, and of the buffers in training on them
    peak_samples: Count = 0  # in all buffers at once
    seconds: float = 0.0  # in total
    phase_seconds: dict[str, float] = field(default_factory=dict)  # in steps, by kind of work
    losses: dict[str, tuple[float, int]] = field(default_factory=dict)  # sum and samples in this epoch
    environments: list[dict[str, Any]] = field(default_factory=list)  # without duplicates
    untrained: list[float] = field(default_factory=list)  # accuracy of the untrained network on each task

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> "History":
        """Return a saved history; raise ValueError if it has other names or types."""
        # As JSON, in which tuples are lists.
        return TypeAdapter(cls).validate_json(json.dumps(saved))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, and sync it to disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    consequence = "existing files are unchanged"
    clear_leftovers(path.parent, path.name)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        consequence = "it was replaced, but may be lost in a power failure"
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):  # a disk that fails to write may also fail to delete
            temporary.unlink(missing_ok=True)
        raise RemnantError(
            f"{path}: cannot be written ({error.strerror}); {consequence}. Free some disk space, "
            "remove what is in its place, or choose another folder with --out (out=...). Then run the "
            "same command again."
        ) from error


def set_aside(path: Path) -> None:
    """Rename a damaged file to NAME.damaged, or to NAME.damaged2 and so on if that name is taken."""
    free, number = path.with_name(f"{path.name}.damaged"), 1
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}.damaged{number}")
    path.rename(free)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pack(state: dict[str, Any]) -> bytes:
    """Serialize nested dicts of tensors and plain values."""
    tensors: dict[str, Tensor] = {}
    plain = _without_tensors(state, "", tensors)
    return save_tensors(tensors, metadata={"state": json.dumps(plain)})


def _without_tensors(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:  # noqa: ANN401
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().contiguous()
        return None
    if isinstance(value, dict):
        return {k: _without_tensors(v, f"{path}/{k}", tensors) for k, v in value.items()}
    return value


def unpack(content: bytes) -> dict[str, Any]:
    """Restore the state that was serialized by `pack`."""
    length = int.from_bytes(content[:8], "little")
    state = _plain(content[8 : 8 + length])
    for path, tensor in load_tensors(content).items():
        *parents, name = path.removeprefix("/").split("/")
        place = state
        for parent in parents:
            place = place[parent]
        place[name] = tensor
    return state


def plain_values(path: Path) -> dict[str, Any]:
    """Return the state in a checkpoint without its tensors, which are not read; the digest is not checked."""
    check_regular(path)
    size = path.stat().st_size  # 0 for endless files in /proc
    with path.open("rb") as file:
        length = int.from_bytes(file.read(min(8, size)), "little")
        return _plain(file.read(min(length, size)))


def _plain(header: bytes) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(json.loads(header)["__metadata__"]["state"])
    return state


def save(folder: Path, state: dict[str, Any]) -> Path:
    """Write a new checkpoint, and delete all but the last two."""
    content = pack(state)
    serial = max((_serial(path) for path in generations(folder)), default=0) + 1
    path = folder / f"{serial:08d}-{_digest(content)}.safetensors"
    write_atomically(path, content)
    for old in generations(folder)[GENERATIONS:]:
        with contextlib.suppress(OSError):  # it only takes up space
            set_aside(old) if old.is_dir() else old.unlink()
    return path


def generations(folder: Path) -> list[Path]:
    """Return the paths of the checkpoints, newest first; other files in the folder are ignored."""
    found = folder.glob("*.safetensors") if folder.is_dir() else ()  # Python 3.13 refuses names with \0
    paths = [path for path in found if NAME.fullmatch(path.name)]
    return sorted(paths, key=_serial, reverse=True)


def load(folder: Path, run: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the newest intact state of this run, or None, and what is wrong with newer checkpoints.

    Damaged checkpoints are renamed, so that they are not counted among the two that are kept.
    """
    damaged: dict[Path, str] = {}
    for path in generations(folder):
        try:
            state = read(path)
        except READ_ERRORS as error:
            damaged[path] = f"{path} is damaged ({short_reason(error)})"
            continue
        if state.get("run") != run:
            raise RemnantError(
                f"{path}: expected a checkpoint of run {run}, found one of {state.get('run')!s:.99}. "
                "Move it elsewhere, or restart from the beginning with --force (force=True)."
            )
        for bad in damaged:
            set_aside(bad)
        return state, list(damaged.values())
    if damaged:
        problems = "; ".join(damaged.values())
        raise RemnantError(
            f"no checkpoint can be used: {problems}. Restart from the beginning with --force (force=True)."
        )
    return None, []


def read(path: Path) -> dict[str, Any]:
    """Return the state in a checkpoint; raise one of READ_ERRORS if it is damaged."""
    content = read_file(path)
    if _digest(content) != path.stem.partition("-")[2]:
        raise ValueError(f"its {len(content):,} bytes do not match the digest in its name")
    state = unpack(content)
    if not isinstance(state, dict):
        raise TypeError(f"expected a table of values, found {type(state).__name__}")
    return state


@contextlib.contextmanager
def content_errors(what: str, remark: str = "", advice: str = RESTART) -> Iterator[None]:
    """Convert the errors of a learner with the state of a checkpoint, in which any value may be wrong.

    Not all of them can be found by checks: a method may keep what it likes in its state.
    """
    try:
        yield
    except (RemnantError, OSError):
        raise
    except Exception as error:  # a learner can be any object
        why = f"{type(error).__name__}: {' '.join(str(error).split()):.300}"
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise RemnantError(
            f"{what} ({why}; {Path(last.filename).name}, line {last.lineno}).{remark} {advice}"
        ) from error


def short_reason(error: BaseException) -> str:
    """Return why a file could not be read, in a few words."""
    text = getattr(error, "strerror", None) or f"{error}" or type(error).__name__
    return f"KeyError: {text}" if isinstance(error, KeyError) else text


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Delete the temporary files (of one name) of processes that were killed; theirs contain a process id."""
    for part in folder.glob(".*.part" if name is None else f".{glob.escape(name)}.*.part"):
        pid = part.name.split(".")[-2]
        if not pid.isdecimal() or int(pid) == os.getpid() or not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                part.unlink()


def _serial(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
