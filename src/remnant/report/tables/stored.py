"""Stored results: a JSON file with the configs and the main results of many runs, small enough to commit."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remnant.errors import RemnantError
from remnant.experiment.checkpoint import READ_ERRORS, short_reason, write_atomically
from remnant.experiment.metrics import mean
from remnant.experiment.result import own_hash
from remnant.report.runs import FinishedRun, find_runs, in_order
from remnant.report.tables.benchmarks import data_titles, own_data
from remnant.settings import check_regular, read_file

FORMAT = "remnant results 1"
KEPT = (
    "method", "data", "noise", "noise_rate", "net", "seed", "tested_on", "faa", "ff", "aia", "bwt", "fwt",
    "accuracy", "buffer_samples", "suspects", "seconds", "peak_rss_mb", "versions", "git", "config_digest",
)  # fmt: skip
BUFFER = ("size", "noisy", "purity", "balance", "duplicates", "diversity")
DECIMALS = 3


def store(path: Path, runs: Sequence[FinishedRun]) -> None:
    """Write runs to a file, one per line; settings that all runs share are written once."""
    configs = [_portable(run, title) for run, title in zip(runs, data_titles(runs), strict=True)]
    common = {k: v for k, v in configs[0].items() if all(k in c and c[k] == v for c in configs)}
    entries = []
    for run, config in zip(runs, configs, strict=True):
        own = {key: value for key, value in config.items() if key not in common}
        entries.append({"config": own, "result": condensed(run.result)})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _file({"format": FORMAT, "config": common, "runs": entries}).encode())


def _file(table: Mapping[str, Any]) -> str:
    """Return a table with its own hash as JSON, one run per line."""
    head = json.dumps({"format": table["format"], "config": table["config"]}, ensure_ascii=False)[:-1]
    lines = [json.dumps(run, ensure_ascii=False) for run in table["runs"]]
    return f'{head}, "runs": [\n' + ",\n".join(lines) + f'\n], "sha256": "{own_hash(table)}"}}\n'


def merged(old: Sequence[FinishedRun], new: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Return all runs in the order of tables; a new run replaces an old one with the same config."""
    replaced = {run.digest for run in new}
    return sorted([*(run for run in old if run.digest not in replaced), *new], key=in_order)


def condensed(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the main results of a run; lists with an entry per epoch are replaced by their means."""
    if "by_epoch" in result:  # it was condensed when it was stored
        return dict(result)
    kept: dict[str, Any] = {key: result[key] for key in KEPT if key in result}
    buffer = result.get("buffer")
    kept["buffer"] = {key: buffer[key] for key in BUFFER if key in buffer} if buffer else None
    kept["by_epoch"] = by_epoch(result)
    return {key: _rounded(value) for key, value in kept.items()}


def by_epoch(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return means over epochs: separation by phase, and how far noisy labels of the stream are learned.

    `separation` is the AUROC of the loss on stored samples of past tasks. `memorised` is the percentage of
    noisy labels of the current task that are predicted after its last epoch, and `loss_noisy` their mean
    loss over all epochs.
    """
    separation: dict[str, list[float]] = {}
    for entry in result.get("separation", []):
        if entry["auroc"] is not None:
            separation.setdefault(entry["phase"], []).append(entry["auroc"])
    epochs = [e for e in result.get("memorisation", []) if e["memorised"] is not None]
    last = {entry["task"]: entry["memorised"] for entry in epochs}
    losses = [entry["loss_noisy"] for entry in epochs if entry["loss_noisy"] is not None]
    return {
        "separation": {phase: mean(values) for phase, values in separation.items()},
        "memorised": mean(list(last.values())) if last else None,
        "loss_noisy": mean(losses) if losses else None,
    }


def _rounded(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return round(value, DECIMALS)
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _portable(run: FinishedRun, title: str) -> dict[str, Any]:
    """Return a config without folders, apart from those that tell own data of the same name apart."""
    config: dict[str, Any] = _without_folders(run.config)
    if own_data(run) is not None and isinstance(data := config["data"], Mapping):
        config["data"] = {**data, "path": title.partition(":")[2]}
    return config


def _without_folders(value: Any) -> Any:  # noqa: ANN401
    """Return settings in which absolute paths are replaced by the names of their files."""
    if isinstance(value, Mapping):
        return {key: _without_folders(item) for key, item in value.items()}
    return re.sub(r"(^|:)/\S*/", r"\1", value) if isinstance(value, str) else value


def read_stored(path: Path) -> list[FinishedRun]:
    """Return the runs of a file of stored results."""
    try:
        table = json.loads(read_file(path))
        if table["format"] != FORMAT:
            raise ValueError(f"its format is {table['format']!r}, expected {FORMAT!r}")
        if table.get("sha256") != own_hash(table):
            raise ValueError("its content does not match its sha256")
        runs = [
            FinishedRun(path, table["config"] | entry["config"], entry["result"]) for entry in table["runs"]
        ]
        for run in runs:
            _ = run.method, run.data, run.noise, run.seed, run.result["by_epoch"]
    except (*READ_ERRORS, OverflowError) as error:
        raise RemnantError(
            f"{path}: expected results stored by `remnant sweep --results`, but {short_reason(error)}. "
            "Restore the file, or remove it: the same sweep writes it again from its runs."
        ) from error
    return runs


def load_runs(paths: Sequence[Path]) -> list[FinishedRun]:
    """Return the runs of run folders, of folders that contain them, and of files of stored results."""
    files = [path for path in paths if path.suffix == ".json"]
    folders = [path for path in paths if path.suffix != ".json"]
    stored = [file for folder in folders for file in sorted(folder.rglob("*.json")) if _is_stored(file)]
    runs = [run for file in dict.fromkeys([*files, *stored]) for run in read_stored(file)]
    return [*runs, *find_runs(folders)]


def _is_stored(path: Path) -> bool:
    try:
        check_regular(path)
        with path.open(encoding="utf-8") as file:
            return FORMAT in file.readline(200)
    except (OSError, ValueError):
        return False
