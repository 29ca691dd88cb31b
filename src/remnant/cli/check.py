"""The command `remnant check`."""

from pathlib import Path
from typing import Annotated

import typer


def check(
    folders: Annotated[list[str], typer.Argument(metavar="RUN", help="Run folders.", show_default=False)],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print a line for each file.")] = False,
) -> None:
    """Check the files of runs for damage.

    An intact run is one line, a damaged run one line for each damaged file. The exit status is 1 if a file
    is damaged. Nothing is changed. The files of a finished run are compared with the hashes in its
    result.json, and checkpoints with the digests in their names. To repair a run, repeat the command that
    started it.

    Example: remnant check runs/*
    """
    are_intact = [_report(Path(folder), verbose) for folder in folders]
    if not all(are_intact):
        raise typer.Exit(1)


def _report(folder: Path, verbose: bool) -> bool:
    """Print the state of a run, or of its files; return whether all of them are intact."""
    from remnant.experiment.result import check_run, is_finished

    states = check_run(folder)
    is_intact = not any(states.values())
    if is_intact and not verbose:
        progress = "finished" if is_finished(folder) else "not finished"
        typer.echo(f"{folder}: ok, {len(states)} files, {progress}")
    for name, problem in states.items():
        if problem or verbose:
            typer.echo(f"{folder / name}: {problem or 'ok'}")
    return is_intact
