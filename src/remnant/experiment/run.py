"""Running an experiment, from Python or from the command line."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from remnant.config import Config
from remnant.config.recipe import to_config, without_recipe
from remnant.data import data_dir as find_data_dir
from remnant.engine.threads import compute_threads
from remnant.errors import RemnantError
from remnant.experiment.build import build_learner, build_stream, skipped_files
from remnant.experiment.lock import locked
from remnant.experiment.loggers import Logger
from remnant.experiment.loggers.console import Quiet
from remnant.experiment.loggers.metrics_file import MetricsFile
from remnant.experiment.result import git_commit
from remnant.experiment.runner import Options, Run


def run(
    config_or_recipe: Config | Mapping[str, Any] | str | Path | None = None,
    /,
    *,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    force: bool = False,
    save_every: float = 10.0,
    strict: bool = False,
    loggers: Sequence[Logger] = (),
    **settings: Any,  # noqa: ANN401
) -> Path:
    """Run or resume an experiment, and return its run folder.

    Start from a recipe (a name, a TOML file, a run folder), a table of settings, or a config, and change
    settings by keyword. Without any of them, the recipe is `digits`, or, if `data` is given, all settings
    have their defaults, and no noise is added. Everything that has a name can also be an object: a method,
    a network (a function from `Spec` to `nn.Module`), a dataset, a noise, a component of a method.
    """
    folder = None if data_dir is None else Path(data_dir)
    options = Options(Path(out), folder, force, save_every, strict)
    return run_recipe(config_or_recipe, settings, options, loggers or [Quiet(Console(stderr=True))])


def run_recipe(
    recipe: Config | Mapping[str, Any] | str | Path | None,
    settings: Mapping[str, Any],
    options: Options,
    loggers: Sequence[Logger],
) -> Path:
    """Run or resume a recipe with settings on top, and return its run folder."""
    config = to_config(recipe, settings)
    for line in without_recipe(config, recipe, settings):
        for logger in loggers:
            logger.note(line)
    return execute(config, options, loggers)


def execute(config: Config, options: Options, loggers: Sequence[Logger]) -> Path:
    """Run or resume the experiment of a config, and return its run folder."""

    def note(text: str) -> None:
        for logger in loggers:
            logger.note(text)

    with compute_threads(config.threads):
        stream = build_stream(config, find_data_dir(options.data_dir))
        for line in skipped_files(stream, options.strict):
            note(line)
        folder = options.out / config.run_id(stream.fingerprint)
        if is_finished(folder) and not options.force:
            note(f"this run is already finished{by_other_code(folder)}; --force repeats it")
            return folder
        if objects := config.objects():
            note(
                f"{', '.join(objects)}: Python objects, which a config file cannot contain. This run can be "
                "resumed from Python, but not from the command line."
            )
        learner = build_learner(config, stream)  # before the folder is created, in case it fails
        with locked(folder):
            if options.force:
                clear(folder)
            if not is_finished(folder):  # another process may have finished it in the meantime
                all_loggers = [*loggers, MetricsFile(folder / "metrics.jsonl")]
                Run(config, options, all_loggers, stream, learner, folder).execute()
    return folder


def is_finished(folder: Path) -> bool:
    """Return whether a run has written its results, which are its last output."""
    return (folder / "result.json").exists()


def by_other_code(folder: Path) -> str:
    """Return a remark if the code may have changed since the run."""
    then, now = json.loads((folder / "result.json").read_text())["git"], git_commit()
    return f" with the code of commit {then} (now {now})" if then != now or "dirty" in str(now) else ""


def clear(folder: Path) -> None:
    """Remove the files of an earlier run from its folder, starting with the results."""
    try:
        (folder / "result.json").unlink(missing_ok=True)
        shutil.rmtree(folder / "checkpoint")
        (folder / "checkpoint").mkdir()
        for path in folder.iterdir():
            if path.is_file() and path.name != ".lock":
                path.unlink()
        shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    except OSError as error:
        raise RemnantError(f"{folder}: cannot be cleared ({error.strerror}). Remove it manually.") from error
