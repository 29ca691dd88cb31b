"""Running an experiment, from Python or from the command line."""

import contextlib
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from remnant.config import Config
from remnant.config.recipe import find, to_config
from remnant.config.remarks import remarks
from remnant.data import data_dir as find_data_dir
from remnant.engine.backend import find_device
from remnant.engine.parallel.ranks import check_equal, find_ranks, first_in_turn, is_first_rank, on_first
from remnant.engine.threads import compute_threads
from remnant.errors import RemnantError, memory_errors
from remnant.experiment import checkpoint
from remnant.experiment.build import AUTOMATIC, build_backend, build_learner, build_stream, data_notes
from remnant.experiment.lock import locked
from remnant.experiment.loggers import Logger
from remnant.experiment.loggers.console import progress_logger
from remnant.experiment.loggers.metrics_file import MetricsFile
from remnant.experiment.result import changed_config, check_run, damage, git_commit, is_finished, read_result
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
    loggers: Sequence[Logger] | None = None,
    **settings: Any,  # noqa: ANN401
) -> Path:
    """Run or resume an experiment, and return its run folder.

    Start from a recipe (a name, a TOML file, a run folder), a table of settings, or a config, and change
    settings by keyword. Without any of them, the recipe is `digits`, or, if `data` is given, all settings
    have their defaults, and no noise is added. Everything that has a name can also be an object: a method,
    a network (a function from `Spec` to `nn.Module`), a dataset, a noise, a component of a method.

    Progress is shown on standard error: a bar in a terminal, one line elsewhere. Pass other `loggers`
    instead, or `[]` to print nothing.
    """
    folder = None if data_dir is None else Path(data_dir)
    options = Options(Path(out), folder, force, save_every, strict)
    loggers = [progress_logger()] if loggers is None else loggers
    return run_recipe(config_or_recipe, settings, options, loggers)


def run_recipe(
    recipe: Config | Mapping[str, Any] | str | Path | None,
    settings: Mapping[str, Any],
    options: Options,
    loggers: Sequence[Logger],
) -> Path:
    """Run or resume a recipe with settings on top, and return its run folder."""
    _check_loggers(loggers)
    loggers = loggers if is_first_rank() else []
    with memory_errors():
        config = to_config(recipe, settings)
        for line in remarks(config, recipe, settings):
            for logger in loggers:
                logger.note(line)
        path = find(str(recipe)) if isinstance(recipe, str | Path) else None
        earlier = path.parent if path is not None and path.name == "config.toml" else None
        _check_config_file(earlier)
        return execute(config, options, loggers, None if settings else earlier)


def _check_config_file(folder: Path | None) -> None:
    """Raise RemnantError if the config of a run has changed: it would start another run."""
    if folder and (problem := changed_config(folder)):
        raise RemnantError(
            f"{folder / 'config.toml'}: expected the config of this run, but it has changed ({problem}). "
            "Repeat the command that started the run, which writes it again, or move the file elsewhere to "
            "use it as a recipe."
        )


def _check_loggers(loggers: object) -> None:
    """Raise RemnantError unless all loggers, which a user may pass, have the methods of a Logger."""
    methods = ("start", "step", "record", "note", "end")
    for logger in loggers if isinstance(loggers, Sequence) else [loggers]:
        if isinstance(logger, type) or any(not callable(getattr(logger, name, None)) for name in methods):
            raise RemnantError(
                f"loggers: expected objects with the methods {', '.join(methods)}, got {logger!r:.80}. Write "
                "a subclass of remnant.Logger, and pass an instance of it."
            )
    if not isinstance(loggers, Sequence):
        raise RemnantError(f"loggers: expected a list of loggers, got {loggers!r:.80}. Write it in brackets.")


def execute(config: Config, options: Options, loggers: Sequence[Logger], earlier: Path | None = None) -> Path:
    """Run or resume the experiment of a config, and return its run folder.

    `earlier` is the run folder that the config was read from, if any.
    """

    def note(text: str) -> None:
        for logger in loggers:
            logger.note(text)

    _check_text(config)
    with compute_threads(config.threads):
        ranks = find_ranks(find_device(config.device))
        with first_in_turn(ranks):  # arrays on disk are computed once
            stream = build_stream(config, find_data_dir(options.data_dir))
        folder = options.out / config.run_id(stream.fingerprint)
        check_equal(ranks, f"the run {folder.name}", folder.name.encode)
        for line in [*data_notes(stream, options.strict), *not_resumed(earlier, folder)]:
            note(line)
        if not options.force and (finished := on_first(ranks, lambda: remark_if_finished(folder).encode())):
            note(finished.decode())
            return folder
        if objects := config.objects():
            note(
                f"{', '.join(objects)}: Python objects, which a config file cannot contain. This run can be "
                "resumed from Python, but not from the command line."
            )
        backend = build_backend(config, {} if options.force else started_with(folder))
        stream = stream.on(backend.device)
        learner = build_learner(config, stream, backend)  # before the folder is created, in case it fails
        with locked(folder) if ranks.number == 0 else contextlib.nullcontext():
            removed = list(learner.buffers()) if options.force else None
            if on_first(ranks, lambda: b"unfinished" if open_folder(folder, removed, note) else b""):
                all_loggers = [*loggers, MetricsFile(folder / "metrics.jsonl")] if ranks.number == 0 else []
                Run(config, options, all_loggers, stream, learner, folder, backend).execute()
    return folder


def remark_if_finished(folder: Path) -> str:
    """Return a line if a run is finished, and none of its results is damaged; otherwise an empty text."""
    if not is_finished(folder):
        return ""
    problems = {name: problem for name, problem in check_run(folder).items() if problem}
    if any(not name.startswith("checkpoint/") for name in problems):
        return ""
    rest = "".join(f"; {folder / name} is damaged: {problem}" for name, problem in problems.items())
    return f"this run is already finished{by_other_code(folder)}; --force (force=True) repeats it{rest}"


def open_folder(folder: Path, removed: Sequence[str] | None, note: Callable[[str], None]) -> bool:
    """Set damaged files aside, and return whether the run is unfinished; the folder must be locked.

    If `removed` is not None, the run restarts: its files, including these buffers, are removed first.
    """
    if removed is not None:
        clear(folder, removed)
    # Another process may have finished or repaired it in the meantime.
    problems = damage(folder) if is_finished(folder) else {}
    set_aside_damaged(folder, problems, note)
    return bool(problems) or not is_finished(folder)


def started_with(folder: Path) -> dict[str, Any]:
    """Return what settings that may be `auto` were when an interrupted run was started, if it was saved."""
    for path in checkpoint.generations(folder / "checkpoint"):
        with contextlib.suppress(*checkpoint.READ_ERRORS):
            then = checkpoint.plain_values(path)["environment"]
            return {name: then[name] for name in AUTOMATIC if isinstance(then[name], str | bool)}
    return {}


def _check_text(config: Config) -> None:
    """Raise RemnantError if a setting, such as the name of a file, cannot be written to config.toml."""
    try:
        config.toml().encode()
    except UnicodeEncodeError as error:
        line = next(line for line in error.object.splitlines() if not line.isprintable())
        raise RemnantError(
            f"expected settings that can be written in UTF-8, got {line!r:.200}. Rename the file."
        ) from error


def not_resumed(earlier: Path | None, folder: Path) -> list[str]:
    """Return a line if the config of a run folder is run in another folder."""
    if earlier is None or earlier.resolve() == folder.resolve():
        return []
    if earlier.name == folder.name:
        out = shlex.quote(str(earlier.parent))
        return [f"{earlier} is not resumed: the run folder is {folder}; --out {out} resumes it"]
    return [
        f"{earlier} is not resumed: its config.toml, an extension file, the data or the name of the folder "
        f"has changed since. This is another run, {folder}"
    ]


def by_other_code(folder: Path) -> str:
    """Return a remark if the code may have changed since the run."""
    then, now = read_result(folder).get("git"), git_commit()
    return f" with the code of commit {then} (now {now})" if then != now or "dirty" in str(now) else ""


def set_aside_damaged(folder: Path, problems: Mapping[str, str], note: Callable[[str], None]) -> None:
    """Rename the damaged files of a finished run, which can be written again from its last checkpoint."""
    for name, problem in problems.items():
        if not checkpoint.generations(folder / "checkpoint"):
            raise RemnantError(
                f"{folder / name}: damaged ({problem}), and there is no checkpoint to write it again from. "
                "Restore the file, or repeat the whole run with --force (force=True)."
            )
        note(f"warning: {folder / name} is damaged ({problem}); it is written again from the last checkpoint")
        if os.path.lexists(folder / name):
            checkpoint.set_aside(folder / name)


def clear(folder: Path, buffers: Sequence[str]) -> None:
    """Remove the files that a run wrote to its folder, starting with the results; other files are kept."""
    files = ("result.json", "config.toml", "metrics.jsonl", "suspects.csv", "report.html", "audit.html")
    names = (*files, *(f"{name}.safetensors" for name in ("model", *buffers)))
    try:
        for name in names:
            (folder / name).unlink(missing_ok=True)
        for path in checkpoint.generations(folder / "checkpoint"):
            path.unlink()
        if (folder / "tensorboard").exists():
            shutil.rmtree(folder / "tensorboard")
    except OSError as error:
        raise RemnantError(
            f"{error.filename or folder}: cannot be removed ({error.strerror}). Remove it manually."
        ) from error
