"""Estimates of the duration of a sweep on this machine, from a few steps of each kind of run."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remnant.config import Config
from remnant.data import data_dir as find_data_dir, require_files
from remnant.engine.threads import compute_threads
from remnant.errors import MissingFiles
from remnant.experiment.build import build_stream
from remnant.experiment.checkpoint import write_atomically
from remnant.settings import read_file
from remnant.sweep.estimate import estimate
from remnant.sweep.status import finished_folder

NOT_MEASURED = ("name", "noise", "seed")  # settings that do not affect the duration


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep has to do."""

    runs: int
    finished: int
    seconds: tuple[float, float]  # lowest and highest, of the runs that are not finished, one at a time
    missing: tuple[str, ...]  # why some runs could not be measured, each once


def plan_sweep(
    configs: Sequence[Config], out: Path, data_dir: Path | None, note: Callable[[str], None]
) -> SweepPlan:
    """Count the runs, and measure a few steps of each kind that is not finished; nothing is downloaded."""
    left = [config for config in configs if finished_folder(config, out) is None]
    cache = out / ".sweep" / "estimates.json"
    known: dict[str, list[float]] = _read(cache)
    missing: dict[str, str] = {}
    for config in left:
        key = _kind(config)
        if key in known or key in missing:
            continue
        note(f"measuring a few steps of {config.label} on {config.name} ...")
        try:
            known[key] = list(_seconds(config, data_dir))
        except MissingFiles as error:
            missing[key] = str(error)
    if known != _read(cache):
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cache, json.dumps(known).encode())
    measured = [known[_kind(config)] for config in left if _kind(config) in known]
    low, high = (sum(seconds[end] for seconds in measured) for end in (0, 1))
    return SweepPlan(
        len(configs), len(configs) - len(left), (low, high), tuple(dict.fromkeys(missing.values()))
    )


def _kind(config: Config) -> str:
    """Return a hash of the settings that affect the duration of a run."""
    table = {key: value for key, value in config.table().items() if key not in NOT_MEASURED}
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


def _seconds(config: Config, data_dir: Path | None) -> tuple[float, float]:
    folder = find_data_dir(data_dir)
    with compute_threads(config.threads):
        if isinstance(config.data, str):
            require_files(config.data, folder)
        return estimate(config, build_stream(config, folder)).seconds


def _read(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(read_file(path))
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}
