"""The command line. torch is imported inside the commands, so that --help is fast."""

import sys
from typing import Annotated

import typer

from remnant.cli import data, listing, run
from remnant.errors import Interrupted, RemnantError

app = typer.Typer(
    name="remnant",
    help="Continual learning under noisy labels, with a small and clean replay buffer.",
    epilog="Start with: remnant run",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("list")(listing.list_)
app.add_typer(data.app, name="data", help="Download and check datasets, show label noise.")


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from remnant import __version__

        typer.echo(f"remnant {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command; errors that a user can fix are printed without a traceback."""
    try:
        app()
    except Interrupted as stop:
        typer.echo(f"\nremnant: {stop}", err=True)
        sys.exit(130)
    except RemnantError as error:
        typer.echo(f"remnant: {error}", err=True)
        sys.exit(2)
