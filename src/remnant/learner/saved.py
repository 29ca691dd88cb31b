"""The file of a saved learner: its complete state, and the model for predictions beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from remnant.config import Config
from remnant.config.components import has_setting
from remnant.config.recipe import apply, read as read_recipe
from remnant.config.resolve import DEFAULTS, unknown_key
from remnant.config.schema import NEWER
from remnant.data import Spec
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import (
    READ_ERRORS,
    generations,
    pack,
    read as read_checkpoint,
    short_reason,
    unpack,
    write_atomically,
)
from remnant.models.description import describe_spec, to_spec
from remnant.models.model import FILE as MODEL, Label, model_file, read_model
from remnant.nets import pretrained_weights
from remnant.settings import read_file
from remnant.suspects.scores import Evidence
from remnant.suspects.trajectory import Statistics

FILE, SUSPECTS = "learner.safetensors", "suspects.csv"
FORMAT = 1
LARGEST_GAP = 10**8  # by which an id in a buffer may exceed the number of samples that is stored
# Settings of the stream of a run, which a learner does not have.
OF_STREAM = ("data", "tasks", "name", "noise", "per_class", "split", "class_order", "validation")
# Settings that may differ between tasks: no saved state depends on them.
OF_TASK = (
    "epochs", "batch", "lr", "lr_drops", "momentum", "weight_decay", "consolidation.epochs",
    "consolidation.lr", "batchnorm", "device", "precision", "compile", "threads",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SavedLearner:
    """All that a learner needs to continue, in this process or in another."""

    spec: Spec
    labels: tuple[Label, ...]
    settings: dict[str, Any]
    tasks: int
    samples: int
    files: tuple[str, ...]
    evidence: Sequence[Evidence]
    state: dict[str, Any]
    pretrained: Sequence[str] | None = None  # sha256 of weights that the network needs; None: checked before


def settings_of_learner(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings; raise RemnantError if one of them is about a stream."""
    if wrong := [name for name in settings if name.partition(".")[0] in OF_STREAM]:
        raise RemnantError(
            f"{wrong[0]}: expected a setting of the method or of training, got one of a stream, which "
            "remnant.run has. A learner gets its samples by learn(images, labels)."
        )
    return settings


def settings_of_task(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings for `Learner.load`, which checks them; raise RemnantError for its other parameters."""
    for name in ("folder", "net", "head"):
        if name in settings:
            raise RemnantError(
                f"{name}: expected one of the settings that may differ between tasks, such as epochs and lr. "
                "Remove it."
            )
    return settings


def with_settings(saved: SavedLearner, changes: dict[str, Any]) -> SavedLearner:
    """Return a saved learner with other settings; raise RemnantError unless they may differ between tasks."""
    possible = [name for name in OF_TASK if has_setting(NEWER | saved.settings, name)]
    for name in settings_of_learner(changes):
        if name.partition(".")[0] not in DEFAULTS:
            raise RemnantError(unknown_key(name))
        if name not in possible:
            why = f"{saved.settings['method']} does not use it" if name in OF_TASK else "it is fixed"
            raise RemnantError(
                f"{name}: expected one of the settings that may differ between tasks, but {why}. Remove it, "
                f"or choose from {', '.join(possible)}."
            )
    return replace(saved, settings=apply(saved.settings, changes))


def check_folder(folder: Path, *, overwrite: bool = True) -> None:
    """Raise RemnantError unless a folder is new, empty, or that of a saved learner that may be replaced."""
    found = [path.name for path in folder.glob("*") if not path.match(".*.part")]
    others = [name for name in sorted(found) if name not in (FILE, MODEL, SUSPECTS)]
    if others and (FILE not in found or "config.toml" in found):
        raise RemnantError(
            f"{folder}: expected a new folder, or that of a saved learner, found {others[0]!r:.100} in it. "
            "Choose another folder."
        )
    if FILE in found and not overwrite:
        raise RemnantError(
            f"{folder}: expected a new folder, but a learner is saved in it. Choose another folder, or add "
            "--force."
        )


def used_ids(buffers: Sequence[Tensor], samples: int) -> int:
    """Return how many ids have been used, from those in the buffers; raise ValueError for a damaged id."""
    used = 1 + max([int(id.max()) for id in buffers if len(id)], default=-1)
    if used - samples > LARGEST_GAP:
        raise ValueError(f"the buffer has the id {used - 1:,}, but {samples:,} samples were learned")
    return used


def write_learner(folder: Path, saved: SavedLearner, net: nn.Module, config: Config) -> None:
    """Write a saved learner and its model; each file completely or not at all.

    The suspects of a learner that is replaced are removed, so that they never stand beside another one.
    """
    check_folder(folder)
    content = pack(
        {
            "format": FORMAT,
            "spec": describe_spec(saved.spec),
            "labels": list(saved.labels),
            "settings": {key: value for key, value in saved.settings.items() if key != "data"},
            "tasks": saved.tasks,
            "samples": saved.samples,
            "files": list(saved.files),
            "evidence": {str(i): _plain(evidence) for i, evidence in enumerate(saved.evidence)},
            "learner": saved.state,
            "pretrained": pretrained_weights(config.net),
        }
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RemnantError(
            f"{folder}: cannot be created ({error.strerror}). Choose another folder."
        ) from error
    (folder / SUSPECTS).unlink(missing_ok=True)
    write_atomically(folder / MODEL, model_file(net, config, saved.spec, saved.labels))
    write_atomically(folder / FILE, content)


def read_learner(folder: Path) -> SavedLearner:
    """Read a saved learner, or the last checkpoint of a finished run."""
    if (folder / "result.json").is_file() and not (folder / FILE).exists():
        return _from_run(folder)
    try:
        state = unpack(read_file(folder / FILE))
        evidence = [_evidence(found) for found in state["evidence"].values()]
        return SavedLearner(
            to_spec(state["spec"]), tuple(state["labels"]), state["settings"], state["tasks"],
            state["samples"], tuple(state["files"]), evidence, state["learner"],
            state["pretrained"],
        )  # fmt: skip
    except READ_ERRORS as error:
        raise RemnantError(
            f"{folder}: expected a saved learner or a finished run, but {FILE} cannot be read "
            f"({short_reason(error)}). Check the path."
        ) from error


def _from_run(folder: Path) -> SavedLearner:
    model = read_model(folder / MODEL)
    checkpoint = next(iter(generations(folder / "checkpoint")), None)
    try:
        if checkpoint is None:
            raise ValueError("it has no checkpoint")
        state = read_checkpoint(checkpoint)
        statistics = [Statistics(**found) for found in state["statistics"].values()]
    except READ_ERRORS as error:
        raise RemnantError(
            f"{folder}: expected a finished run with its checkpoint, but {short_reason(error)}."
        ) from error
    samples = 1 + max([int(found.id.max()) for found in statistics], default=-1)
    settings = {k: v for k, v in read_recipe(str(folder)).items() if k not in OF_STREAM}
    tasks, learner = state["history"]["tasks"], state["learner"]
    return SavedLearner(model.spec, model.labels, settings, tasks, samples, ("",) * samples, [], learner)


def _plain(evidence: Evidence) -> dict[str, Any]:
    return {**vars(evidence), "statistics": dict(vars(evidence.statistics))}


def _evidence(found: dict[str, Any]) -> Evidence:
    return Evidence(**(found | {"statistics": Statistics(**found["statistics"])}))
