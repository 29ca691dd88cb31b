"""The command `remnant check`."""

from pathlib import Path
from typing import Annotated

import typer


def check(
    folders: Annotated[list[str], typer.Argument(metavar="RUN", help="Run folders.", show_default=False)],
) -> None:
    """Check the files of runs for damage.

    The exit status is 1 if a file is damaged. Nothing is changed. The files of a finished run are compared
    with the hashes in its result.json, and checkpoints with the digests in their names. To repair a run,
    repeat the command that started it.

    Example: remnant check runs/*
    """
    are_intact = [_report(Path(folder)) for folder in folders]
    if not all(are_intact):
        raise typer.Exit(1)


def _report(folder: Path) -> bool:
    """Print the state of each file of a run; return whether all of them are intact."""
    from remnant.experiment.result import check_run

    states = check_run(folder)
    for name, problem in states.items():
        typer.echo(f"{folder / name}: {problem or 'ok'}")
    return not any(states.values())
