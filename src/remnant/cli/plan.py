"""The plan that `remnant run --dry-run` prints."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remnant.cli.messages import fit

if TYPE_CHECKING:
    from remnant.config import Config
    from remnant.stream import Stream


def print_plan(
    recipe: str | None, settings: Mapping[str, Any], out: Path, data_dir: Path | None, strict: bool
) -> None:
    """Print what a run would do, with an estimate of its time and memory; nothing is downloaded."""
    from remnant.config.recipe import to_config
    from remnant.config.remarks import remarks
    from remnant.data import OwnData, data_dir as find_data_dir, require_files
    from remnant.engine.threads import compute_threads
    from remnant.errors import MissingFiles
    from remnant.experiment.build import data_notes, plan_stream
    from remnant.report.summary import paper

    config, folder = to_config(recipe, settings), find_data_dir(data_dir)
    for line in remarks(config, recipe, settings):
        _line("note", line)
    print(config.toml(), flush=True)
    is_decoded = not isinstance(config.data, OwnData) or config.data.is_decoded(folder)
    if not is_decoded:  # black images of the same number and size take the same time
        config = config.model_copy(update={"data": config.data.blank()})
    with compute_threads(config.threads):
        try:
            if isinstance(config.data, str):
                require_files(config.data, folder)
            stream, missing = plan_stream(config, folder)
        except MissingFiles as error:
            _print_without_data(config, str(error))
        else:
            for line in data_notes(stream, strict):
                _line("data", line)
            _print_with_data(config, stream, out if is_decoded else None, missing)
    for _, value, meaning in paper(config):
        _line("paper", f"{value} {meaning}")


def _line(label: str, text: str) -> None:
    """Print a comment; in a terminal, long texts are wrapped between words."""
    print(fit(f"# {label:10s}{text}", sys.stdout, f"# {'':10s}"), flush=True)


def _print_with_data(config: "Config", stream: "Stream", out: Path | None, missing: int) -> None:
    """Print the plan; without `out`, the run folder is not known yet, since the data are not decoded."""
    from remnant.config.components import short
    from remnant.config.registries import REGISTRIES
    from remnant.experiment.loggers.console import duration
    from remnant.experiment.result import is_finished
    from remnant.sweep.estimate import estimate, work_plan

    counts = [len(task) for task in stream.tasks]
    works = work_plan(config, counts).works
    noise = short(REGISTRIES["noise"], config.noise)
    _line("data", f"{sum(counts):,} training samples in {len(counts)} task(s): {counts}")
    rate = "an unknown share" if stream.noise_rate is None else f"{100 * stream.noise_rate:.1f} %"
    _line("noise", f"{noise}: {rate} of the labels are noisy")
    _line("steps", ", ".join(f"{kind} {work.steps:,}" for kind, work in works.items()))
    if missing:  # the name of the run folder depends on them
        _print_features(config, missing)
    elif out is None:
        _line("folder", "named when the images are decoded, at the start of the run")
    else:
        folder = out / config.run_id(stream.fingerprint)
        _line("folder", f"{folder} ({'finished' if is_finished(folder) else 'to do'})")
    print(f"measuring a few steps of each kind: {', '.join(works)} ...", file=sys.stderr)
    expected = estimate(config, stream)
    low, high = map(duration, expected.seconds)
    _line("time", f"about {low} to {high} on {config.threads} thread(s)")
    _line("memory", f"about {expected.megabytes:,.0f} MB")


def _print_features(config: "Config", missing: int) -> None:
    from remnant.experiment.build import build_backend
    from remnant.experiment.loggers.console import duration
    from remnant.features import seconds_per_image

    seconds = missing * seconds_per_image(config.net, config.data_spec, build_backend(config))
    text = (
        f"{missing:,} images have to pass through the backbone first, which takes about {duration(seconds)}"
    )
    _line("features", f"{text}; their features are stored in the data folder")


def _print_without_data(config: "Config", missing: str) -> None:
    from remnant.sweep.estimate import work_plan

    classes = [sum(config.class_counts())] if config.method == "joint" else config.class_counts()
    works = work_plan(config, [config.per_class * count for count in classes]).works
    _line("data", f"{missing}")
    _line("tasks", f"{len(classes)} with {', '.join(map(str, classes))} classes")
    if config.per_class:
        _line("steps", f"about {', '.join(f'{kind} {work.steps:,}' for kind, work in works.items())}")
    else:
        kinds = f"{', '.join(works)} in {config.epochs} epochs per task"
        _line("steps", f"{kinds}; their number depends on the data")
    _line("time", "cannot be measured without the data")
