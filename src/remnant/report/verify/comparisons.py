"""Comparisons of two groups of runs.

A comparison holds if the difference, paired by seed, is greater than twice its standard error.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from remnant.config.registries import OF_METHOD
from remnant.report.runs import FinishedRun
from remnant.report.tables.formats import value_text
from remnant.report.tables.grouping import Metric, RunGroup, Summary, group_runs, paired_difference

TUNED = ("lr", "buffer_size")  # may differ between methods that are compared


@dataclass(frozen=True)
class Finding:
    """A comparison on one benchmark: whether it holds, and its numbers."""

    benchmark: str
    holds: bool
    text: str


class Results:
    """Groups of runs by benchmark and method."""

    def __init__(self, runs: Sequence[FinishedRun]) -> None:
        self._groups: dict[str, dict[str, list[RunGroup]]] = {}
        for group in group_runs(runs):
            methods = self._groups.setdefault(_context(group), {})
            methods.setdefault(group.method, []).append(group)

    def benchmarks(self) -> list[str]:
        """Return the benchmarks: recipe, noise, and the settings that all methods share."""
        return list(self._groups)

    def group(self, benchmark: str, method: str) -> RunGroup | None:
        """Return the runs of a method, those with the most seeds; None if there are none."""
        groups = self._groups.get(benchmark, {}).get(method, [])
        return max(groups, key=lambda group: len(group.runs), default=None)

    def variants(self, benchmark: str, method: str) -> list[RunGroup]:
        """Return all groups of runs of a method and of those with other settings of its components."""
        methods = self._groups.get(benchmark, {})
        return [*methods.get(method, []), *methods.get(f"{method}-custom", [])]

    def pairs(self, better: str, worse: str) -> Iterator[tuple[str, RunGroup, RunGroup]]:
        """Yield the benchmarks with runs of two methods, of which the first may not store more samples."""
        for benchmark in self.benchmarks():
            a, b = self.group(benchmark, better), self.group(benchmark, worse)
            if a is not None and b is not None and _budget(a) <= _budget(b):
                yield benchmark, a, b


def _budget(group: RunGroup) -> float:
    """Return how many samples all buffers of a method may hold together; infinity if there is no limit."""
    budget = next(iter(group.runs.values())).result.get("buffer_samples", {}).get("budget")
    return math.inf if budget is None else float(budget)


def _context(group: RunGroup) -> str:
    shared = {
        k: v for k, v in group.settings.items() if k not in TUNED and k.partition(".")[0] not in OF_METHOD
    }
    return " ".join([group.benchmark, *(f"{key}={value}" for key, value in shared.items())])


def is_clear(difference: Summary | None) -> bool:
    """Return whether a difference is greater than twice its standard error, which one seed does not have.

    >>> is_clear(Summary(3.0, 1.0, 5)), is_clear(Summary(1.5, 1.0, 5)), is_clear(Summary(9.0, None, 1))
    (True, False, False)
    """
    return difference is not None and difference.error is not None and difference.mean > 2 * difference.error


def higher(metric: Metric, better: str, *others: str) -> Callable[[Results], Iterator[Finding]]:
    """Return the comparisons of a method with others: its value of a metric is higher."""
    return partial(_findings, metric, better, others, 1)


def lower(metric: Metric, better: str, *others: str) -> Callable[[Results], Iterator[Finding]]:
    """Return the comparisons of a method with others: its value of a metric is lower."""
    return partial(_findings, metric, better, others, -1)


def _findings(
    metric: Metric, better: str, others: Sequence[str], sign: int, results: Results
) -> Iterator[Finding]:
    for other in others:
        for benchmark, a, b in results.pairs(better, other):
            if (difference := paired_difference(a, b, metric)) is not None:
                text = f"{better} - {other} {value_text(difference, signed=True)}"
                yield Finding(benchmark, is_clear(scaled(difference, sign)), text)


def scaled(value: Summary | None, unit: float) -> Summary | None:
    """Return a summary in another unit; a negative one inverts its sign."""
    if value is None:
        return None
    return Summary(unit * value.mean, None if value.error is None else abs(unit) * value.error, value.count)
