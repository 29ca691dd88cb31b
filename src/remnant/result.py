"""What a finished run leaves for scripts: result.json and the memory."""

import resource
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors.torch import save

from remnant import metrics
from remnant.component import short
from remnant.config import Config
from remnant.memory import Memory
from remnant.noise import NOISES
from remnant.registry import OF_METHOD
from remnant.stream import Stream


@dataclass
class History:
    """What a run has been through so far; saved with every checkpoint."""

    records: list[dict[str, Any]] = field(default_factory=list)  # the lines of metrics.jsonl
    tasks: int = 0  # done
    steps: int = 0
    planned: dict[str, float] = field(default_factory=dict)  # done of what was planned, by work
    images: int = 0  # rows of the stream gone through, and of the memories where they are learned from
    peak_rows: int = 0  # in all memories at once
    seconds: float = 0.0  # all of them
    phase_seconds: dict[str, float] = field(default_factory=dict)  # in steps of each phase
    losses: dict[str, tuple[float, int]] = field(
        default_factory=dict
    )  # sum and rows since an epoch's end


def summarise(config: Config, stream: Stream, history: History) -> dict[str, Any]:
    """Return the content of result.json, a contract: percent, null where not measured."""
    tests = [record for record in history.records if record["event"] == "task"]
    epochs = [record for record in history.records if record["event"] == "epoch"]
    fits = [record for record in history.records if record["event"] == "consolidation"]
    matrix, width = [record["accuracy"] for record in tests], len(stream.tests)
    within = [record["accuracy_task_incremental"] for record in tests]
    return {
        "method": config.label,
        "choices": {name: value for name, value in config.table().items() if name in OF_METHOD},
        "data": config.data,
        "noise": short(NOISES, config.noise),
        "seed": config.seed,
        "tested_on": "noisy validation rows" if config.validation else "test set",
        "classes": [[stream.spec.classes[c] for c in test.classes] for test in stream.tests],
        "accuracy": padded(matrix, width),
        "accuracy_task_incremental": padded(within, width),
        "accuracy_per_class": tests[-1]["accuracy_per_class"],
        "faa": metrics.final_average_accuracy(matrix),
        "ff": metrics.final_forgetting(matrix),
        "aia": metrics.average_incremental_accuracy(matrix),
        "bwt": metrics.backward_transfer(matrix),
        "memory": tests[-1]["memory"],
        "memories": memories(history.records),
        "memory_rows": {
            "peak": history.peak_rows,
            "budget": config.learner.budget(config.buffer),
        },
        "consolidation": consolidation(fits),
        "skipped": dict(stream.skipped),
        "separation": [
            {"task": e["task"], "epoch": e["epoch"], "phase": e["phase"], "auroc": e["separation"]}
            for e in epochs
        ],
        **cost(history),
        "versions": {name: version(name) for name in ("remnant", "torch", "numpy")},
        "git": git_commit(),
        "finished": True,
    }


def memories(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each memory at the end, and its mean purity whenever rows were sorted into it."""
    last = next(r["memories"] for r in reversed(records) if r["event"] == "task")
    looks = [record["memories"] for record in records if record["event"] == "sorted"]

    def mean_purity(name: str) -> float | None:
        known = [look[name]["purity"] for look in looks if look[name]["purity"] is not None]
        return metrics.mean(known) if known else None

    return {name: {**report, "mean_purity": mean_purity(name)} for name, report in last.items()}


def consolidation(records: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the divisions of all consolidation epochs in short: means, and how often there was none."""
    divisions = [d for record in records for d in record["division"] or []]
    if not records:
        return None
    plain = Counter(d["plain"] for d in divisions if "plain" in d)
    names = ("trusted", "precision", "recall", "noisy_precision", "noisy_recall")
    found = {n: [d[n] for d in divisions if d.get(n) is not None] for n in names}
    return {
        "epochs": len(records),
        "divisions": len(divisions),
        "plain": dict(plain),  # epochs of plain cross-entropy instead, and why
        **{name: metrics.mean(values) if values else None for name, values in found.items()},
    }


def cost(history: History) -> dict[str, Any]:
    """Return what the run took: the only part that differs between two runs of one config."""
    training = sum(history.phase_seconds.values())
    return {
        "seconds": history.seconds,
        "seconds_per_phase": history.phase_seconds,
        "images_per_second": history.images / training if training else None,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def padded(rows: list[list[float]], width: int) -> list[list[float | None]]:
    """Fill rows up with None: tasks that were not tested yet.

    >>> padded([[90.0], [60.0, 80.0]], 2)
    [[90.0, None], [60.0, 80.0]]
    """
    return [[*row, *[None] * (width - len(row))] for row in rows]


def memory_file(memory: Memory, stream: Stream) -> bytes:
    """Return a memory as a safetensors file; `index` is the position in the published data set."""
    rows, size = memory.rows(), len(memory)
    return save(
        {
            "x": rows.x.clone(),
            "y": rows.y.clone(),
            "index": stream.index[rows.id],
            "task": memory.task[:size].clone(),
            "loss": memory.loss[:size].clone(),
        }
    )


def git_commit() -> str | None:
    """Return the commit of the code, where it is run from a checkout."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # not some repository around us
        return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    here = Path(__file__).parent
    done = subprocess.run(
        ["git", *words], cwd=here, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
