"""The command `remnant run`, which parses its arguments and runs a recipe."""

import dataclasses
import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from remnant.cli.data import DataDir
from remnant.cli.messages import check_one_seed, first_line, fit, unknown_option
from remnant.cli.plan import print_plan
from remnant.engine.parallel.ranks import check_single, is_first_rank, reports_errors
from remnant.errors import Interrupted, RemnantError
from remnant.extensions import is_own_data
from remnant.settings import literal

# Options of runs that are settings, in the order of --help.
SETTINGS = (
    "noise", "epochs", "lr", "batch", "buffer_size", "net", "per_class", "device", "precision", "threads",
    "compile",
)  # fmt: skip

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RECIPE | DATA | KEY=VALUE",
        help="Name of a recipe, TOML file or run folder (default: digits), or data without a recipe: a name, "
        "folder:DIR, table:FILE.csv or hf:NAME. Then settings.",
        show_default=False,
    ),
]
Method = Annotated[
    str | None, typer.Option(metavar="NAME", help="A name, see `remnant list methods`, or FILE.py:NAME.")
]
Seed = Annotated[str | None, typer.Option(metavar="N", help="Random seed.")]
Noise = Annotated[
    str | None, typer.Option(metavar="NOISE", help="symmetric:0.4, instance:0.2, file:labels.npy, none, ...")
]
Epochs = Annotated[int | None, typer.Option(metavar="N", help="Epochs per task.")]
Rate = Annotated[float | None, typer.Option(metavar="RATE", help="Learning rate.")]
Batch = Annotated[int | None, typer.Option(metavar="N", help="Samples of the stream in a step.")]
BufferSize = Annotated[int | None, typer.Option(metavar="N", help="Samples in the buffer.")]
Net = Annotated[
    str | None, typer.Option(metavar="NAME", help="A name, see `remnant list nets`, or FILE.py:NAME.")
]
ImageSize = Annotated[
    int | None,
    typer.Option(metavar="PIXELS", help="Side length of own images; that of other datasets is fixed."),
]
PerClass = Annotated[
    int | None, typer.Option(metavar="N", help="Use a fixed subset of this many training samples per class.")
]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:N or mps.")]
Precision = Annotated[str | None, typer.Option(metavar="NAME", help="float32, bf16 or auto.")]
Threads = Annotated[int | None, typer.Option(metavar="N", help="Compute threads of a run.")]
Compile = Annotated[bool, typer.Option("--compile", help="Compile networks with torch.compile.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting: see `remnant list settings`."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder that contains the run folders. Default: runs, or that of a given run folder.",
        show_default=False,
    ),
]
SaveEvery = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="Seconds between checkpoints; 0: every step.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Restart from the beginning and discard existing results.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop if a data file cannot be read, instead of skipping it.")
]
TensorBoardFlag = Annotated[
    bool, typer.Option("--tensorboard", help="Write TensorBoard events to the run folder.")
]
MLflowFlag = Annotated[
    bool, typer.Option("--mlflow", help="Write to MLflow: to MLFLOW_TRACKING_URI, or to mlflow.db in --out.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be run and an estimate of its time only.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results, warnings and errors only.")]


@dataclass(frozen=True)
class RunOptions:
    """The options of all commands that run something; those named in SETTINGS are settings."""

    words: Words = None
    noise: Noise = None
    epochs: Epochs = None
    lr: Rate = None
    batch: Batch = None
    buffer_size: BufferSize = None
    net: Net = None
    image_size: ImageSize = None
    per_class: PerClass = None
    device: Device = None
    precision: Precision = None
    threads: Threads = None
    compile: Compile = False
    changes: Settings = None
    out: Out = None
    data_dir: DataDir = None
    save_every: SaveEvery = 10.0
    force: Force = False
    strict: Strict = False
    tensorboard: TensorBoardFlag = False
    mlflow: MLflowFlag = False
    dry_run: DryRun = False
    quiet: Quiet = False

    def parse(self, ctx: typer.Context, **own: str | None) -> tuple[str | None, dict[str, Any]]:
        """Return the recipe and the settings; `own` are settings that a command has as options of its own."""
        words = self.words or []
        check_options(ctx, words)
        named: dict[str, Any] = own | {key: getattr(self, key) for key in SETTINGS}
        named["compile"] = "true" if self.compile else None
        named["data.image_size"] = self.image_size
        texts = [f"{key}={value}" for key, value in named.items() if value is not None]
        return parse(words, [*texts, *(self.changes or [])])


def check_options(ctx: typer.Context, words: Sequence[str]) -> None:
    """Raise RemnantError if one of the words of a command is an option, which it does not have."""
    if any(word.startswith("-") for word in words):
        options = {p.opts[0]: not getattr(p, "is_flag", False) for p in ctx.command.params}
        raise RemnantError(unknown_option(words, options, ctx.info_name or "run"))


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameter `options` is replaced by the options of RunOptions."""
    fields = dataclasses.fields(RunOptions)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        shared = [keyword.replace(name=f.name, default=f.default, annotation=f.type) for f in fields]
        parameters += shared if parameter.name == "options" else [keyword]

    @functools.wraps(command)
    def spread(**given: Any) -> None:  # noqa: ANN401
        options = RunOptions(**{field.name: given.pop(field.name) for field in fields})
        command(**given, options=options)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spread


@with_run_options
def run(
    ctx: typer.Context,
    *,
    method: Method = None,
    seed: Seed = None,
    options: RunOptions,
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
    folder = carry_out(*options.parse(ctx, method=method, seed=seed), options)
    if folder is not None:
        typer.echo(os.fsencode(folder))  # exactly, even if the terminal cannot show it


def carry_out(
    recipe: str | None, settings: Mapping[str, Any], options: RunOptions, *, is_audit: bool = False
) -> Path | None:
    """Run or resume a recipe with settings, print its results, and return the run folder.

    Return None if there is nothing more to do: after a plan, and in all processes but the first one. The
    results of an audit are printed later, with its page.
    """
    out = parent_of_run(recipe) if options.out is None else options.out
    line, quiet = first_line(recipe, settings, out), options.quiet or not is_first_rank()
    if options.dry_run:
        check_single("--dry-run")
        print(fit(f"# run       {line}", sys.stdout, f"# {'':10s}"), flush=True)
        print_plan(recipe, settings, out, options.data_dir, options.strict)
        return None
    if not quiet:
        print(fit(line, sys.stdout), flush=True)  # at once: importing torch takes seconds
    from remnant.data.images import hidden_bars
    from remnant.experiment.loggers.console import console_logger
    from remnant.experiment.loggers.mlflow import MLflow
    from remnant.experiment.loggers.tensorboard import TensorBoard
    from remnant.experiment.run import run_recipe
    from remnant.experiment.runner import Options
    from remnant.report.html.page import write_run_report

    loggers = [console_logger(quiet), *([TensorBoard()] if options.tensorboard else [])]
    loggers += [MLflow()] if options.mlflow else []
    how = Options(out, options.data_dir, options.force, options.save_every, options.strict)
    try:
        with hidden_bars(quiet):
            folder = run_recipe(recipe, settings, how, loggers)
    except Interrupted as stop:
        if reports_errors():
            typer.echo(fit(f"\nremnant: {stop}", sys.stderr), err=True)
        raise typer.Exit(130) from stop
    if not is_first_rank():
        return None
    if problem := write_run_report(folder):
        typer.echo(problem, err=True)
    if not quiet and not is_audit:
        _show(folder, recipe, settings, out, options.data_dir)
    return folder


def _show(
    folder: Path, recipe: str | None, settings: Mapping[str, Any], out: Path, data_dir: Path | None
) -> None:
    """Print the results of a run, and what to try next."""
    from remnant.report.audit.next_steps import show_results
    from remnant.report.summary import Command, show

    data = str(settings.get("data", recipe))
    if is_own_data(data):
        show_results(folder, data, data_dir=data_dir)
    else:
        show(folder, Command(recipe, settings, out, data_dir))


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
            raise RemnantError(f"expected key=value, got {text!r}. Write settings as lr=0.1.")
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
