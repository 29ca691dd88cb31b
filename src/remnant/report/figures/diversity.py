"""Diversity of final buffers (Fig. 4): features of a network that was trained jointly on clean labels."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import Tensor

from remnant.config import resolve
from remnant.engine.inference import embed
from remnant.errors import RemnantError
from remnant.experiment import metrics
from remnant.experiment.checkpoint import READ_ERRORS, generations, read, short_reason
from remnant.nets import build
from remnant.report.runs import FinishedRun, final_buffer
from remnant.report.tables.benchmarks import is_same_data
from remnant.report.tables.stored import DECIMALS

Features = Callable[[Tensor, Tensor], Tensor]  # inputs and labels -> features (M, D)


def clean_joint_run(runs: Sequence[FinishedRun], like: FinishedRun) -> FinishedRun | None:
    """Return a run of joint training on the clean labels of a run's data, the one with the smallest seed."""
    joint = [run for run in runs if run.method == "joint" and run.result["noise_rate"] == 0]
    found = [run for run in joint if is_same_data(run, like)]
    return min(found, key=lambda run: run.seed, default=None)


def joint_features(run: FinishedRun) -> Features:
    """Return the features of the network in the last checkpoint of a run of joint training."""
    config = resolve(dict(run.config))
    net = build(config.net, config.spec, seed=0)
    try:
        path = next(iter(generations(run.folder / "checkpoint")))
        net.load_state_dict(read(path)["learner"]["weights"]["net"])
    except (StopIteration, RuntimeError, *READ_ERRORS) as error:
        why = "there is none" if isinstance(error, StopIteration) else short_reason(error)
        raise RemnantError(
            f"{run.folder}: expected a checkpoint with the weights of joint training, but {why}. Repeat this "
            "run with --force (force=True)."
        ) from error
    return lambda x, y: embed(net, x, y, config.spec.transform.plain).features


def class_diversity(run: FinishedRun, features: Features) -> dict[str, float] | None:
    """Return the diversity of each class in the final buffer, scaled by occurrence; None without a buffer."""
    buffer = final_buffer(run)
    if buffer is None:
        return None
    y, names = buffer["y"], run.classes
    found = metrics.diversity(features(buffer["x"], y), y)
    scaled = metrics.scaled_by_occurrence(found, metrics.class_counts(y), len(names))
    return {names[label]: value for label, value in scaled.items()}


def mean_diversity(run: FinishedRun, features: Features) -> float | None:
    """Return the mean over all classes of `class_diversity`, where a class that is not stored has 0."""
    found = class_diversity(run, features)
    classes = sum(len(task) for task in run.result["classes"])
    return None if found is None else sum(found.values()) / classes


def with_diversity(
    runs: Sequence[FinishedRun], on_disk: Sequence[FinishedRun], note: Callable[[str], object]
) -> list[FinishedRun]:
    """Return runs with the diversity of their buffers in their results, where it can be computed.

    It can be if `on_disk`, runs with their folders, has the same run, and a run of joint training on clean
    labels with the same data and network. Other runs are returned as they are; `note` gets the reason if a
    file cannot be read.
    """
    folders = {run.digest: run for run in on_disk if run.digest and run.folder.suffix != ".json"}
    known: dict[str, Features | None] = {}
    found = []
    for run in runs:
        value = None
        if run.digest in folders:
            try:
                value = _diversity(folders[run.digest], list(folders.values()), known)
            except RemnantError as error:
                note(f"diversity is left out: {error}")
        if value is not None:
            buffer = {**run.result["buffer"], "diversity": round(value, DECIMALS)}
            run = replace(run, result={**run.result, "buffer": buffer})
        found.append(run)
    return found


def _diversity(
    run: FinishedRun, runs: Sequence[FinishedRun], known: dict[str, Features | None]
) -> float | None:
    """Return the diversity of a buffer, None without one; `known` has the features of networks so far."""
    key = _inputs(run)
    if key not in known:
        known[key] = None  # if its network cannot be read, this is noted once
        joint = clean_joint_run([other for other in runs if _inputs(other) == key], run)
        known[key] = None if joint is None else joint_features(joint)
    features = known[key]
    return None if features is None or not run.result["buffer"] else mean_diversity(run, features)


def _inputs(run: FinishedRun) -> str:
    """Return what runs have in common if the network of one can be applied to the buffer of the other."""
    return json.dumps([run.config.get("data"), run.config.get("net")], sort_keys=True, default=str)
