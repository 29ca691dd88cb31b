"""Commands about existing runs: `table`, `report`, `runs`, `check`; and `demo`, which ends with a report."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remnant.cli.compare import MetricNames, TableFile, print_runs, print_wide, split_list
from remnant.errors import RemnantError, printable

IN_NAME = ("method", "data", "noise", "seed")  # columns that repeat parts of the name of a run
DEMO = ("finetune", "er", "er-ace", "aer-abs")  # methods of `remnant demo`

if TYPE_CHECKING:
    from remnant.report.folders import RunState
    from remnant.report.runs import FinishedRun
    from remnant.report.tables.grouping import Metric


def table(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUNS...",
            help="Run folders, folders that contain them, or files of `remnant sweep --results`.",
            show_default=False,
        ),
    ] = None,
    metric: MetricNames = "faa,ff,purity",
    table: TableFile = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="Benchmarks as columns, for the first metric only.")
    ] = False,
    update: Annotated[
        str,
        typer.Option(metavar="FILE ...", help="Update the tables in documents instead.", show_default=False),
    ] = "",
) -> None:
    """Print a table of finished runs.

    \b
    Examples:
      remnant table runs
      remnant table runs/digits-er-* runs/digits-aer-abs-* --metric faa purity --table table.tex
      remnant table results/desk --wide --metric purity

    Runs are grouped by everything but the seed. The difference to the best group of a benchmark is paired by
    seed. Below the table is a list of all runs with the settings in which they differ.

    With --update, the tables between comments `<!-- table: FILE.json noise=... metric=... -->` and
    `<!-- /table -->` of Markdown documents are regenerated.
    """
    if update:
        update_documents([Path(name) for name in update.split(",")])
        return
    if not runs:
        raise RemnantError("expected run folders, or folders that contain them: remnant table runs")
    from remnant.report.runs import skipped_runs
    from remnant.report.tables import find_metrics, load_runs

    first, *_ = find_metrics(split_list(metric))
    found = load_runs(runs)
    if not found:
        raise RemnantError(f"{', '.join(map(str, runs))}: expected finished runs, found none.")
    if wide:
        print_wide(found, first.name, table)
        return
    print_runs(found, split_list(metric), table)
    typer.echo("")
    for line in listed_runs(found, first):
        typer.echo(line)
    for folder, why in skipped_runs([path for path in runs if path.suffix != ".json"]).items():
        typer.echo(f"{'-':>6s}  {folder}: {why}")


def listed_runs(found: "Sequence[FinishedRun]", metric: "Metric") -> Iterator[str]:
    """Yield a line for each run: a metric, the folder, and the settings that differ within its benchmark."""
    from remnant.report.tables.grouping import in_benchmarks

    for run, own in zip(found, in_benchmarks(found), strict=True):
        value = metric.of(run)
        shown = "-" if value is None else f"{value:.1f}"
        texts = [f"{key}={text}" for key, text in own.items() if key != "seed"]
        yield " ".join([f"{shown:>6s}  {run.folder}", *texts])


def update_documents(paths: Sequence[Path]) -> None:
    """Regenerate the tables of documents; the results they name are relative to the working directory."""
    from remnant.experiment.checkpoint import write_atomically
    from remnant.report.markers import updated

    for path in paths:
        before = path.read_text(encoding="utf-8")
        after = updated(before, Path())
        if after != before:
            write_atomically(path, after.encode())
        typer.echo(f"{path}: {'updated' if after != before else 'unchanged'}")


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run folders, or folders that contain them.", show_default=False),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")] = Path(
        "report.html"
    ),
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write the figures as PDF and PNG to this folder.")
    ] = None,
) -> None:
    """Write a report of runs: tables and figures in one HTML file.

    Runs with the same method and settings are averaged over their seeds. Figure 4 of the paper also needs a
    run of joint training without noise: remnant run --method joint --noise none.

    \b
    Examples:
      remnant report runs
      remnant report runs/digits-* -o digits.html --figures figures
    """
    from remnant.report.html.page import write_report
    from remnant.report.runs import find_runs, skipped_runs

    found, left_out = find_runs(runs), skipped_runs(runs)
    for folder, why in left_out.items():
        typer.echo(printable(f"{folder} is left out: {why}"), err=True)
    if not found:
        raise RemnantError(
            f"expected finished runs, found none in {', '.join(map(str, runs))}. Start one: remnant run."
        )
    saved = write_report(output, found, left_out, figures)
    if saved:
        typer.echo(f"{len(saved)} files in {figures}")
    typer.echo(f"{output}")


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder that contains the run folders.")] = Path(
        "runs"
    ),
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs at the same time.")] = 2,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print results, warnings and errors only.")
    ] = False,
) -> None:
    """Compare four methods on digits with 40 % noisy labels.

    It ends with a table, and the path of a report with figures. The same comparison with other methods or
    seeds: remnant compare --methods er aer-abs --seeds 0-4 --report report.html
    """
    from remnant.cli.compare import end, finished_runs, run_sweep, write_reports
    from remnant.cli.run import RunOptions
    from remnant.report.html.page import check_installed
    from remnant.sweep.backends import Resources
    from remnant.sweep.grid import comparison

    check_installed()
    configs = comparison("digits", DEMO, [0, 1], {})
    cells = run_sweep(configs, RunOptions(out=out, quiet=quiet), Resources(jobs=jobs))
    found = finished_runs(cells)
    print_runs(found, ["faa", "ff", "purity"], None)
    write_reports(found, out / "demo.html")
    end(cells)


def runs(
    words: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR] [NAME]...",
            help="Folder with runs (default: runs), then names of runs in it, or run folders.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the named runs, after a question.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without a question.")] = False,
) -> None:
    """List runs with their disk use, or remove some of them.

    Only files that a run wrote are removed; a folder that contains others is kept.

    \b
    Examples:
      remnant runs
      remnant runs --remove digits-er-symmetric-0.4-s0-1a2b3c4d
      remnant runs results --remove digits-er-symmetric-0.4-s0-1a2b3c4d --yes
    """
    from remnant.report.folders import run_state

    folders = named_runs(words or [], remove)
    states = [run_state(folder) for folder in folders]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in listed(states, width):
        typer.echo(line)
    if remove and (yes or typer.confirm(f"Remove {len(states)} {'run' if len(states) == 1 else 'runs'}?")):
        _remove(folders)


def named_runs(words: Sequence[Path], must_be_named: bool) -> list[Path]:
    """Return the run folders that some words name; without names, all those in the folder."""
    from remnant.report.runs import run_folders

    is_place = bool(words) and words[0].is_dir() and not (words[0] / "config.toml").is_file()
    place, names = (words[0], words[1:]) if is_place else (Path("runs"), words)
    if must_be_named and not names:
        raise RemnantError(f"expected the names of the runs to remove after --remove, got none for {place}.")
    if not names:
        return run_folders([place]) if place.is_dir() or words else []
    return [_run_folder(name, place) for name in names]


def _run_folder(name: Path, place: Path) -> Path:
    folder = next((path for path in (place / name, name) if (path / "config.toml").is_file()), None)
    if folder is None:
        raise RemnantError(f"{name}: expected a run folder, or the name of a run in {place}, found none.")
    return folder


def listed(states: "Sequence[RunState]", width: int) -> list[str]:
    """Return a line for each run, in columns, and one with their number and disk use.

    If the lines are longer than the width of the terminal, they have the columns only that are not part of
    the name of a run.
    """
    from remnant.report.folders import size_text

    header = ("run", "state", "method", "data", "noise", "seed", "FAA", "disk")
    rows = [
        (s.folder.name, s.state, s.method, s.data, s.noise, s.seed, s.faa, size_text(s.size)) for s in states
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    is_narrow = sum(widths) + 2 * len(widths) > width
    shown = [number for number, name in enumerate(header) if not is_narrow or name not in IN_NAME]
    lines = [
        "  ".join(
            row[number].rjust(widths[number]) if number >= 5 else row[number].ljust(widths[number])
            for number in shown
        )
        for row in ([header] if rows else []) + rows
    ]
    total = size_text(sum(state.size for state in states)) if states else "0 kB"
    return [*lines, f"{len(states)} {'run' if len(states) == 1 else 'runs'}, {total}"]


def _remove(folders: Sequence[Path]) -> None:
    from remnant.report.folders import remove_run

    for folder in folders:
        kept = remove_run(folder)
        rest = f"; other files are kept: {', '.join(kept)}" if kept else ""
        typer.echo(f"removed {folder}{rest}")


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
