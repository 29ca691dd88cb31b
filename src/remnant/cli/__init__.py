"""The command line. torch is imported inside the commands, so that --help is fast."""

import contextlib
import io
import os
import resource
import sys
from typing import Annotated

import typer

from remnant.cli import compare, data, learner, listing, run, runs, sweep
from remnant.cli.messages import fit, shortened
from remnant.engine.parallel.ranks import reports_errors
from remnant.errors import RemnantError, memory_errors, printable

ADDRESS_SPACE = 7 * 10**8  # bytes that torch and its libraries occupy, at least, when they are loaded

app = typer.Typer(
    name="remnant",
    help="Continual learning under noisy labels, with a small and clean replay buffer.",
    epilog="Start with: remnant demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Unknown options reach the command as words, so that it can say what to type instead.
app.command("demo")(runs.demo)
app.command("run", context_settings={"ignore_unknown_options": True})(run.run)
app.command("compare", cls=compare.ListCommand, context_settings={"ignore_unknown_options": True})(
    compare.compare
)
app.command("sweep", cls=compare.ListCommand, context_settings={"ignore_unknown_options": True})(sweep.sweep)
app.command("table", cls=compare.ListCommand)(runs.table)
app.command("tune", cls=compare.ListCommand, context_settings={"ignore_unknown_options": True})(sweep.tune)
app.command("verify")(sweep.verify)
app.command("learn", context_settings={"ignore_unknown_options": True})(learner.learn)
app.command("predict")(learner.predict)
app.command("export")(learner.export)
app.command("audit", context_settings={"ignore_unknown_options": True})(learner.audit)
app.command("list")(listing.list_)
app.command("report")(runs.report)
app.command("runs")(runs.runs)
app.command("check")(runs.check)
app.command("doctor")(listing.doctor)
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
    _prepare_output()
    try:
        try:
            _check_address_space()
            with memory_errors():
                app()
        finally:
            sys.stdout.flush()  # here, since an error at the exit of Python would be a traceback
    except SystemExit as done:
        if type(getattr(done.__context__, "__cause__", None)) is KeyboardInterrupt:  # not while it trains
            typer.echo("remnant: interrupted. Run the same command again.", err=True)
        raise
    except RemnantError as error:
        if reports_errors():
            typer.echo(fit(f"remnant: {shortened(printable(str(error)))}", sys.stderr), err=True)
        sys.exit(2)
    except BrokenPipeError:  # the program that reads the output has ended, such as head
        _discard_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is None:  # it may be the output that cannot be written
            _discard_output()
        place = error.filename or "a file, or the output, cannot be used"
        typer.echo(printable(f"remnant: {place}: {error.strerror or error}."), err=True)
        sys.exit(2)


def _check_address_space() -> None:
    """Raise RemnantError if torch cannot be loaded: its libraries end the process if memory runs out."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        raise RemnantError(
            f"expected at least {ADDRESS_SPACE / 1e9:.1f} GB of memory to load torch, but this process may "
            f"use {limit / 1e9:.1f} GB only. Raise the limit: ulimit -v unlimited"
        )


def _prepare_output() -> None:
    """Make output possible for every text: to closed streams, and in encodings that lack some characters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Discard what was not written to standard output yet, so that Python does not try again at its exit."""
    with contextlib.suppress(OSError):  # not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
