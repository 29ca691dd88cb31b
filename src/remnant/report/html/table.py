"""The tables of the page: results beside those of the paper, and the list of runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from remnant.config import resolve
from remnant.errors import RemnantError
from remnant.experiment.loggers.console import duration
from remnant.experiment.metrics import mean
from remnant.report.figures.groups import Variant
from remnant.report.paper import PaperFigures, paper_figures
from remnant.report.runs import FinishedRun
from remnant.report.tables.formats import value_text
from remnant.report.tables.grouping import (
    METRICS,
    Summary,
    paired_difference,
    seeds_text,
    shared_seeds,
    summary,
)

ACCURACY, FORGETTING, PURITY = (METRICS[name] for name in ("faa", "ff", "purity"))


@dataclass(frozen=True)
class HtmlTable:
    """Cells as text; the first column is a name, the others are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: int | None = None  # row with the highest accuracy


def sentence(variants: Sequence[Variant]) -> str:
    """Return which variant has the highest accuracy, and its difference to the next one, paired by seed."""
    ordered = sorted(variants, key=_mean_accuracy, reverse=True)
    accuracy = f"{value_text(_summary(ordered[0], 'faa'))} %"
    if len(ordered) == 1:
        return f"{ordered[0].label} has a final average accuracy of {accuracy}."
    to_next = _difference_text(ordered[0], ordered[1])
    return f"{ordered[0].label} has the highest final average accuracy: {accuracy}{to_next}."


def _difference_text(best: Variant, other: Variant) -> str:
    """Return the difference to another variant with the seeds over which it is paired, unless both have one.

    It may be negative if the seeds that both have are not all of their seeds.
    """
    difference = paired_difference(best.group, other.group, ACCURACY)
    if difference is None:
        return f"; {other.label} has no seed in common with it"
    side = "above" if difference.mean >= 0 else "below"
    points = value_text(replace(difference, mean=abs(difference.mean)))
    shared = shared_seeds(best.group, other.group)
    if best.seeds == other.seeds:
        over = f", paired over seeds {seeds_text(shared)}" if len(shared) > 1 else ""
    else:
        over = f", paired over {_seeds_words(shared)}, which both have"
    return f", {points} points {side} {other.label}{over}"


def _seeds_words(seeds: Sequence[int]) -> str:
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {seeds_text(seeds)}"


def _mean_accuracy(variant: Variant) -> float:
    return mean([float(run.result["faa"]) for run in variant.runs])


def result_table(variants: Sequence[Variant]) -> tuple[HtmlTable, list[str]]:
    """Return accuracy, forgetting, purity and time of each variant, and notes about the paper's numbers."""
    best = max(range(len(variants)), key=lambda number: _mean_accuracy(variants[number]))
    published = [_published(variant) for variant in variants]
    columns = {
        "method": [variant.label for variant in variants],
        "final average accuracy": [value_text(_summary(variant, "faa")) for variant in variants],
        "in the paper": [_paper_text(found) for found in published],
        "to the best": [_to_best(variant, variants[best]) for variant in variants],
        "forgetting": [_forgetting(variant.runs) for variant in variants],
        "purity": [value_text(_summary(variant, "purity")) for variant in variants],
        "time": [duration(mean([run.result["seconds"] for run in v.runs])) for v in variants],
        "seeds": [seeds_text(variant.seeds) for variant in variants],
    }
    kept = {name: cells for name, cells in columns.items() if any(cell not in ("", "-") for cell in cells)}
    rows = tuple(zip(*kept.values(), strict=True))
    notes = [_difference_note(v, found) for v, found in zip(variants, published, strict=True) if found]
    return HtmlTable(tuple(kept), rows, best if len(variants) > 1 else None), [n for n in notes if n]


def caption(table: HtmlTable) -> str:
    """Return what the numbers of a table of results are.

    >>> caption(HtmlTable(("method", "final average accuracy", "forgetting"), (("er", "40.0", "9.0"),)))
    'Accuracy and forgetting in percent.'
    """
    *first, last = ["Accuracy", *(name for name in ("forgetting", "purity") if name in table.header)]
    text = f"{', '.join(first)} and {last} in percent" if first else f"{last} in percent"
    if any("±" in cell for row in table.rows for cell in row):
        text += ": mean ± standard error over seeds"
    difference = " To the best: difference of the accuracy, paired by the seeds that both have."
    return f"{text}.{difference if 'to the best' in table.header else ''}"


def label_notes(variants: Sequence[Variant]) -> list[str]:
    """Return how many labels are suspect, and what the accuracy is measured against, if truth is unknown."""
    notes, tested = [], []
    for label, run in ((variant.label, run) for variant in variants for run in variant.runs):
        found = run.result.get("suspects")
        if found and run.result.get("noise_rate") is None:
            notes.append(
                f"{label}, seed {run.seed}: {found['suspect']:,} of {found['samples']:,} labels are suspect, "
                f"and {found['noise_rate']:.0f} % are estimated to be wrong. remnant audit shows them."
            )
        if note := _tested_note(str(run.result.get("tested_on", ""))):
            tested.append(note)
    return list(dict.fromkeys([*notes, *tested]))


def _tested_note(tested_on: str) -> str:
    """Return what the accuracy is measured against, unless it is the clean labels of test samples."""
    where, _, against = tested_on.partition(", ")
    is_given = "given labels" in against
    if where == "training samples":
        labels = "against the given labels of" if is_given else "on"
        return (
            f"The accuracy is measured {labels} the training samples, as nothing is held out: it says how "
            "well these are fitted, not how well other samples are recognised."
        )
    samples = "held-out samples" if where == "held-out share" else f"the {where}"
    count = "those that are wrong count as mistakes of the network"
    return f"The accuracy is measured against the given labels of {samples}: {count}." if is_given else ""


def _summary(variant: Variant, metric: str) -> Summary | None:
    values = [METRICS[metric].of(run) for run in variant.runs]
    return summary([value for value in values if value is not None])


def _forgetting(runs: Sequence[FinishedRun]) -> str:
    """Return the forgetting over tasks; a dash if nothing is learned after the first measurement."""
    return value_text(summary([float(run.result["ff"]) for run in runs if not run.is_measured_once]))


def _to_best(variant: Variant, best: Variant) -> str:
    if variant is best:
        return ""
    return value_text(paired_difference(variant.group, best.group, ACCURACY), signed=True)


def _published(variant: Variant) -> PaperFigures | None:
    """Return the paper's results; None also for configs with Python objects, which have no text form."""
    try:
        return paper_figures(resolve(dict(variant.runs[0].config)))
    except RemnantError:
        return None


def _paper_text(found: PaperFigures | None) -> str:
    return "-" if found is None else value_text(Summary(found.faa, found.error, 5))


def _difference_note(variant: Variant, found: PaperFigures) -> str:
    if not found.differences:
        return ""
    return f"The paper's number for {variant.label} is for other settings: {', '.join(found.differences)}."


def run_table(runs: Sequence[FinishedRun]) -> HtmlTable:
    """Return a table with a line for each run."""
    rows = tuple(
        (
            run.folder.name,
            value_text(summary([run.result["faa"]])),
            _forgetting([run]),
            value_text(_run_purity(run)),
            duration(run.result["seconds"]),
        )
        for run in runs
    )
    return HtmlTable(("run", "accuracy", "forgetting", "purity", "time"), rows)


def _run_purity(run: FinishedRun) -> Summary | None:
    value = PURITY.of(run)
    return None if value is None else summary([value])
