"""Run folders on disk: their state, their size, and their removal."""

from dataclasses import dataclass
from pathlib import Path

from remnant.config import resolve
from remnant.config.components import short
from remnant.config.recipe import read
from remnant.config.registries import REGISTRIES
from remnant.errors import Busy, RemnantError
from remnant.experiment.lock import locked
from remnant.experiment.result import is_finished, read_result
from remnant.experiment.run import clear

UNKNOWN = "-"


@dataclass(frozen=True)
class RunState:
    """What is known of a run folder without running anything."""

    folder: Path
    state: str  # finished, running, interrupted or damaged
    method: str
    data: str
    noise: str
    seed: str
    faa: str
    size: int  # bytes on disk


def run_state(folder: Path) -> RunState:
    """Return the state of a run folder; names that cannot be read are `-`."""
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    if is_finished(folder):
        try:
            result = read_result(folder)
            method, data, noise, seed = (str(result[key]) for key in ("method", "data", "noise", "seed"))
            return RunState(folder, "finished", method, data, noise, seed, f"{result['faa']:.1f}", size)
        except (RemnantError, LookupError):
            return RunState(folder, "damaged", *_names(folder), UNKNOWN, size)
    return RunState(
        folder, "running" if _is_running(folder) else "interrupted", *_names(folder), UNKNOWN, size
    )


def _names(folder: Path) -> tuple[str, str, str, str]:
    """Return method, data, noise and seed from the config of a run without results."""
    try:
        config = resolve(read(str(folder)))
    except RemnantError:
        return UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
    return config.label, config.data_spec.name, short(REGISTRIES["noise"], config.noise), str(config.seed)


def _is_running(folder: Path) -> bool:
    if not (folder / ".lock").exists():
        return False
    try:
        with locked(folder):
            return False
    except Busy:
        return True


def remove_run(folder: Path) -> list[str]:
    """Remove the files that a run wrote, and its folder if nothing else is in it; return what is kept.

    Raise RemnantError if a process is working on the run.
    """
    try:
        files = read_result(folder)["files"] if is_finished(folder) else {}
    except (RemnantError, LookupError):
        files = {}
    buffers = [name.removesuffix(".safetensors") for name in files if name.endswith(".safetensors")]
    with locked(folder):
        clear(folder, buffers or ["buffer"])
        (folder / ".lock").unlink(missing_ok=True)
    for place in (folder / "checkpoint", folder):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def size_text(size: int) -> str:
    """Return a number of bytes in short form.

    >>> size_text(900), size_text(1_234_000), size_text(5_600_000_000)
    ('1 kB', '1.2 MB', '5.6 GB')
    """
    if size < 1e6:
        return f"{max(1, round(size / 1e3))} kB"
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
