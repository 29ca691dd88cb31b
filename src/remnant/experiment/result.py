"""The files of a finished run: result.json and the buffers, and whether they are intact."""

import hashlib
import json
import re
import resource
import subprocess
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from remnant.buffer import Buffer
from remnant.config import Config
from remnant.config.components import short
from remnant.config.recipe import read as read_recipe
from remnant.config.registries import OF_METHOD, REGISTRIES
from remnant.engine.backend import Backend
from remnant.errors import RemnantError
from remnant.experiment import metrics
from remnant.experiment.checkpoint import (
    READ_ERRORS,
    History,
    generations,
    read as read_checkpoint,
    short_reason,
)
from remnant.experiment.evaluate import losses
from remnant.experiment.loggers.metrics_file import metrics_lines
from remnant.methods.protocol import TaskLearner
from remnant.settings import read_file
from remnant.stream import Stream


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
        "net": re.sub(r".*/", "", short(REGISTRIES["net"], config.net)),  # without folders
        "seed": config.seed,
        "tested_on": "noisy validation split" if config.validation else stream.tested_on,
        "classes": [[stream.spec.classes[c] for c in test.classes] for test in stream.tests],
        "accuracy": metrics.padded(matrix, width),
        "accuracy_task_incremental": metrics.padded(task_incremental, width),
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
        "config_digest": config.digest(),
        "environments": history.environments,
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


def buffer_file(learner: TaskLearner, buffer: Buffer, stream: Stream) -> bytes:
    """Return a buffer as a safetensors file.

    `index` is the position in the published dataset, `loss` that of the final network; `truth`, if known.
    """
    samples, size = buffer.samples(), len(buffer)
    return save(
        {
            "x": samples.x.clone().cpu(),
            "y": samples.y.clone().cpu(),
            "index": stream.index[samples.id],
            "task": buffer.task[:size].clone(),
            "loss": losses(learner, buffer, torch.arange(size)),
            **({} if stream.truth is None else {"truth": stream.truth[samples.id]}),
        }
    )


def result_file(result: Mapping[str, Any], hashes: Mapping[str, str]) -> bytes:
    """Return the content of result.json: the results, the hashes of the other files, and its own hash."""
    complete = {**result, "files": dict(hashes)}
    return (json.dumps({**complete, "sha256": own_hash(complete)}, indent=1) + "\n").encode()


def own_hash(result: Mapping[str, Any]) -> str:
    """Return the sha256 that a JSON object has of its own content, without the entry `sha256`."""
    content = {key: value for key, value in result.items() if key != "sha256"}
    return sha256(json.dumps(content).encode())


def sha256(content: bytes) -> str:
    """Return the hash of the content of a file."""
    return hashlib.sha256(content).hexdigest()


def read_result(folder: Path) -> dict[str, Any]:
    """Return the content of result.json; raise RemnantError if it is damaged."""
    path = folder / "result.json"
    try:
        result = json.loads(read_file(path))
        if not isinstance(result, dict) or not result.get("finished"):
            raise ValueError("it does not contain results")
        files = result.get("files", {})
        # Damaged files are renamed, and those of removed runs deleted: never outside of the folder.
        if not isinstance(files, dict) or any(n != Path(n).name or n == ".." for n in files):
            raise ValueError("its list of files is not a table of names in the run folder")
        if result.get("sha256") != own_hash(result):
            raise ValueError("its content does not match its sha256")
    except READ_ERRORS as error:
        raise RemnantError(
            f"{path}: expected the results of a finished run, but {short_reason(error)}. Repeat the command "
            "that started the run: it writes them again from the last checkpoint."
        ) from error
    return result


def is_finished(folder: Path) -> bool:
    """Return whether a run has written its results, which are its last output."""
    try:
        return (folder / "result.json").exists() or (folder / "result.json").is_symlink()  # to nowhere
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise RemnantError(
            f"{folder}: the run folder cannot be used ({short_reason(error)}). Choose another folder with "
            "--out (out=...)."
        ) from error


def damage(folder: Path) -> dict[str, str]:
    """Return the names of the files of a finished run that are damaged, with what is wrong."""
    return {name: problem for name, problem in _states(folder).items() if problem}


def _states(folder: Path) -> dict[str, str]:
    """Return the files of a finished run by name, each with what is wrong, or an empty text."""
    try:
        result = read_result(folder)
    except RemnantError as error:
        return {"result.json": short_reason(error.__cause__ or error)}
    states = {"result.json": ""}
    for name, expected in result.get("files", {}).items():
        try:
            found = sha256(read_file(folder / name))
            states[name] = "" if found == expected else f"expected sha256 {expected}, found {found}"
        except (OSError, ValueError) as error:  # ValueError: a null character
            states[name] = short_reason(error)
    return states


def check_run(folder: Path) -> dict[str, str]:
    """Return the files of a run by name, each with what is wrong, or an empty text."""
    states = _states(folder) if is_finished(folder) else {}
    checkpoints = generations(folder / "checkpoint")
    if not states and not checkpoints:
        return {"": "expected a run folder with results or checkpoints, found none"}
    # The command that repairs all other files does nothing if the results are intact.
    advice = "; the run is finished, delete this file" if states and not any(states.values()) else ""
    run = None if states else folder.resolve().name  # a finished run may have been renamed
    newest: dict[str, Any] = {}
    for path in checkpoints:
        try:
            state = read_checkpoint(path)
            found, newest = state.get("run"), newest or state
            is_own = run in (None, found)
            problem = "" if is_own else f"expected a checkpoint of run {run}, found {found!s:.99}"
        except READ_ERRORS as error:
            problem = short_reason(error) + advice
        states[f"checkpoint/{path.name}"] = problem
    for name, problem in _unfinished_states(folder, newest).items():
        states.setdefault(name, problem)
    return states


def _unfinished_states(folder: Path, newest: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of a run without results, each with what is wrong by its newest checkpoint."""
    states = {"config.toml": "", "metrics.jsonl": ""}
    try:
        read_recipe(str(folder))
        if newest.get("config") not in (None, sha256(read_file(folder / "config.toml"))):
            states["config.toml"] = "it has changed since the last checkpoint"
    except RemnantError as error:
        states["config.toml"] = str(error)
    try:
        expected = metrics_lines(History.restored(newest.get("history", {})).records)
        *complete, _ = read_file(folder / "metrics.jsonl").split(b"\n")  # the last line may be incomplete
        content = b"".join(line + b"\n" for line in complete)
        are_tables = all(isinstance(json.loads(line), dict) for line in complete)
        if not (content.startswith(expected) and are_tables):
            raise ValueError("its lines differ from those in the last checkpoint")
    except READ_ERRORS as error:
        states["metrics.jsonl"] = f"{short_reason(error)}; it is written again when the run is resumed"
    return states


def changed_config(folder: Path) -> str:
    """Return what is wrong with the config of a run, finished or not, or an empty text."""
    return (_states(folder) if is_finished(folder) else check_run(folder)).get("config.toml", "")


def environment(backend: Backend) -> dict[str, str | int | None]:
    """Return what bitwise identical results depend on, besides the config."""
    return {
        "device": backend.device.type,
        "precision": backend.precision,
        "ranks": backend.ranks.count,
        "channels_last": backend.channels_last,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "remnant": version("remnant"),
        "git": git_commit(),
    }


def git_commit() -> str | None:
    """Return the commit of the code, if it is run from a checkout."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # fails in an unrelated repository
        return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
