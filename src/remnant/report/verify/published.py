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
    cells = []
    for recipe, paper in papers().items():
        table = read(recipe)
        for method, row in paper["faa"].items():
            for noise, published in zip(paper["noise"], _summaries(paper, method, row), strict=True):
                wanted = (method, noise, table["data"])
                same = [run for run in runs if (run.method, run.noise, run.config.get("data")) == wanted]
                if published is not None:
                    theirs = apply(table, {"method": method, "noise": noise})
                    cells.append(_cell(f"{table['name']}, {noise}", method, published, theirs, same))
    return cells


def _summaries(paper: Mapping[str, Any], method: str, row: Sequence[float]) -> list[Summary | None]:
    errors = paper.get("error", {}).get(method, [float("nan")] * len(row))
    known = [None if error != error else float(error) for error in errors]  # nan is not equal to itself
    return [None if v != v else Summary(v, e, 5) for v, e in zip(row, known, strict=True)]


def _cell(
    benchmark: str, method: str, published: Summary, theirs: Mapping[str, Any], same: Sequence[FinishedRun]
) -> PublishedCell:
    """Compare a published result with the runs whose settings are nearest to those of the paper."""
    if not same:
        return PublishedCell(benchmark, method, published, None, "not run")
    table = resolve(theirs).table()
    missing = [tuple(differences(table, run.config)) for run in same]
    fewest = min(missing, key=len)
    nearest = [run for run, found in zip(same, missing, strict=True) if len(found) == len(fewest)]
    ours = summary([value for run in nearest if (value := FAA.of(run)) is not None])
    return PublishedCell(benchmark, method, published, ours, _verdict(published, ours, fewest))


def _verdict(published: Summary, ours: Summary | None, missing: Sequence[str]) -> str:
    if ours is None:
        return "not measured"
    if missing:
        return f"other scale: the paper has {', '.join(missing[:4])}{' ...' if len(missing) > 4 else ''}"
    error = ((published.error or 0.0) ** 2 + (ours.error or 0.0) ** 2) ** 0.5
    gap = ours.mean - published.mean
    if error and abs(gap) <= 2 * error:
        return "agrees within two standard errors"
    return f"differs by {gap:+.1f}"


def cells_text(cells: Sequence[PublishedCell]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield benchmark, method, published, ours and verdict of each cell as text."""
    for cell in cells:
        yield cell.benchmark, cell.method, value_text(cell.published), value_text(cell.ours), cell.verdict
