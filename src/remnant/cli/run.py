"""The command `remnant run`, which parses its arguments and runs a recipe."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from remnant.cli.data import DataDir
from remnant.cli.messages import check_one_seed, first_line, fit, unknown_option
from remnant.cli.plan import print_plan
from remnant.errors import Interrupted, RemnantError
from remnant.extensions import is_own_data
from remnant.settings import literal

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RECIPE | DATA | KEY=VALUE",
        help="Name of a recipe, TOML file or run folder (default: digits), or data without a recipe: a name, "
        "folder:DIR, table:FILE.csv or hf:NAME. Then settings.",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting: see `remnant list settings`."),
]


def run(
    ctx: typer.Context,
    words: Words = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="A name, see `remnant list methods`, or FILE.py:NAME.")
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(metavar="NOISE", help="symmetric:0.4, instance:0.2, file:labels.npy, none, ..."),
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Random seed.")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Epochs per task.")] = None,
    lr: Annotated[float | None, typer.Option(metavar="RATE", help="Learning rate.")] = None,
    batch: Annotated[int | None, typer.Option(metavar="N", help="Samples of the stream in a step.")] = None,
    buffer_size: Annotated[int | None, typer.Option(metavar="N", help="Samples in the buffer.")] = None,
    net: Annotated[
        str | None, typer.Option(metavar="NAME", help="A name, see `remnant list nets`, or FILE.py:NAME.")
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option(metavar="PIXELS", help="Side length of own images; that of other datasets is fixed."),
    ] = None,
    per_class: Annotated[
        int | None,
        typer.Option(metavar="N", help="Use a fixed subset of this many training samples per class."),
    ] = None,
    changes: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder that contains the run folders. Default: runs, or that of a given run folder.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    save_every: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Seconds between checkpoints; 0: every step.")
    ] = 10.0,
    force: Annotated[
        bool, typer.Option("--force", help="Restart from the beginning and discard existing results.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Stop if a data file cannot be read, instead of skipping it."),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events to the run folder.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the config and an estimate of time and memory only.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the run folder only.")] = False,
) -> None:
    """Run an experiment, or resume it where it was interrupted.

    \b
    Examples:
      remnant run
      remnant run digits --method er --noise symmetric:0.6 --seed 1
      remnant run cifar10-small --data-dir ~/data --buffer-size 500 net.width=16
      remnant run --set replacement=lass schedule=always insertion.alpha=0.5
      remnant run --method ./ntd.py:NTD
      remnant run folder:photos --image-size 64
      remnant run runs/digits-aer-abs-symmetric-0.4-s0-1a2b3c4d

    The last line printed is the run folder. Repeating the command resumes an interrupted run, bit for bit,
    and does nothing if the run is finished.
    """
    named = {"method": method, "noise": noise, "seed": seed, "epochs": epochs, "lr": lr, "batch": batch}
    named |= {"buffer_size": buffer_size, "net": net, "per_class": per_class, "data.image_size": image_size}
    texts = [f"{key}={value}" for key, value in named.items() if value is not None]
    if any(word.startswith("-") for word in words or []):
        options = {p.opts[0]: not getattr(p, "is_flag", False) for p in ctx.command.params}
        raise RemnantError(unknown_option(words or [], options))
    recipe, settings = parse(words or [], [*texts, *(changes or [])])
    out = parent_of_run(recipe) if out is None else out
    line = first_line(recipe, settings, out)
    if dry_run:
        print(fit(f"# run       {line}", sys.stdout, f"# {'':10s}"), flush=True)
        print_plan(recipe, settings, out, data_dir, strict)
        return
    if not quiet:
        print(fit(line, sys.stdout), flush=True)  # at once: importing torch takes seconds
    from remnant.experiment.loggers.console import console_logger
    from remnant.experiment.loggers.tensorboard import TensorBoard
    from remnant.experiment.run import run_recipe
    from remnant.experiment.runner import Options

    loggers = [console_logger(quiet), *([TensorBoard()] if tensorboard else [])]
    try:
        folder = run_recipe(recipe, settings, Options(out, data_dir, force, save_every, strict), loggers)
    except Interrupted as stop:
        typer.echo(fit(f"\nremnant: {stop}", sys.stderr), err=True)
        raise typer.Exit(130) from stop
    if not quiet:
        from remnant.report.summary import Command, show

        show(folder, Command(recipe, settings, out, data_dir))
    typer.echo(os.fsencode(folder))  # exactly, even if the terminal cannot show it


def parent_of_run(recipe: str | None) -> Path:
    """Return the folder of a run that is repeated or resumed by its folder, otherwise runs."""
    is_run = recipe is not None and os.path.isfile(os.path.join(recipe, "config.toml"))
    return Path(os.path.relpath(os.path.join(str(recipe), os.pardir))) if is_run else Path("runs")


def parse(words: Sequence[str], texts: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    """Return the recipe and the settings of a command line; each setting may occur only once.

    >>> parse(["cifar10-small", "net.width=16"], ["lr=0.1"])
    ('cifar10-small', {'lr': 0.1, 'net.width': 16})
    """
    recipes = [word for word in words if "=" not in word or is_own_data(word) or os.path.exists(word)]
    settings: dict[str, Any] = {}
    for text in [*texts, *(word for word in words if word not in recipes)]:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals:
            raise RemnantError(f"expected key=value, got {text!r}: write --set lr=0.1")
        if key in settings:
            raise RemnantError(f"expected each setting once, got {key} twice.")
        settings[key] = literal(value.strip())
    check_one_seed(recipes, settings)
    if len(recipes) > 1:
        raise RemnantError(
            f"expected one recipe, got {', '.join(recipes)}. Write a method as --method NAME, "
            "and other settings as key=value."
        )
    return (recipes[0] if recipes else None), settings
