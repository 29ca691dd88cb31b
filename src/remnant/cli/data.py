"""The commands `remnant data get`, `remnant data check` and `remnant data noise`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remnant.errors import RemnantError, printable
from remnant.extensions import is_own_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from remnant.data import Dataset

app = typer.Typer(
    name="data",
    help="Download datasets, check their files, show label noise.",
    no_args_is_help=True,
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Folder of the data files. Default: $REMNANT_DATA, otherwise the user's cache.",
        show_default=False,
    ),
]


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="See `remnant list data`.", show_default=False)],
    folder: DataDir = None,
) -> None:
    """Download the files of a dataset, replace damaged ones.

    Intact files are not downloaded again. cifar10n and cifar100n are sets of human annotations.

    Example: remnant data get cifar10 --data-dir ~/data
    """
    from remnant import data
    from remnant.noise import human_labels

    place, labels = data.data_dir(folder), human_labels.DOWNLOADS.get(name)
    typer.echo(human_labels.download(labels, place) if labels else data.get(name, place))


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Datasets. Default: all.", show_default=False),
    ] = None,
    folder: DataDir = None,
) -> None:
    """Compare the files of datasets with the published ones.

    Of own data, such as folder:photos, the files that a run leaves out are listed. The exit status is 1 if
    a file differs or is left out. Without a NAME all datasets are checked, and missing datasets are not
    errors.

    Example: remnant data check cifar10 --data-dir ~/data
    """
    from remnant import data

    place = data.data_dir(folder)
    # Datasets may share their files, which are listed once.
    every = [name for name, entry in data.DATA.items() if entry.files and entry.files.name == name]
    reports = [_report(name, place, is_required=bool(names)) for name in names or every]
    if not all(reports):
        raise typer.Exit(1)


def _report(name: str, folder: Path | None, *, is_required: bool) -> bool:
    """Print the state of each file of a dataset; return whether all of them are intact."""
    from remnant import data

    if is_own_data(name):
        return _report_own(name, folder)
    checks = data.check(name, folder)
    files, manual = data.entry(name).files, data.entry(name).manual_download
    if not checks:
        typer.echo(f"{name}: {manual or 'no files that can be checked'}")
        return True
    command = manual if files is None else data.repair_command(files.name, folder)
    if not is_required and not any(c.exists for c in checks):
        typer.echo(f"{name}: not downloaded; to download it: {command}")
        return True
    for c in checks:
        typer.echo(f"{name}: {c.path}: {c.problem or 'ok'}")
    is_intact = not any(c.problem for c in checks)
    if not is_intact:
        typer.echo(f"{name}: to repair it: {command}")
    return is_intact


def _report_own(name: str, folder: Path | None) -> bool:
    """Decode own data, print what is left out and what is noted; return whether nothing is left out."""
    from remnant import data

    found = data.load(name, folder)
    for file, reason in found.skipped.items():
        typer.echo(f"{name}: {printable(file)}: left out: {printable(reason)}")
    for note in found.notes:
        typer.echo(f"{name}: note: {printable(note)}")
    typer.echo(
        f"{name}: {len(found.train):,} training and {len(found.test):,} test samples of "
        f"{len(found.spec.classes)} classes; {len(found.skipped):,} left out"
    )
    return not found.skipped


@app.command()
def noise(
    name: Annotated[str, typer.Argument(metavar="DATA", help="A dataset.", show_default=False)],
    kind: Annotated[
        str, typer.Option("--noise", "--type", metavar="TYPE", help="symmetric:0.4, human:worse, ...")
    ],
    seed: Annotated[
        int, typer.Option(metavar="N", help="Random seed; a run with this seed has the same labels.")
    ] = 0,
    per_class: Annotated[int, typer.Option(metavar="N", help="Training samples per class; 0: all.")] = 0,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the noise, such as noise.shared=true."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Plot the matrix.", show_default=False)
    ] = None,
    folder: DataDir = None,
) -> None:
    """Show the transition matrix of a noise.

    It has the fraction of each class that is observed as each class.

    Example: remnant data noise cifar10 --noise human:worse --plot noise.svg --data-dir ~/data
    """
    from remnant.cli.run import parse
    from remnant.config import recipe, resolve
    from remnant.config.components import short
    from remnant.config.registries import REGISTRIES
    from remnant.data import data_dir
    from remnant.data.dataset import UNKNOWN
    from remnant.experiment.build import build_dataset
    from remnant.report.transition import headline, table, transitions
    from remnant.report.transition_plot import draw_transitions

    if plot and plot.suffix != ".svg":
        raise RemnantError(f"{plot}: expected a file name that ends with .svg.")
    texts = [f"data={name}", f"noise={kind}", f"seed={seed}", f"per_class={per_class}", *(changes or [])]
    unused = {"tasks": 1, "net": lambda spec: None}  # a network that fits every dataset
    config = resolve(recipe.apply(unused, parse([], texts)[1]))
    dataset, observed = build_dataset(config, data_dir(folder))
    if dataset.truth is None:
        raise RemnantError(
            f"{name}: expected known true labels, found none: there is no transition matrix. Pass them to "
            "arrays(..., truth=...), or add them to a table as a column true_label."
        )
    title = f"{name}, noise {short(REGISTRIES['noise'], config.noise)}, seed {config.seed}"
    if (dataset.truth == UNKNOWN).any():
        _show_rates(title, dataset, dataset.truth != dataset.y, plot)
        return
    counts = transitions(dataset.truth, observed, len(dataset.spec.classes))
    title = f"{title}: {headline(counts)}"
    if plot:
        _write(plot, draw_transitions(counts, dataset.spec.classes, title))
    print(f"{title}\n\n{table(counts, dataset.spec.classes)}")
    if plot:
        print(f"\n{plot}")


def _write(plot: Path, svg: str) -> None:
    try:
        plot.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise RemnantError(
            f"{plot}: expected a writable file, found: {error.strerror}. Choose another one."
        ) from error


def _show_rates(title: str, dataset: "Dataset", is_noisy: "NDArray[np.bool_]", plot: Path | None) -> None:
    """Print the noise rate of each label of a dataset with samples of an unknown class or of no class."""
    from remnant.report.transition import format_noise_rate, given_table

    if plot:
        raise RemnantError(
            f"{plot}: expected noise with known true labels, but noisy samples of {dataset.spec.name} are of "
            "an unknown class or of no class. Omit --plot to print the noise rates."
        )
    noisy = format_noise_rate(int(is_noisy.sum()), len(is_noisy))
    print(f"{title}: {noisy}\n\n{given_table(dataset.y, is_noisy, dataset.spec.classes)}")
