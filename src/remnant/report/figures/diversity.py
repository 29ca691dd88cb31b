"""Diversity of final buffers (Fig. 4): features of a network that was trained jointly on clean labels."""

from collections.abc import Callable, Sequence

from torch import Tensor

from remnant.config import resolve
from remnant.engine.inference import embed
from remnant.errors import RemnantError
from remnant.experiment import metrics
from remnant.experiment.checkpoint import READ_ERRORS, generations, read, short_reason
from remnant.nets import build
from remnant.report.runs import FinishedRun, final_buffer

Features = Callable[[Tensor, Tensor], Tensor]  # inputs and labels -> features (M, D)


def clean_joint_run(runs: Sequence[FinishedRun], data: str) -> FinishedRun | None:
    """Return a run of joint training on the clean labels of a dataset, the one with the smallest seed."""
    found = [r for r in runs if r.data == data and r.method == "joint" and r.result["noise_rate"] == 0]
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
