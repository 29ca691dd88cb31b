"""The page: a section for each benchmark with a table, figures and galleries, rendered by a template."""

import base64
import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from remnant import __version__
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import write_atomically
from remnant.experiment.loggers.console import duration
from remnant.report.figures.accuracy import accuracy_matrices, forgetting, incremental_accuracy
from remnant.report.figures.comparison import alpha_sensitivity, cost, logit_replay
from remnant.report.figures.composition import Diversities, class_accuracy, composition, suspect_labels
from remnant.report.figures.diversity import class_diversity, clean_joint_run, joint_features
from remnant.report.figures.figure import Figure, save, svg
from remnant.report.figures.groups import Benchmark, benchmarks, common_settings, method_rank
from remnant.report.figures.losses import buffer_losses, purity_by_epoch, stream_losses, training_loss
from remnant.report.html.gallery import Gallery, galleries
from remnant.report.html.table import (
    HtmlTable,
    caption,
    label_notes,
    result_table,
    run_table,
    sentence,
)
from remnant.report.runs import FinishedRun, find_runs
from remnant.report.tables.benchmarks import data_titles, noise_title

TEMPLATES = Path(__file__).parent / "templates"
MOST_NAMED = 4  # methods, or datasets, in the title


@dataclass(frozen=True)
class Section:
    """What the page shows of a benchmark."""

    name: str  # of its anchor
    title: str
    summary: str
    table: HtmlTable
    notes: tuple[str, ...]
    figures: tuple[Figure, ...]
    galleries: tuple[Gallery, ...]
    settings: Mapping[str, str]  # shared by all runs


def sections(runs: Sequence[FinishedRun]) -> list[Section]:
    """Return a section for each benchmark of some runs."""
    found = sorted(benchmarks(runs), key=lambda benchmark: len(benchmark.runs), reverse=True)
    variants = sum(len(benchmark.variants) for benchmark in found)
    anchors = _anchors([benchmark.title for benchmark in found])
    return [_section(b, name, runs, variants) for b, name in zip(found, anchors, strict=True)]


def _section(benchmark: Benchmark, name: str, runs: Sequence[FinishedRun], variants: int) -> Section:
    diversities, notes = _diversities(benchmark, runs)
    table, table_notes = result_table(benchmark.variants)
    return Section(
        name,
        benchmark.title,
        sentence(benchmark.variants),
        table,
        (caption(table), *table_notes, *label_notes(benchmark.variants), *notes),
        tuple(figures(benchmark, diversities)),
        tuple(galleries(benchmark.variants, variants)),
        common_settings(benchmark.runs),
    )


def figures(benchmark: Benchmark, diversities: Diversities) -> Iterator[Figure]:
    """Yield the figures that the runs of a benchmark have the values for."""
    variants = benchmark.variants
    every = (
        incremental_accuracy(variants),
        class_accuracy(variants),
        suspect_labels(variants),
        training_loss(variants),
        forgetting(variants),
        purity_by_epoch(variants),
        buffer_losses(variants),
        stream_losses(variants),
        logit_replay(variants),
        composition(variants, diversities),
        alpha_sensitivity(variants),
        accuracy_matrices(variants),
        cost(variants),
    )
    return (figure for figure in every if figure is not None)


def _diversities(benchmark: Benchmark, runs: Sequence[FinishedRun]) -> tuple[Diversities, list[str]]:
    """Return the diversity of all buffers, and a note if it could not be computed."""
    joint = clean_joint_run(runs, benchmark.runs[0])
    if joint is None:
        return {}, []
    try:
        features = joint_features(joint)
        found = {str(run.folder): class_diversity(run, features) for run in benchmark.runs}
    except RemnantError as error:
        return {}, [f"Diversity is left out: {error}"]
    return {folder: values for folder, values in found.items() if values is not None}, []


def _anchors(titles: Sequence[str]) -> list[str]:
    """Return a name for each title that an address can contain, each once.

    >>> _anchors(["folder:a b, none", "folder:a-b, none", "digits, none"])
    ['folder-a-b-none', 'folder-a-b-none-2', 'digits-none']
    """
    names: dict[str, None] = {}
    for title in titles:
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        names[name if name not in names else next(n for n in numbered if n not in names)] = None
    return list(names)


def render(found: Sequence[Section], runs: Sequence[FinishedRun], left_out: Mapping[Path, str]) -> str:
    """Return the page of some runs; `left_out` are runs that are named only, with the reason."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    script = (TEMPLATES / "theme.js").read_text(encoding="utf-8")
    numbers = itertools.count()
    drawn = {
        (section.name, figure.name): [Markup(svg(panel, f"f{next(numbers)}")) for panel in figure.panels]
        for section in found
        for figure in section.figures
    }
    return environment.get_template("report.html").render(
        title=_title(runs),
        facts=_facts(runs),
        sections=found,
        drawn=drawn,
        runs=run_table(runs),
        left_out={str(folder): why for folder, why in left_out.items()},
        version=__version__,
        style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _title(runs: Sequence[FinishedRun]) -> str:
    *first, last = dict.fromkeys(data_titles(runs))
    datasets = f"{', '.join(first)} and {last}" if first else last
    datasets = datasets if len(first) < MOST_NAMED else f"{len(first) + 1} datasets"
    if len(runs) == 1:
        ((variant,),) = (benchmark.variants for benchmark in benchmarks(runs))
        return f"{variant.label} on {datasets}"
    methods = sorted({run.method for run in runs}, key=method_rank)
    names = ", ".join(methods) if len(methods) <= MOST_NAMED else f"{len(methods)} methods"
    return f"{names} on {datasets}"


def _facts(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Return the numbers below the title."""
    counts = {
        "run": len(runs),
        "method": len({run.method for run in runs}),
        "noise": len({noise_title(run) for run in runs}),
        "seed": len({run.seed for run in runs}),
    }
    texts = {name if count == 1 else f"{name}s": f"{count:,}" for name, count in counts.items()}
    return texts | {"of training": duration(sum(float(run.result["seconds"]) for run in runs))}


def write_report(
    path: Path, runs: Sequence[FinishedRun], left_out: Mapping[Path, str], folder: Path | None = None
) -> list[Path]:
    """Write the page, and its figures as PDF and PNG to a folder; return the paths of the figures."""
    check_installed()
    found = sections(runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(found, runs, left_out).encode())
    saved = []
    for section in found if folder is not None else []:
        for figure in section.figures:
            name = f"{section.name}-{figure.name}"
            saved += save(figure, Path(folder or "."), name)
    return saved


def check_installed() -> None:
    """Raise RemnantError if the packages that a report requires are not installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise RemnantError(
            f"a report requires the package {error.name}, which is not installed. Install it: "
            "pip install 'remnant[report]'."
        ) from error


def write_run_report(folder: Path) -> str:
    """Write report.html to the folder of a finished run, and return why it could not be drawn, or nothing.

    Nothing is written if the packages that a report requires are not installed, or if there is one.
    """
    path = folder / "report.html"
    try:
        check_installed()
    except RemnantError:
        return ""
    try:
        if not path.exists():
            write_report(path, find_runs([folder]), {})
    except Exception as error:  # whatever fails in drawing, the run is finished
        return f"{path}: could not be written ({type(error).__name__}: {error})"
    return ""
