"""The commands `remnant sweep`, `remnant tune` and `remnant verify`: grids of runs, and what they show."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remnant.cli.compare import (
    Jobs,
    Methods,
    MetricNames,
    Seeds,
    TableFile,
    end,
    finished_runs,
    print_runs,
    run_sweep,
    split_list,
    sweep_options,
)
from remnant.cli.run import RunOptions, parent_of_run, with_run_options
from remnant.errors import Interrupted, RemnantError

if TYPE_CHECKING:
    from remnant.config import Config
    from remnant.report.runs import FinishedRun


@with_run_options
def sweep(
    ctx: typer.Context,
    *,
    methods: Annotated[
        str | None, typer.Option(metavar="NAME ...", help="Run only these methods of the grid.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N ...", help="Random seeds, instead of those of the grid.")
    ] = None,
    jobs: Jobs = 1,
    backend: Annotated[str, typer.Option(metavar="NAME", help="local, ray or slurm.")] = "local",
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Ray cluster. Default: one on this machine.")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(metavar="N", help="Cores of a run on Ray or SLURM. Default: its threads.")
    ] = None,
    gpus: Annotated[float, typer.Option(metavar="N", help="GPUs of a run on Ray or SLURM.")] = 0.0,
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Partition of SLURM.")] = None,
    hours: Annotated[float, typer.Option(metavar="N", help="Time limit of a run on SLURM.")] = 24.0,
    cluster: Annotated[str, typer.Option(hidden=True)] = "slurm",
    metric: MetricNames = "faa,ff,purity",
    table: TableFile = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Add configs and results to a JSON file; runs that it has are skipped."
        ),
    ] = None,
    options: RunOptions,
) -> None:
    """Run all runs of a grid: a TOML file, or a packaged one.

    \b
    Examples:
      remnant sweep paper/table-1 --dry-run
      remnant sweep desk/digits --jobs 2 --results results/desk/digits.json
      remnant sweep grid.toml --backend ray --address auto --jobs 32 --gpus 0.5
      remnant sweep grid.toml --backend slurm --partition gpu --jobs 100 --hours 12

    Finished runs are skipped, interrupted ones are resumed, and a sweep can be started several times on one
    folder. A run that fails does not stop the others; the exit code is then 1. FILE has the diversity of
    final buffers if the folder has a run of joint training without noise, on the same data and network.
    """
    from remnant.report.tables import find_metrics, merged, read_stored, store, table_format
    from remnant.sweep.backends import Resources
    from remnant.sweep.grid import expand, read_grid

    find_metrics(split_list(metric))
    if table is not None:
        table_format(table)
    name, changes = options.parse(ctx)
    if name is None:
        raise RemnantError("expected a grid. See `remnant list grids`, or write a TOML file.")
    given: dict[str, Any] = {} if seeds is None else {"seed": seeds}
    configs = expand(read_grid(name), changes | given, None if methods is None else split_list(methods))
    stored = read_stored(results) if results is not None and results.exists() else []
    known = [] if options.force else _among(stored, configs)
    if known:
        typer.echo(f"{len(known)} of {len(configs)} runs are in {results}; --force repeats them", err=True)
        configs = [config for config in configs if config.digest() not in {run.digest for run in known}]
    resources = Resources(backend, jobs, address, cpus, gpus, partition, hours, cluster)
    cells = run_sweep(configs, options, resources) if configs else []
    if options.dry_run:
        return
    runs = merged(known, finished_runs(cells))
    print_runs(runs, split_list(metric), table)
    if results is not None and runs:
        store(results, _with_diversity(merged(stored, runs), options.out or Path("runs")))
        typer.echo(f"{len(runs)} runs stored in {results}")
    end(cells)


def _with_diversity(runs: Sequence["FinishedRun"], out: Path) -> list["FinishedRun"]:
    """Return runs with the diversity of those buffers that are in a folder with a run of joint training."""
    from remnant.report.figures.diversity import with_diversity
    from remnant.report.runs import find_runs

    on_disk = find_runs([out]) if out.is_dir() else []
    return with_diversity(runs, on_disk, lambda text: typer.echo(text, err=True))


def _among(runs: Sequence["FinishedRun"], configs: Sequence["Config"]) -> list["FinishedRun"]:
    """Return the runs that have one of the configs."""
    digests = {config.digest() for config in configs}
    return [run for run in runs if run.digest in digests]


@with_run_options
def tune(
    ctx: typer.Context,
    *,
    methods: Methods,
    seeds: Seeds = "0-2",
    space: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES",
            help="lr=0.03,0.1 or lr=0.001:0.3. Default: the learning rates that occur in the paper.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Trials of each method, for ranges.")] = 20,
    jobs: Jobs = 1,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File of all trials. Default: tune.journal in the folder of the runs."
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Recipe to write. Default: NAME-tuned.toml.")
    ] = None,
    options: RunOptions,
) -> None:
    """Choose hyperparameters on a noisy validation split.

    \b
    Examples:
      remnant tune --methods er er-ace aer-abs --jobs 2
      remnant tune cifar10-small --methods aer-abs --space lr=0.01:0.3 --trials 15 --data-dir ~/data
      remnant compare digits-tuned.toml --methods er er-ace aer-abs

    The validation split is a fifth of the noisy training samples, with their observed labels; the test split
    is not used. The search can be interrupted, resumed, and started several times at once on one journal.
    """
    from rich.console import Console

    from remnant.experiment.checkpoint import write_atomically
    from remnant.sweep.backends import Resources
    from remnant.sweep.display import shown
    from remnant.sweep.grid import parse_seeds
    from remnant.sweep.tune import Search, parse_space, tune as find_best, tuned_recipe

    recipe, settings = options.parse(ctx)
    search = Search(
        recipe, split_list(methods), parse_seeds(seeds), settings, parse_space(space or []), trials
    )
    out = parent_of_run(recipe) if options.out is None else options.out
    how = sweep_options(options, out, Resources(jobs=jobs))
    try:
        with shown(Console(stderr=True), options.quiet) as show:
            choices = find_best(search, journal or out / "tune.journal", how, show)
    except Interrupted as stop:
        typer.echo(f"remnant: {stop}", err=True)
        raise typer.Exit(130) from stop
    for method, choice in choices.items():
        typer.echo(method)
        for chosen, accuracy in sorted(choice.trials, key=lambda trial: -trial[1]):
            texts = [f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in chosen.items()]
            typer.echo(f"  {accuracy:6.2f}  {' '.join(texts)}")
    file = save or Path(f"{Path(recipe or 'digits').stem}-tuned.toml")
    write_atomically(file, tuned_recipe(search, choices).encode())
    typer.echo(f"written to {file}")


def verify(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RESULTS...", help="Stored results, run folders, or folders that contain them."
        ),
    ] = None,
) -> None:
    """Compare results with the numbers and the claims of the paper.

    Stored results are files that `remnant sweep --results` writes (default: those in the folder results). A
    claim is shown if the difference it states, paired by seed, is greater than twice its standard error.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from remnant.report.figures.diversity import with_diversity
    from remnant.report.tables import load_runs
    from remnant.report.verify.claims import verdicts
    from remnant.report.verify.published import cells_text, published_cells

    runs = load_runs(results or [Path("results")])
    if not runs:
        raise RemnantError("expected results, found none. Run `remnant sweep GRID --results FILE` first.")
    runs = with_diversity(runs, runs, lambda text: typer.echo(text, err=True))
    console = Console()
    grid = Table("benchmark", "method", "published", "ours", "verdict", box=None, pad_edge=False)
    cells = published_cells(runs)
    for row in cells_text([cell for cell in cells if cell.ours is not None]):
        grid.add_row(*map(escape, row))
    console.print(grid, highlight=False)
    for benchmark, count in Counter(cell.benchmark for cell in cells if cell.ours is None).items():
        console.print(f"{benchmark}: {count} published results, not run", highlight=False)
    for claim in verdicts(runs):
        needs = f": needs {claim.needs}" if claim.verdict == "not testable" else ""
        console.print(f"\n[bold]{claim.verdict}[/]  {escape(claim.claim)}{needs}", highlight=False)
        for finding in claim.findings:
            sign = "+" if finding.holds else "-"
            console.print(f"  {sign} {escape(finding.benchmark)}: {escape(finding.text)}", highlight=False)
