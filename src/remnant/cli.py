"""The command line: verbs only. torch is imported inside a verb, so that --help is instant."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from remnant.cli_data import DataDir
from remnant.cli_data import app as data_app
from remnant.errors import Interrupted, RemnantError, nearest

app = typer.Typer(
    name="remnant",
    help="Continual learning under noisy labels: keep a small, clean memory of a stream.",
    epilog="Start with: remnant run",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data", help="Fetch and check data sets, look at noise.")

LISTS = ("methods", "data", "nets", "noises", "recipes")
CHOICES = ("objectives", "schedules", "insertions", "replacements", "consolidations", "learners")
MORE = (*CHOICES, "settings")

SaveEvery = Annotated[float, typer.Option(min=0, help="Seconds between checkpoints; 0: every step.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop if a file of the data cannot be read; else skip it.")
]


@app.command()
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RECIPE] [KEY=VALUE]...",
            help="A recipe's name or TOML file (default: digits), then settings.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="See `remnant list methods`.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="symmetric:0.4, instance:0.2, file:labels.npy, none, ...")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    per_class: Annotated[
        int | None, typer.Option(help="Take a fixed subset of this many training rows per class.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting: see `remnant list settings`."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs"),
    data_dir: DataDir = None,
    save_every: SaveEvery = 10.0,
    force: Annotated[bool, typer.Option("--force", help="Start over; forget what is there.")] = False,
    strict: Strict = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, with an estimate, and stop.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Run an experiment, or go on with it where it was interrupted.

    \b
    Examples:
      remnant run
      remnant run digits --method er --noise symmetric:0.6 --seed 1
      remnant run cifar10-small --data-dir ~/data --set net.width=16 buffer=500
      remnant run --set replacement=lass schedule=always insertion.alpha=0.5
      remnant run runs/digits-aer-abs-symmetric-0.4-s0-1a2b3c4d/config.toml

    The last line printed is the run's folder. The same command again changes nothing when the run is
    finished, and continues it, bit for bit, when it was interrupted.
    """
    from remnant import commands

    named = {"method": method, "noise": noise, "seed": seed, "per_class": per_class}
    request = commands.Request(
        words=words or [],
        changes=[f"{k}={v}" for k, v in named.items() if v is not None] + (changes or []),
        out=out,
        data_dir=data_dir,
        save_every=save_every,
        force=force,
        strict=strict,
    )
    if dry_run:
        commands.plan(request)
    else:
        commands.run(request, quiet)


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(help=f"{', '.join(LISTS)} (these by default); {', '.join(MORE)}.")
    ] = "",
) -> None:
    """Show what there is to choose from.

    \b
    Examples:
      remnant list
      remnant list methods
      remnant list settings
    """
    known = [*LISTS, *MORE]
    if what and what not in known:
        raise RemnantError(
            f"unknown list {what!r}{nearest(what, known)} Expected one of {', '.join(known)}."
        )
    from remnant import listing

    for name in [what] if what else LISTS:
        listing.show(name)


def main() -> None:
    """Run a verb; a user's mistake is a message, not a traceback."""
    try:
        app()
    except Interrupted as stop:
        typer.echo(f"\nremnant: {stop}", err=True)
        sys.exit(130)
    except RemnantError as error:
        typer.echo(f"remnant: {error}", err=True)
        sys.exit(2)
