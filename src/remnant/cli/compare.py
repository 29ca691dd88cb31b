"""The command `remnant compare`, several methods and seeds in one table, and what all sweeps share."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from remnant.cli.run import RunOptions, parent_of_run, with_run_options
from remnant.errors import RemnantError

if TYPE_CHECKING:
    from remnant.config import Config
    from remnant.report.runs import FinishedRun
    from remnant.sweep.backends import Resources
    from remnant.sweep.scheduler import SweepOptions
    from remnant.sweep.status import Cell

LISTS = ("--methods", "--seeds", "--metric", "--update")  # options that take all words up to the next option

Methods = Annotated[
    str, typer.Option(metavar="NAME ...", help="Methods, see `remnant list methods`.", show_default=False)
]
Seeds = Annotated[str, typer.Option(metavar="N ...", help="Random seeds: 0-4, or 0 1 2.")]
Jobs = Annotated[int, typer.Option(metavar="N", help="Runs at the same time.")]
MetricNames = Annotated[
    str,
    typer.Option(
        "--metric",
        metavar="NAME ...",
        help="faa, ff, aia, bwt, fwt, purity, balance, auroc, hits, seconds, rss.",
    ),
]
TableFile = Annotated[
    Path | None,
    typer.Option("--table", metavar="FILE", help="Also write the table to a .csv, .md or .tex file."),
]

ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Also write a report with figures, as HTML.")
]


class ListCommand(TyperCommand):
    """A command whose options in LISTS take all words up to the next option or setting."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Join the words of lists before the options are parsed."""
        return super().parse_args(ctx, joined(args))


def joined(words: Sequence[str]) -> list[str]:
    """Return words in which those that follow an option of LISTS are joined with commas.

    >>> joined(["digits", "--methods", "er", "aer", "lr=0.1", "--seeds=0", "1", "--jobs", "2"])
    ['digits', '--methods', 'er,aer', 'lr=0.1', '--seeds=0,1', '--jobs', '2']
    """
    result: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.partition("=")[0] not in LISTS:
            result.append(word)
            continue
        end = position
        while end < len(words) and not words[end].startswith("-") and "=" not in words[end]:
            end += 1
        listed = ",".join(words[position:end])
        result += [",".join(filter(None, [word, listed]))] if "=" in word else [word, *filter(None, [listed])]
        position = end
    return result


def split_list(text: str) -> list[str]:
    """Return the items of a list, without repeated ones.

    >>> split_list("er, er-ace,er")
    ['er', 'er-ace']
    """
    return list(dict.fromkeys(filter(None, re.split(r"[\s,]+", text))))


@with_run_options
def compare(
    ctx: typer.Context,
    *,
    methods: Methods = "",
    seeds: Seeds = "0-2",
    jobs: Jobs = 1,
    metric: MetricNames = "faa,ff,purity",
    table: TableFile = None,
    report: ReportFile = None,
    options: RunOptions,
) -> None:
    """Run several methods and seeds, and print a table.

    \b
    Examples:
      remnant compare --methods er er-ace aer-abs --seeds 0-4 --jobs 2
      remnant compare cifar10-small --methods er aer-abs --data-dir ~/data --table table.md
      remnant compare --methods er,aer-abs --noise symmetric:0.6 epochs=50 --metric faa purity
      remnant compare --methods er aer-abs --report report.html

    Runs that are finished are not repeated, and interrupted ones are resumed. Values are means and standard
    errors over seeds; the difference to the best method is paired by seed.
    """
    from remnant.report.html.page import check_installed
    from remnant.report.tables import find_metrics, table_format
    from remnant.sweep.backends import Resources
    from remnant.sweep.grid import comparison, parse_seeds

    find_metrics(split_list(metric))  # before anything is run
    if table is not None:
        table_format(table)
    if report is not None:
        check_installed()
    recipe, settings = options.parse(ctx)
    for name in ("method", "seed"):
        if name in settings:
            raise RemnantError(f"expected --{name}s, got {name}: write --{name}s {settings[name]}")
    if not methods:
        raise RemnantError("expected --methods: the names of methods, such as --methods er aer-abs")
    configs = comparison(recipe, split_list(methods), parse_seeds(seeds), settings)
    cells = run_sweep(configs, options, Resources(jobs=jobs), parent_of_run(recipe))
    if cells:
        runs = finished_runs(cells)
        print_runs(runs, split_list(metric), table)
        write_reports(runs, report)
        end(cells)


def write_reports(runs: Sequence["FinishedRun"], file: Path | None) -> None:
    """Write a report to the folder of each run, and one of all runs to a file if it is given."""
    from remnant.report.html.page import write_report, write_run_report

    for problem in filter(None, (write_run_report(run.folder) for run in runs)):
        typer.echo(problem, err=True)
    if file is not None and runs:
        write_report(file, runs, {})
        typer.echo(f"{file}")


def run_sweep(
    configs: Sequence["Config"], options: RunOptions, resources: "Resources", default_out: Path = Path("runs")
) -> list["Cell"]:
    """Run what is not finished, and return all runs; with --dry-run, print the plan and return none."""
    from rich.console import Console

    from remnant.sweep.display import shown
    from remnant.sweep.scheduler import run_cells

    out = default_out if options.out is None else options.out
    if options.dry_run:
        print_sweep_plan(configs, out, options.data_dir, resources.jobs)
        return []
    with shown(Console(stderr=True), options.quiet) as show:
        return run_cells(configs, sweep_options(options, out, resources), show)


def sweep_options(options: RunOptions, out: Path, resources: "Resources") -> "SweepOptions":
    """Return the options of a sweep, which has those of its runs."""
    from remnant.sweep.scheduler import SweepOptions

    return SweepOptions(
        out,
        options.data_dir,
        options.save_every,
        options.strict,
        options.force,
        options.tensorboard,
        resources,
        options.mlflow,
    )


def print_sweep_plan(configs: Sequence["Config"], out: Path, data_dir: Path | None, jobs: int) -> None:
    """Print the number of runs, how many are finished, and how long the others take on this machine."""
    from remnant.experiment.loggers.console import duration
    from remnant.sweep.hours import plan_sweep

    plan = plan_sweep(configs, out, data_dir, lambda text: print(text, file=sys.stderr))
    print(f"runs      {plan.runs}, {plan.finished} finished")
    for problem in plan.missing:
        print(f"data      {problem}")
    if plan.seconds[1]:
        low, high = (duration(seconds / jobs) for seconds in plan.seconds)
        rest = " for the runs whose data are here" if plan.missing else ""
        print(f"time      about {low} to {high} with {jobs} run(s) at a time{rest}")
    elif plan.finished < plan.runs:
        print("time      cannot be measured without the data")


def finished_runs(cells: Sequence["Cell"]) -> list["FinishedRun"]:
    """Return the finished runs of a sweep; raise RemnantError if one of them cannot be read."""
    from remnant.report.runs import find_runs

    folders = [cell.folder for cell in cells if cell.state == "finished" and cell.folder]
    runs = find_runs(folders)
    unread = {folder.resolve() for folder in folders} - {run.folder.resolve() for run in runs}
    if unread:  # a table without them would look complete
        names = ", ".join(sorted(map(str, unread)))
        raise RemnantError(
            f"{names}: expected readable results of finished runs. Run the same command again."
        )
    return runs


def print_runs(runs: Sequence["FinishedRun"], metrics: Sequence[str], file: Path | None) -> None:
    """Print a table of runs, and write it to a file if one is given."""
    from rich.console import Console

    from remnant.report.tables import find_metrics, make_table, terminal, write_table

    if not runs:
        return
    table = make_table(runs, find_metrics(metrics))
    Console().print(terminal(table), highlight=False)
    if file is not None:
        write_table(file, table)
        typer.echo(f"written to {file}")


def print_wide(runs: Sequence["FinishedRun"], metric: str, file: Path | None) -> None:
    """Print a table of one metric with a column for each benchmark, and write it to `file` if it is given."""
    from rich.console import Console

    from remnant.experiment.checkpoint import write_atomically
    from remnant.report.tables import find_metrics, make_wide_table, wide_terminal, wide_text

    table = make_wide_table(runs, *find_metrics([metric]))
    Console().print(wide_terminal(table), highlight=False)
    if file is not None:
        write_atomically(file, wide_text(file, table).encode())
        typer.echo(f"written to {file}")


def end(cells: Sequence["Cell"]) -> None:
    """Print what failed, and exit with 1 if something did, with 130 if the sweep was stopped."""
    for cell in (cell for cell in cells if cell.state == "failed"):
        typer.echo(f"failed: {cell.title}: {cell.error}", err=True)
        if cell.folder is not None and (cell.folder / "error.txt").is_file():
            typer.echo(f"  {cell.folder / 'error.txt'}", err=True)
    states = {cell.state for cell in cells}
    if "stopped" in states:
        typer.echo("remnant: stopped; run the same command again to resume.", err=True)
        raise typer.Exit(130)
    if "failed" in states:
        raise typer.Exit(1)
