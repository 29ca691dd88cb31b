"""Comparison of stored results with the numbers and the claims of the paper."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remnant.config import resolve
from remnant.config.recipe import apply, papers, read
from remnant.report.paper import differences
from remnant.report.runs import FinishedRun
from remnant.report.tables.formats import value_text
from remnant.report.tables.grouping import METRICS, Summary, summary

FAA = METRICS["faa"]


@dataclass(frozen=True)
class PublishedCell:
    """A published result beside ours."""

    benchmark: str
    method: str
    published: Summary
    ours: Summary | None
    verdict: str


def published_cells(runs: Sequence[FinishedRun]) -> list[PublishedCell]:
    """Return every published accuracy with the result of our runs of the same method, data and noise."""
    return [
        _cell(recipe, method, noise, published, runs)
        for recipe, paper in papers().items()
        for method, row in paper["faa"].items()
        for noise, published in zip(paper["noise"], _summaries(paper, method, row), strict=True)
        if published is not None
    ]


def _summaries(paper: Mapping[str, Any], method: str, row: Sequence[float]) -> list[Summary | None]:
    errors = paper.get("error", {}).get(method, [float("nan")] * len(row))
    known = [None if error != error else float(error) for error in errors]  # nan is not equal to itself
    return [None if v != v else Summary(v, e, 5) for v, e in zip(row, known, strict=True)]


def _cell(
    recipe: str, method: str, noise: str, published: Summary, runs: Sequence[FinishedRun]
) -> PublishedCell:
    theirs = resolve(apply(read(recipe), {"method": method, "noise": noise})).table()
    same = [
        (run, list(differences(theirs, run.config)))
        for run in runs
        if (run.method, run.noise, run.config.get("data")) == (method, noise, theirs["data"])
    ]
    fewest = min((len(found) for _, found in same), default=0)
    nearest = [(run, found) for run, found in same if len(found) == fewest]
    ours = summary([value for run, _ in nearest if (value := FAA.of(run)) is not None])
    benchmark = f"{recipe.removeprefix('paper/')}, {noise}"
    return PublishedCell(benchmark, method, published, ours, _verdict(published, ours, nearest))


def _verdict(
    published: Summary, ours: Summary | None, nearest: Sequence[tuple[FinishedRun, list[str]]]
) -> str:
    if ours is None:
        return "not run"
    found = nearest[0][1]
    if found:
        return f"other scale: the paper has {', '.join(found[:4])}{' ...' if len(found) > 4 else ''}"
    error = ((published.error or 0.0) ** 2 + (ours.error or 0.0) ** 2) ** 0.5
    gap = ours.mean - published.mean
    if error and abs(gap) <= 2 * error:
        return "agrees within two standard errors"
    return f"differs by {gap:+.1f}"


def cells_text(cells: Sequence[PublishedCell]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield benchmark, method, published, ours and verdict of each cell as text."""
    for cell in cells:
        yield cell.benchmark, cell.method, value_text(cell.published), value_text(cell.ours), cell.verdict
