"""Published results to compare a run with, stored in the recipes of the paper's benchmarks."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from remnant.config import Config, resolve
from remnant.config.components import short
from remnant.config.recipe import apply, papers, read, recipes
from remnant.config.registries import REGISTRIES
from remnant.config.schema import NEWER

IGNORED = ("name", "method", "seed", "threads", "channels_last")  # may differ from the paper's run


@dataclass(frozen=True)
class PaperFigures:
    """Published results in percent, over five seeds, and the settings that differ from those of a run."""

    faa: float
    error: float | None  # standard error of the mean
    forgetting: float | None
    differences: tuple[str, ...]  # settings of the paper that the run does not have, such as `epochs = 50`


def benchmarks() -> list[str]:
    """Return the names of the paper's benchmarks, with or without published results."""
    return [name.removeprefix("paper/") for name in recipes() if name.startswith("paper/")]


def paper_figures(config: Config) -> PaperFigures | None:
    """Return the published results for the benchmark, method and noise of a run, or None.

    If settings differ from those of the recipe, results are returned only if the run has its name.
    """
    found = []
    for name, paper in papers().items():
        column = _column(config, paper)
        faa = _cell(paper, "faa", config.label, column)
        if column is None or faa is None:
            continue
        theirs = resolve(apply(read(name), _same(config)))
        missing = tuple(differences(theirs.table(), config.table()))
        if theirs.name == config.name or not missing:
            error = _cell(paper, "error", config.label, column)
            forgetting = _cell(paper, "forgetting", config.label, column)
            found.append(PaperFigures(faa, error, forgetting, missing))
    return min(found, key=lambda figures: len(figures.differences), default=None)


def _column(config: Config, paper: Mapping[str, Any]) -> int | None:
    noise = short(REGISTRIES["noise"], config.noise)
    return paper["noise"].index(noise) if noise in paper["noise"] else None


def _cell(paper: Mapping[str, Any], kind: str, method: str, column: int | None) -> float | None:
    row = paper.get(kind, {}).get(method)
    value = math.nan if row is None or column is None else float(row[column])
    return None if math.isnan(value) else value


def _same(config: Config) -> dict[str, str]:
    """Return the settings of a run that its published results must share."""
    return {"method": config.label, "noise": short(REGISTRIES["noise"], config.noise)}


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings of a published run that another run does not have."""
    ours = NEWER | dict(ours)
    for key, value in (NEWER | dict(theirs)).items():
        if key in IGNORED or value == ours.get(key):
            continue
        if not isinstance(value, Mapping):
            yield f"{key} = {value}"
            continue
        mine = ours.get(key, {})
        yield from (f"{key}.{k} = {v}" for k, v in value.items() if mine.get(k) != v)
