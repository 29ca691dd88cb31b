"""Finished runs, found in folders, with the settings in which they differ."""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load
from torch import Tensor

from remnant.config.registries import OF_METHOD
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import READ_ERRORS, short_reason
from remnant.experiment.result import is_finished, read_result, sha256
from remnant.settings import read_file


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its config and its results."""

    folder: Path  # or the file of stored results
    config: Mapping[str, Any]  # config.toml
    result: Mapping[str, Any]  # result.json

    @property
    def method(self) -> str:
        """Return the name of the method with the components of this run."""
        return str(self.result["method"])

    @property
    def data(self) -> str:
        """Return the name of the dataset."""
        return str(self.result["data"])

    @property
    def noise(self) -> str:
        """Return the noise in its short form, such as `symmetric:0.4`."""
        return str(self.result["noise"])

    @property
    def seed(self) -> int:
        """Return the random seed."""
        return int(self.result["seed"])

    @property
    def classes(self) -> list[str]:
        """Return the names of all classes, in the order of their first task."""
        return list(dict.fromkeys(name for task in self.result["classes"] for name in task))

    @property
    def is_measured_once(self) -> bool:
        """Return whether nothing is measured between tasks: there is one task, or all are learned at once."""
        return len(self.result.get("accuracy", ((), ()))) < 2

    @property
    def digest(self) -> str:
        """Return the digest of the config; an empty text in results of earlier versions."""
        return str(self.result.get("config_digest", ""))

    def settings(self) -> dict[str, Any]:
        """Return all settings by name; those of a component as `component.setting`."""
        return flat(self.config)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of metrics.jsonl; none if the results are stored without them."""
        if self.folder.suffix == ".json":
            return
        with (self.folder / "metrics.jsonl").open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested table as one table with dotted keys.

    >>> flat({"lr": 0.1, "insertion": {"name": "lowest-loss", "alpha": 0.75}})
    {'lr': 0.1, 'insertion.name': 'lowest-loss', 'insertion.alpha': 0.75}
    """
    settings: dict[str, Any] = {}
    for key, value in table.items():
        is_table = isinstance(value, Mapping)
        settings |= flat(value, f"{prefix}{key}.") if is_table else {prefix + key: value}
    return settings


def find_runs(paths: Sequence[Path]) -> list[FinishedRun]:
    """Return the intact finished runs in folders, at any depth, sorted by data, noise, method, seed and path.

    A path is a run folder, or a folder that contains run folders. Raise RemnantError if a path does not
    exist. `skipped_runs` returns the runs that are left out.
    """
    runs = [run for folder in run_folders(paths) if isinstance(run := _read(folder), FinishedRun)]
    return sorted(runs, key=in_order)


def in_order(run: FinishedRun) -> tuple[str, str, str, int, str]:
    """Return what runs are sorted by: data, noise, method, seed and path."""
    return run.data, run.noise, run.method, run.seed, str(run.folder)


def skipped_runs(paths: Sequence[Path]) -> dict[Path, str]:
    """Return the run folders that are not finished or damaged, each with the reason."""
    return {folder: why for folder in run_folders(paths) if isinstance(why := _read(folder), str)}


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the folders below some paths that contain a config.toml, each once."""
    found: dict[str, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise RemnantError(f"{path}: expected a run folder or a folder with runs, found none.")
        for place, folders, names in os.walk(path):
            folders.sort()
            if "config.toml" in names:
                folders.clear()  # a run folder contains no other runs
                found.setdefault(os.path.realpath(place), Path(place))
    return sorted(found.values())


def _read(folder: Path) -> FinishedRun | str:
    """Return a finished run, or why it cannot be used."""
    if not is_finished(folder):
        return "not finished"
    try:
        result, text = read_result(folder), read_file(folder / "config.toml")
        expected = result.get("files", {}).get("config.toml", found := sha256(text))
        if found != expected:
            return "damaged: config.toml has changed since the run"
        return FinishedRun(folder, tomllib.loads(text.decode()), result)
    except RemnantError as error:
        return f"damaged: {short_reason(error.__cause__ or error)}"
    except (OSError, ValueError) as error:  # config.toml
        return f"damaged: config.toml: {short_reason(error)}"


def differing_settings(runs: Sequence[FinishedRun]) -> list[str]:
    """Return the names of the settings in which runs differ, apart from the method and its components.

    A setting of a component is included if it differs between runs of the same method.
    """
    tables = [run.settings() for run in runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    bases = [run.method.removesuffix("-custom") for run in runs]
    differing = []
    for key in keys:
        kind = key.partition(".")[0]
        groups = bases if kind in OF_METHOD else ["" for _ in runs]
        values: dict[str, set[str]] = {}
        for group, table in zip(groups, tables, strict=True):
            values.setdefault(group, set()).add(json.dumps(table.get(key)))
        if key != "method" and any(len(different) > 1 for different in values.values()):
            differing.append(key)
    return differing


def final_buffer(run: FinishedRun) -> dict[str, Tensor] | None:
    """Return the samples of the buffer that is replayed, by column; None if the run has no buffer.

    `truth`, the true labels, is missing if they are unknown.
    """
    name = next((name for name, found in run.result["buffers"].items() if found["size"]), None)
    if name is None:
        return None
    path = run.folder / f"{name}.safetensors"
    try:
        return load(read_file(path))
    except READ_ERRORS as error:
        raise RemnantError(
            f"{path}: expected the buffer of a finished run, but it is damaged ({short_reason(error)}). "
            "Repeat the command that started the run, which writes it again."
        ) from error
