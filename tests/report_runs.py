"""Finished runs with chosen values, for figures and reports."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from run_folders import finished, write_run
from safetensors.torch import save_file

from remnant.report.figures.groups import Variant, benchmarks
from remnant.report.runs import FinishedRun, find_runs

EPOCHS = [{"task": task, "epoch": epoch} for task in (0, 1) for epoch in (0, 1)]


def measured(
    method: str = "er",
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    **changes: Any,  # noqa: ANN401
) -> FinishedRun:
    """A run of two tasks with two classes and two epochs each; accuracies rise by a point with each seed."""
    own = {key: value for key, value in (settings or {}).items() if key not in ("method", "seed")}
    run = finished(method, seed, 70.0 + seed, **own)
    phases = ("forget", "learn") if method.startswith("aer") else ("standard", "standard")
    values = {
        "classes": [["zero", "one"], ["two", "three"]],
        "accuracy": [[90.0 + seed, None], [60.0 + seed, 80.0 + seed]],
        "separation": [
            {**e, "phase": phases[e["epoch"]], "auroc": 0.9, "loss_clean": 0.1 + seed, "loss_noisy": 2.0}
            for e in EPOCHS
        ],
        "memorisation": [
            {**e, "phase": phases[e["epoch"]], "loss_clean": 0.2, "loss_noisy": 3.0, "memorised": 40.0,
             "recovered": 10.0}
            for e in EPOCHS
        ],
        "buffer": {
            "size": 4,
            "purity": 75.0,
            "purity_per_class_scaled": {"zero": 100.0, "one": 50.0 + seed, "two": 75.0},
        },
        "buffers": {"buffer": {"size": 4, "purity": 75.0}},
        "noise_rate": 40.0,
        "peak_rss_mb": 500.0,
    }  # fmt: skip
    return replace(run, result={**run.result, **values, **changes})


def records(purity: float | None = 75.0) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl."""
    epochs = [{"event": "epoch", **e, "buffer": {"purity": purity}} for e in EPOCHS]
    return [*epochs[:2], {"event": "task", "task": 0}, *epochs[2:], {"event": "task", "task": 1}]


def on_disk(folder: Path, runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Write runs with their metrics and buffers to a folder, and find them there."""
    for run in runs:
        place = write_run(folder / f"{run.method}-s{run.seed}-{len(list(folder.glob('*')))}", run, records())
        x = torch.arange(4 * 8 * 8, dtype=torch.uint8).view(4, 1, 8, 8)
        y, truth = torch.tensor([2, 0, 1, 0]), torch.tensor([2, 0, 3, 0])
        if run.result["buffers"]:
            save_file({"x": x, "y": y, "truth": truth}, place / "buffer.safetensors")
    return find_runs([folder])


def variants(*runs: FinishedRun) -> tuple[Variant, ...]:
    """The variants of runs on one benchmark."""
    (found,) = benchmarks(runs)
    return found.variants
