"""The commands `remnant data get`, `remnant data check` and `remnant data noise`.

Nothing here imports torch before a command runs, so that help appears at once.
"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="data",
    help="Download data sets, check their files, look at their noise.",
    no_args_is_help=True,
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Folder of the data files. Default: $REMNANT_DATA, else the user's cache.",
        show_default=False,
    ),
]


@app.command()
def get(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="See `remnant list data`.",
            show_default=False,
        ),
    ],
    folder: DataDir = None,
) -> None:
    """Download the files of a data set, and replace those that are damaged.

    Files that are as published are left alone. cifar10n and cifar100n are the labels that people gave.

    Example: remnant data get cifar10 --data-dir ~/data
    """
    from remnant import data
    from remnant.noise import survey

    place, labels = data.data_dir(folder), survey.BY_NAME.get(name)
    typer.echo(survey.get(labels, place) if labels else data.get(name, place))


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Data sets. Default: all.", show_default=False),
    ] = None,
    folder: DataDir = None,
) -> None:
    """Compare the files of data sets with what was published; exit with 1 if one differs.

    Without a NAME every data set is looked at, and one that was never downloaded is no fault.

    Example: remnant data check cifar10 --data-dir ~/data
    """
    from remnant import data

    place = data.data_dir(folder)
    # Two data sets may share their files; those are listed once, under the name they were given.
    every = [name for name, entry in data.DATA.items() if entry.files and entry.files.name == name]
    reports = [_report(name, place, is_asked=bool(names)) for name in names or every]
    if not all(reports):
        raise typer.Exit(1)


@app.command()
def noise(
    name: Annotated[str, typer.Argument(metavar="DATA", help="A data set.", show_default=False)],
    kind: Annotated[
        str, typer.Option("--noise", "--type", metavar="TYPE", help="symmetric:0.4, human:worse, ...")
    ],
    seed: Annotated[int, typer.Option(help="Of the noise: the labels are those of a run with it.")] = 0,
    per_class: Annotated[int, typer.Option(help="Training rows per class; 0: all.")] = 0,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the noise: noise.shared=true."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw it.", show_default=False)
    ] = None,
    folder: DataDir = None,
) -> None:
    """Show what noise makes of a data set: how much of each class is observed as each other.

    Example: remnant data noise cifar10 --noise human:worse --plot noise.svg --data-dir ~/data
    """
    from remnant import commands

    settings = [f"noise={kind}", f"seed={seed}", f"per_class={per_class}", *(changes or [])]
    commands.show_noise(name, settings, folder, plot)


def _report(name: str, folder: Path | None, *, is_asked: bool) -> bool:
    """Print what is known of each file of a data set; return whether all is well."""
    from remnant import data

    checks = data.check(name, folder)
    files, by_hand = data.entry(name).files, data.entry(name).by_hand
    if not checks:
        typer.echo(f"{name}: {by_hand or 'no files that can be checked'}")
        return True
    command = by_hand if files is None else data.mend(files.name, folder)
    if not is_asked and not any(c.exists for c in checks):
        typer.echo(f"{name}: not downloaded; to have it: {command}")
        return True
    for c in checks:
        typer.echo(f"{name}: {c.path}: {c.problem or 'ok'}")
    is_well = not any(c.problem for c in checks)
    if not is_well:
        typer.echo(f"{name}: to mend it: {command}")
    return is_well
