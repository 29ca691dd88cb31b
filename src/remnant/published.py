"""What the paper reports for a run like this one; the numbers lie in the recipes of its benchmarks."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from remnant import component, recipe
from remnant.config import Config, resolve
from remnant.noise import NOISES

OF_THE_MACHINE = ("name", "method", "seed", "threads", "channels_last")  # no other experiment


@dataclass(frozen=True)
class Published:
    """Figures of the paper in percent, over five seeds, and where this run differs from theirs."""

    faa: float
    error: float | None  # standard error of the mean
    forgetting: float | None
    other: tuple[str, ...]  # settings of the recipe that the run does not have, as `epochs = 50`


def published(config: Config) -> Published | None:
    """Return the figures for the benchmark, method and noise of a run, if the paper has them.

    A run with other settings than the recipe's is still told of them if it was made from that recipe.
    """
    close = []
    for name, paper in recipe.papers().items():
        column = _column(config, paper)
        faa = _cell(paper, "faa", config.label, column)
        if column is None or faa is None:
            continue
        theirs = resolve(recipe.apply(recipe.read(name), _same(config)))
        other = tuple(_differences(theirs.table(), config.table()))
        if theirs.name == config.name or not other:
            error = _cell(paper, "error", config.label, column)
            forgetting = _cell(paper, "forgetting", config.label, column)
            close.append(Published(faa, error, forgetting, other))
    return min(close, key=lambda found: len(found.other), default=None)


def _column(config: Config, paper: Mapping[str, Any]) -> int | None:
    noise = component.short(NOISES, config.noise)
    return paper["noise"].index(noise) if noise in paper["noise"] else None


def _cell(paper: Mapping[str, Any], kind: str, method: str, column: int | None) -> float | None:
    row = paper.get(kind, {}).get(method)
    value = math.nan if row is None or column is None else float(row[column])
    return None if math.isnan(value) else value


def _same(config: Config) -> list[str]:
    """Return what a run has in common with the paper's, as changes of a recipe."""
    return [f"method={config.label}", f"noise={component.short(NOISES, config.noise)}"]


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    for key, value in theirs.items():
        if key in OF_THE_MACHINE or value == ours.get(key):
            continue
        if not isinstance(value, Mapping):
            yield f"{key} = {value}"
            continue
        mine = ours.get(key, {})
        yield from (f"{key}.{k} = {v}" for k, v in value.items() if mine.get(k) != v)
