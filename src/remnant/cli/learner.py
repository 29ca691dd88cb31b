"""The commands for own data and models: `remnant learn`, `predict`, `export` and `audit`."""

import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remnant.cli.data import DataDir
from remnant.cli.messages import fit
from remnant.cli.run import Method, Quiet, RunOptions, Seed, carry_out, check_options, parse, with_run_options
from remnant.errors import RemnantError, UnknownRecipe, printable
from remnant.extensions import is_own_data

if TYPE_CHECKING:
    from remnant.learner.sources import Samples
    from remnant.suspects.table import Suspect

BATCH = 64  # images that are in memory at a time


def learn(
    ctx: typer.Context,
    state: Annotated[Path, typer.Argument(metavar="STATE", help="A saved learner or a finished run.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="folder:DIR, table:FILE.csv, hf:NAME or a dataset.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Settings that may differ between tasks, such as epochs and lr.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the new learner.")],
    data_dir: DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a learner in the new folder.")] = False,
    quiet: Quiet = False,
) -> None:
    """Learn a further task, and save the new learner.

    Classes that STATE does not know are added to it. Files that cannot be used are left out and reported.
    The new folder also lists suspect labels. Settings are those of STATE; others that are given hold from
    this task on.

    \b
    Examples:
      remnant learn runs/digits-... folder:photos -o model
      remnant learn model folder:more -o model2 epochs=5 lr=0.01
    """
    check_options(ctx, [str(state), data, *(words or [])])
    _, settings = parse((), words or [])
    from remnant.data.images import hidden_bars
    from remnant.experiment.checkpoint import write_atomically
    from remnant.learner.learner import Learner
    from remnant.learner.saved import SUSPECTS, check_folder, settings_of_task
    from remnant.learner.sources import read_data
    from remnant.suspects.table import csv_file

    if out.resolve() == state.resolve():
        raise RemnantError(f"{out}: expected another folder than STATE, which is not changed. Choose one.")
    check_folder(out, overwrite=force)
    learner = Learner.load(state, **settings_of_task(settings))
    with hidden_bars(quiet):
        samples = read_data(data, data_dir, learner.image_size)
        if not quiet:
            _print_notes(samples)
        learner.learn(samples).save(out)
    table = learner.suspects()
    write_atomically(out / SUSPECTS, csv_file(table))
    _print_learned(samples, len(learner.classes_), table, quiet)
    typer.echo(out)


def _print_notes(samples: "Samples") -> None:
    """Print which files are left out, and what else a user should know of samples."""
    for file, reason in samples.left_out.items():
        typer.echo(f"left out: {printable(file)}: {printable(reason)}", err=True)
    for note in samples.notes:
        typer.echo(f"note: {printable(note)}", err=True)


def _print_learned(samples: "Samples", classes: int, table: "Sequence[Suspect]", quiet: bool) -> None:
    """Print how many samples were learned, and of how many of them the network predicts the given label."""
    from remnant.suspects.agreement import agreement

    about, warning = agreement(table)
    if not quiet:
        suspect = sum(row.is_suspect for row in table)
        left_out = f" ({len(samples.left_out):,} left out)" if samples.left_out else ""
        typer.echo(
            f"learned {len(samples.labels):,} samples{left_out}; {classes} classes; "
            f"{suspect:,} suspect labels among all {len(table):,} samples that were learned"
        )
        if about:
            typer.echo(about)
    if warning:
        typer.echo(fit(printable(warning), sys.stderr), err=True)


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A finished run or a saved learner.")],
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES", help="Image files or folders.")],
    format: Annotated[
        str, typer.Option("--format", metavar="csv|json", help="Format of the output.")
    ] = "csv",
) -> None:
    """Predict the labels of images, which are resized as in training.

    Files that are no images are reported, and the exit status is 1.

    Example: remnant predict model photos/ --format json
    """
    from remnant.learner.files import image_files, predicted
    from remnant.models.model import find_model, read_model

    if format not in ("csv", "json"):
        raise RemnantError(f"--format: expected csv or json, got {format}.")
    loaded, found, failed = read_model(find_model(model)), [], 0
    files = [file for path in images for file in image_files(path)]
    for start in range(0, len(files), BATCH):
        part = files[start : start + BATCH]
        for path, result in zip(part, predicted(loaded, part), strict=True):
            if isinstance(result, str):
                typer.echo(printable(f"skipped {path}: {result}"), err=True)
                failed += 1
            else:
                found.append({"path": str(path), "label": result[0], "confidence": round(result[1], 6)})
    if format == "json":
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _write_csv(found)
    if failed:
        raise typer.Exit(1)


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A finished run or a saved learner.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.")],
    format: Annotated[str, typer.Option("--format", metavar="onnx|safetensors", help="Format.")] = "onnx",
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write a model as ONNX or safetensors.

    An ONNX graph takes raw uint8 images, and its outputs are compared with those of torch. A model card is
    written beside the file: FILE.md.

    Example: remnant export model -o model.onnx
    """
    from remnant.learner.export import check_installed, check_target, export as write
    from remnant.models.model import find_model, read_model

    if format not in ("onnx", "safetensors"):
        raise RemnantError(f"--format: expected onnx or safetensors, got {format}.")
    check_target(out, force)
    if format == "onnx":
        check_installed()
        typer.echo("exporting the graph, and comparing it with torch: this may take a minute ...", err=True)
    typer.echo(write(model, read_model(find_model(model)), format, out))


@with_run_options
def audit(
    ctx: typer.Context,
    *,
    method: Method = None,
    seed: Seed = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="The file to write. Default: RUN/audit.html."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="Samples in the page.")] = 500,
    decisions: Annotated[
        Path | None,
        typer.Option("--apply", metavar="FILE", help="Write a label file with the decisions of an audit."),
    ] = None,
    options: RunOptions,
) -> None:
    """Train, and write a page to judge doubtful labels in.

    Own data are learned as one task, and no images are held out, unless settings say otherwise; a finished
    run is not trained again. The page is a single file that works offline. Its decisions, downloaded as
    CSV, are applied with --apply, which writes a new label file; --force overwrites an existing one. Your
    files never change.

    \b
    Examples:
      remnant audit folder:photos
      remnant audit runs/folder-aer-abs-none-s0-1a2b3c4d --most 100 -o audit.html
      remnant audit --apply decisions.csv runs/folder-aer-abs-none-s0-1a2b3c4d -o labels.csv
    """
    recipe, settings = options.parse(ctx, method=method, seed=seed)
    if decisions is not None:
        _apply(decisions, recipe, settings, output, options)
        return
    from remnant.data.images import hidden_bars
    from remnant.report.audit.next_steps import show_results
    from remnant.report.audit.page import check_page, write_audit
    from remnant.report.audit.samples import read_audited

    if output is not None:
        check_page(output)
    settings = audit_settings(recipe, settings)
    _check_audit(recipe, settings)
    folder = carry_out(recipe, settings, options, is_audit=True)
    if folder is None:
        return
    path, run = output or folder / "audit.html", read_audited(folder, options.data_dir)
    with hidden_bars(options.quiet):
        write_audit(path, run, most)
    if not options.quiet:
        show_results(folder, page=path, data_dir=options.data_dir)
        _note_held_out(run.held_out)
    typer.echo(os.fsencode(path))


def _check_audit(recipe: str | None, settings: Mapping[str, Any]) -> None:
    """Raise RemnantError if there is nothing to audit, or a method judges no labels."""
    from remnant.config.recipe import to_config
    from remnant.report.audit.samples import check_method

    try:
        check_method(to_config(recipe, settings))
    except UnknownRecipe as error:
        raise RemnantError(
            f"{recipe}: expected folder:DIR, table:FILE.csv, hf:NAME, a dataset, a recipe or a run folder, "
            "found none of this name. Find run folders with `remnant runs`."
        ) from error


def _note_held_out(count: int) -> None:
    """Print how many labels an audit does not judge, if there are any."""
    about = f"{count:,} images were held out to measure accuracy, and their labels are not judged"
    if count:
        typer.echo(f"note: {about}. data.test_share=0 holds out none.", err=True)


def audit_settings(recipe: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an audit: own data are a single task without held-out images by default.

    All classes at once find wrong labels best, and images that are held out would not be judged.

    >>> audit_settings("folder:photos", {"epochs": 4})
    {'tasks': 1, 'data.test_share': 0, 'epochs': 4}
    """
    if not is_own_data(str(settings.get("data", recipe))):
        return dict(settings)
    tasks = {} if "split" in settings else {"tasks": 1}
    return {**tasks, "data.test_share": 0, **settings}


def _apply(
    decisions: Path, run: str | None, settings: Mapping[str, Any], output: Path | None, options: RunOptions
) -> None:
    """Write the label file of a run with decisions, and print how many labels changed."""
    from remnant.data.own.listing import shortened
    from remnant.report.audit.decisions import read_decisions
    from remnant.report.audit.labels import check_output, unread_files, write_labels
    from remnant.report.audit.samples import leaves_out, read_audited

    if run is None or settings or output is None:
        raise RemnantError(
            "--apply: expected a run folder, a file to write and no settings. Write: remnant audit --apply "
            "decisions.csv RUN -o labels.csv"
        )
    audited = read_audited(Path(run), options.data_dir)
    check_output(output, audited, decisions, options.force)
    found = read_decisions(decisions, audited)
    use = write_labels(output, audited, found.labels, options.data_dir, found.dropped, found.added)
    notes = [*found.notes]
    if (unread := unread_files(audited)) and leaves_out(audited):
        notes.append(f"files that cannot be read, and are left out of {output}: {shortened(unread)}")
    for note in () if options.quiet else notes:
        typer.echo(f"note: {printable(note)}", err=True)
    changed, dropped = len(found.labels), len(found.dropped)
    left = len(audited.doubts) - changed - found.confirmed - dropped
    about = f"labels changed: {changed:,}, confirmed: {found.confirmed:,}, samples left out: {dropped:,}"
    typer.echo(f"{about}, left as they are: {left:,}")
    if use:
        typer.echo(f"use them: {use}")
    typer.echo(os.fsencode(output))


def _write_csv(found: list[dict[str, str | int | float]]) -> None:
    from remnant.suspects.table import cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("path", "label", "confidence"))
    writer.writerows([cell(value) for value in row.values()] for row in found)
