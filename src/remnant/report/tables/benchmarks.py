"""Benchmarks: runs of one recipe on the same data with the same noise, which can be compared.

Own data have no recipe of their own: they are told apart by their kind and path.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from remnant.extensions import is_own_data
from remnant.report.runs import FinishedRun

IN_TITLE = ("seed", "name", "data", "data.name", "data.path")  # settings that are no difference of methods
GIVEN = "given labels"  # instead of the noise, if none was added to labels that may be wrong


class Own(NamedTuple):
    """What identifies own data: `folder`, `table` or `hf`, and where they are."""

    kind: str
    path: str


def own_data(run: FinishedRun) -> Own | None:
    """Return the own data of a run, or None if it has a dataset by name."""
    data = run.config.get("data")
    if isinstance(data, Mapping) and "path" in data:
        return Own(str(data.get("name", run.data)), str(data["path"]))
    if isinstance(data, str) and is_own_data(data):
        kind, _, path = data.partition(":")
        return Own(kind, path)
    return None


def is_same_data(a: FinishedRun, b: FinishedRun) -> bool:
    """Return whether two runs have the same dataset, or the same own data."""
    return a.data == b.data and own_data(a) == own_data(b)


def data_titles(runs: Sequence[FinishedRun]) -> list[str]:
    """Return the data of each run: the name of a dataset, or of own data such as `folder:photos`.

    Folders of the same name are shown with as many of the folders above as tell them apart.
    """
    found = [own_data(run) for run in runs]
    names = _names({own for own in found if own is not None})
    return [run.data if own is None else names[own] for run, own in zip(runs, found, strict=True)]


def _names(found: Iterable[Own]) -> dict[Own, str]:
    """Return short names of own data.

    >>> list(_names([Own("folder", "/a/photos"), Own("folder", "/b/photos"), Own("hf", "user/x")]).values())
    ['folder:a/photos', 'folder:b/photos', 'hf:user/x']
    """
    names: dict[Own, str] = {}
    for own in (found := list(found)):
        others = [other.path for other in found if other.kind == own.kind and other.path != own.path]
        names[own] = f"{own.kind}:{_short_path(own.path, others)}"
    return names


def _short_path(path: str, others: Sequence[str]) -> str:
    """Return the end of an absolute path that none of the others has; a relative one is a name."""
    parts = PurePath(path).parts
    if not PurePath(path).is_absolute():
        return path
    for count in range(1, len(parts)):
        end = parts[-count:]
        if all(PurePath(other).parts[-count:] != end for other in others):
            return "/".join(end)
    return path


def noise_title(run: FinishedRun) -> str:
    """Return the noise of a run; `given labels` if none was added to labels that may be wrong."""
    is_clean = run.result.get("noise_rate", 0) == 0
    return GIVEN if run.noise == "none" and not is_clean else run.noise


def benchmark_titles(runs: Sequence[FinishedRun]) -> list[str]:
    """Return the benchmark of each run, such as `digits, symmetric:0.4` or `folder:photos, given labels`."""
    return [_title(run, data) for run, data in zip(runs, data_titles(runs), strict=True)]


def _title(run: FinishedRun, data: str) -> str:
    name, own = str(run.config.get("name", run.data)), own_data(run)
    if own is not None:
        name = data if name in (own.kind, run.data) else f"{name} ({data})"
    validation = ", noisy validation split" if run.config.get("validation") else ""
    return f"{name}, {noise_title(run)}{validation}"


def by_benchmark(runs: Sequence[FinishedRun]) -> dict[str, list[FinishedRun]]:
    """Return the runs of each benchmark."""
    found: dict[str, list[FinishedRun]] = {}
    for run, title in zip(runs, benchmark_titles(runs), strict=True):
        found.setdefault(title, []).append(run)
    return found
