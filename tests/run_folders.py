"""Run folders with given results, written without running anything."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w

from remnant.experiment.result import result_file, sha256
from remnant.report.runs import FinishedRun


def finished(method: str = "er", seed: int = 0, faa: float = 50.0, **settings: Any) -> FinishedRun:  # noqa: ANN401
    """A run that is not on disk."""
    config = {"name": "digits", "data": "digits", "noise": {"name": "symmetric", "rate": 0.4}, "lr": 0.1}
    config |= {"method": method, "seed": seed} | settings
    result = {"method": method, "data": "digits", "noise": "symmetric:0.4", "seed": seed, "finished": True}
    measured = {"faa": faa, "ff": 10.0, "buffer": {"purity": 80.0, "size": 20}, "seconds": 60.0}
    return FinishedRun(Path(f"digits-{method}-s{seed}"), config, result | measured)


def own(path: str, method: str = "er", seed: int = 0, faa: float = 50.0, **settings: Any) -> FinishedRun:  # noqa: ANN401
    """A run on a folder of images whose labels may be wrong."""
    data = {"name": "folder", "path": path} | settings
    run = finished(method, seed, faa, name="folder", data=data, noise={"name": "none"})
    result = {"data": Path(path).stem, "noise": "none", "noise_rate": None}
    return replace(run, result={**run.result, **result})


def write_run(folder: Path, run: FinishedRun, records: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Write a run to a folder, and return the folder."""
    folder.mkdir(parents=True)
    text = tomli_w.dumps(dict(run.config)).encode()
    (folder / "config.toml").write_bytes(text)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "result.json").write_bytes(result_file(run.result, {"config.toml": sha256(text)}))
    return folder
