"""The files of a finished run: result.json and the buffers."""

import resource
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from remnant.buffer import Buffer
from remnant.config import Config
from remnant.config.components import short
from remnant.config.registries import OF_METHOD, REGISTRIES
from remnant.experiment import metrics
from remnant.experiment.evaluate import losses
from remnant.methods.protocol import Learner
from remnant.stream import Stream


@dataclass
class History:
    """The progress of a run, saved with every checkpoint."""

    records: list[dict[str, Any]] = field(default_factory=list)  # the lines of metrics.jsonl
    tasks: int = 0  # finished
    steps: int = 0  # finished
    planned: dict[str, float] = field(default_factory=dict)  # finished steps of the plan, by kind of work
    samples: int = 0  # of the stream, and of the buffers in training on them
    peak_samples: int = 0  # in all buffers at once
    seconds: float = 0.0  # in total
    phase_seconds: dict[str, float] = field(default_factory=dict)  # in steps, by kind of work
    losses: dict[str, tuple[float, int]] = field(default_factory=dict)  # sum and samples in this epoch
    untrained: list[float] = field(default_factory=list)  # accuracy of the untrained network on each task


def summarise(config: Config, stream: Stream, history: History) -> dict[str, Any]:
    """Return the content of result.json: values in percent, null where not measured."""
    tests = [record for record in history.records if record["event"] == "task"]
    epochs = [record for record in history.records if record["event"] == "epoch"]
    consolidations = [record for record in history.records if record["event"] == "consolidation"]
    matrix, width = [record["accuracy"] for record in tests], len(stream.tests)
    task_incremental = [record["accuracy_task_incremental"] for record in tests]
    following = [record["accuracy_next"] for record in tests[:-1]]
    plan = config.to_method().plan(config.setup(), [len(task) for task in stream.tasks])
    return {
        "method": config.label,
        "choices": {name: value for name, value in config.table().items() if name in OF_METHOD},
        "data": stream.spec.name,
        "noise": short(REGISTRIES["noise"], config.noise),
        "noise_rate": None if stream.noise_rate is None else 100 * stream.noise_rate,
        "seed": config.seed,
        "tested_on": "noisy validation split" if config.validation else "test split",
        "classes": [[stream.spec.classes[c] for c in test.classes] for test in stream.tests],
        "accuracy": padded(matrix, width),
        "accuracy_task_incremental": padded(task_incremental, width),
        "accuracy_per_class": tests[-1]["accuracy_per_class"],
        "faa": metrics.final_average_accuracy(matrix),
        "ff": metrics.final_forgetting(matrix),
        "aia": metrics.average_incremental_accuracy(matrix),
        "bwt": metrics.backward_transfer(matrix),
        "fwt": metrics.forward_transfer(following, history.untrained),
        "accuracy_next": following,
        "accuracy_untrained": history.untrained,
        "buffer": tests[-1]["buffer"],
        "buffers": buffers(history.records),
        "buffer_samples": {"peak": history.peak_samples, "budget": plan.buffer_budget},
        "consolidation": consolidation(consolidations),
        "skipped": dict(stream.skipped),
        "separation": [
            {
                **_position(e),
                "auroc": e["separation"],
                **{name: e[name] for name in ("loss_clean", "loss_noisy")},
            }
            for e in epochs
        ],
        "memorisation": [{**_position(e), **e["stream"]} for e in epochs if e["stream"]],
        **cost(history),
        "versions": {name: version(name) for name in ("remnant", "torch", "numpy")},
        "git": git_commit(),
        "finished": True,
    }


def _position(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("task", "epoch", "phase")}


def buffers(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the final size and purity of each buffer, and its mean purity over all splits of samples."""
    last = next(r["buffers"] for r in reversed(records) if r["event"] == "task")
    splits = [record["buffers"] for record in records if record["event"] == "split"]

    def mean_purity(name: str) -> float | None:
        known = [split[name]["purity"] for split in splits if split[name]["purity"] is not None]
        return metrics.mean(known) if known else None

    return {name: {**report, "mean_purity": mean_purity(name)} for name, report in last.items()}


def consolidation(records: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return a summary of the divisions of all consolidation epochs: means, and how often there was none."""
    divisions = [d for record in records for d in record["division"] or []]
    if not records:
        return None
    fallback = Counter(d["fallback"] for d in divisions if "fallback" in d)
    names = ("trusted", "label_correction", *metrics.DETECTION)
    known = {n: [d[n] for d in divisions if d.get(n) is not None] for n in names}
    return {
        "epochs": len(records),
        "divisions": len(divisions),
        "fallback": dict(fallback),  # epochs of plain cross-entropy instead, by reason
        **{name: metrics.mean(values) if values else None for name, values in known.items()},
    }


def cost(history: History) -> dict[str, Any]:
    """Return time and memory, the only values that differ between two runs of one config."""
    training = sum(history.phase_seconds.values())
    return {
        "seconds": history.seconds,
        "seconds_per_phase": history.phase_seconds,
        "images_per_second": history.samples / training if training else None,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def padded(rows: list[list[float]], width: int) -> list[list[float | None]]:
    """Pad rows with None for tasks that were not evaluated yet.

    >>> padded([[90.0], [60.0, 80.0]], 2)
    [[90.0, None], [60.0, 80.0]]
    """
    return [[*row, *[None] * (width - len(row))] for row in rows]


def buffer_file(learner: Learner, buffer: Buffer, stream: Stream) -> bytes:
    """Return a buffer as a safetensors file.

    `index` is the position in the published dataset, `loss` the loss of the final network.
    """
    samples, size = buffer.samples(), len(buffer)
    return save(
        {
            "x": samples.x.clone(),
            "y": samples.y.clone(),
            "index": stream.index[samples.id],
            "task": buffer.task[:size].clone(),
            "loss": losses(learner, buffer, torch.arange(size)),
        }
    )


def git_commit() -> str | None:
    """Return the commit of the code, if it is run from a checkout."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # fails in an unrelated repository
        return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    here = Path(__file__).parent
    done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
