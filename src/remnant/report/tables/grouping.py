"""Tables of several runs: mean and standard error over seeds, and differences paired by seed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from remnant.config.registries import OF_METHOD
from remnant.errors import RemnantError, nearest
from remnant.experiment.metrics import mean, standard_error
from remnant.report.runs import FinishedRun
from remnant.report.tables.benchmarks import IN_TITLE, benchmark_titles, by_benchmark
from remnant.report.tables.variants import base_method, named_settings
from remnant.suspects.scores import SCORES

LARGEST = 1e100  # absolute value of a result: its square is finite


@dataclass(frozen=True)
class Metric:
    """A value in result.json."""

    name: str
    title: str
    path: tuple[str, ...]
    higher_is_better: bool = True
    scale: int = 1  # 100 shows a fraction in percent

    def of(self, run: FinishedRun) -> float | None:
        """Return the value of a run, or None if it was not measured."""
        value: Any = run.result
        for key in self.path:
            value = value.get(key) if isinstance(value, Mapping) else None
        try:
            number = None if value is None else self.scale * float(value)
            if number is not None and abs(number) > LARGEST:
                raise OverflowError
            return number
        except (TypeError, ValueError, OverflowError) as error:
            raise RemnantError(
                f"{run.folder}: expected a number as {self.name}, got {value!r:.60}. Store the results again."
            ) from error


METRICS = {
    metric.name: metric
    for metric in (
        Metric("faa", "accuracy", ("faa",)),
        Metric("ff", "forgetting", ("ff",), higher_is_better=False),
        Metric("aia", "incremental accuracy", ("aia",)),
        Metric("bwt", "backward transfer", ("bwt",)),
        Metric("fwt", "forward transfer", ("fwt",)),
        Metric("purity", "purity", ("buffer", "purity")),
        Metric("balance", "balance", ("buffer", "balance")),
        Metric("auroc", "suspects' AUROC", ("suspects", "auroc"), scale=100),
        Metric("hits", "suspects' precision", ("suspects", "precision_at_errors"), scale=100),
        Metric("seconds", "seconds", ("seconds",), higher_is_better=False),
        Metric("rss", "peak MB", ("peak_rss_mb",), higher_is_better=False),
    )
}


@dataclass(frozen=True)
class Summary:
    """A mean over seeds with its standard error, which a single value does not have."""

    mean: float
    error: float | None
    count: int


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in the seed only."""

    benchmark: str  # recipe or own data, and noise
    method: str
    settings: Mapping[str, Any]  # in which it differs from its method and from other groups
    runs: Mapping[int, FinishedRun]  # by seed

    @property
    def title(self) -> str:
        """Return the method with the settings in which the group differs."""
        is_complete = any(key.partition(".")[0] in OF_METHOD for key in self.settings)
        method = base_method(self.method) if is_complete else self.method
        return " ".join([method, *(f"{key}={value}" for key, value in self.settings.items())])


@dataclass(frozen=True)
class Row:
    """A group with a summary of each metric."""

    group: RunGroup
    values: Mapping[str, Summary | None]
    difference: Summary | None  # of the first metric to the reference; None: this is the reference


@dataclass(frozen=True)
class ResultTable:
    """Rows by benchmark, the best one first."""

    metrics: tuple[Metric, ...]
    rows: Mapping[str, Sequence[Row]]
    references: Mapping[str, str]  # title of the group that the others are compared with, by benchmark


def find_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    """Return metrics by name; raise RemnantError for an unknown name.

    `auroc:mean-margin` and `hits:mean-margin` are the detection of noisy labels by this suspicion score.
    """
    return tuple(_find_metric(name) for name in dict.fromkeys(names))


def _find_metric(name: str) -> Metric:
    base, colon, score = name.partition(":")
    if base not in METRICS or (colon and base not in ("auroc", "hits")):
        known = f"{', '.join(METRICS)}, auroc:SCORE, hits:SCORE"
        raise RemnantError(f"unknown metric {name!r}{nearest(name, METRICS)} Expected one of {known}.")
    if not colon:
        return METRICS[base]
    if score not in SCORES:
        raise RemnantError(
            f"unknown score {score!r}{nearest(score, SCORES)} Expected one of {', '.join(SCORES)}."
        )
    path = ("suspects", "scores", score, METRICS[base].path[-1])
    return replace(METRICS[base], name=name, title=f"{base} of {score}", path=path)


def make_table(
    runs: Sequence[FinishedRun], metrics: Sequence[Metric], reference: str | None = None
) -> ResultTable:
    """Group runs by everything but the seed, and compare the groups of each benchmark.

    They are compared with those of the method `reference`, or with the best group.
    """
    rows: dict[str, list[Row]] = {}
    references: dict[str, str] = {}
    groups: dict[str, list[RunGroup]] = {}
    for group in group_runs(runs):
        groups.setdefault(group.benchmark, []).append(group)
    for benchmark, same in groups.items():
        ordered = sorted(same, key=lambda group: _rank(group, metrics[0]))
        other = next((group for group in ordered if group.method == reference), ordered[0])
        references[benchmark] = other.title
        rows[benchmark] = [
            Row(
                group,
                {metric.name: summary_of(group, metric) for metric in metrics},
                None if group is other else paired_difference(group, other, metrics[0]),
            )
            for group in ordered
        ]
    return ResultTable(tuple(metrics), rows, references)


def group_runs(runs: Sequence[FinishedRun]) -> list[RunGroup]:
    """Return groups of runs that differ in the seed only; the first of two equal runs is used."""
    groups: dict[str, RunGroup] = {}
    for run, benchmark, own in zip(runs, benchmark_titles(runs), in_benchmarks(runs), strict=True):
        settings = {key: value for key, value in run.settings().items() if key != "seed"}
        identity = json.dumps([benchmark, run.method, run.noise, settings], sort_keys=True)
        shown = {key: value for key, value in own.items() if not _is_in_title(key)}
        same = groups.setdefault(identity, RunGroup(benchmark, run.method, shown, {})).runs
        groups[identity] = RunGroup(benchmark, run.method, shown, {run.seed: run} | dict(same))
    return list(groups.values())


def in_benchmarks(runs: Sequence[FinishedRun]) -> list[dict[str, Any]]:
    """Return for each run the settings that tell it apart from the others on its benchmark."""
    found: dict[str, list[dict[str, Any]]] = {
        title: named_settings(same) for title, same in by_benchmark(runs).items()
    }
    return [found[title].pop(0) for title in benchmark_titles(runs)]


def _is_in_title(key: str) -> bool:
    return key in IN_TITLE or key.startswith("noise.")


def _values(group: RunGroup, metric: Metric) -> list[float]:
    values = [metric.of(run) for run in group.runs.values()]
    return [value for value in values if value is not None]


def _rank(group: RunGroup, metric: Metric) -> tuple[bool, float, str]:
    values = _values(group, metric)
    sign = -1 if metric.higher_is_better else 1
    return not values, sign * mean(values) if values else 0.0, group.title


def summary(values: Sequence[float]) -> Summary | None:
    """Return mean and standard error, or None without values.

    >>> summary([1.0, 3.0]), summary([5.0]), summary([])
    (Summary(mean=2.0, error=1.0, count=2), Summary(mean=5.0, error=None, count=1), None)
    """
    if not values:
        return None
    return Summary(mean(values), standard_error(values) if len(values) > 1 else None, len(values))


def summary_of(group: RunGroup, metric: Metric) -> Summary | None:
    """Return mean and standard error of a group of runs, or None if no run has a value."""
    return summary(_values(group, metric))


def paired_difference(group: RunGroup, other: RunGroup, metric: Metric) -> Summary | None:
    """Return the difference to another group over the seeds that both have; None if they share none."""
    pairs = [
        (metric.of(group.runs[seed]), metric.of(other.runs[seed])) for seed in shared_seeds(group, other)
    ]
    return summary([a - b for a, b in pairs if a is not None and b is not None])


def shared_seeds(group: RunGroup, other: RunGroup) -> list[int]:
    """Return the seeds that both groups have, over which differences are paired."""
    return sorted(group.runs.keys() & other.runs.keys())


def seeds_text(seeds: Sequence[int]) -> str:
    """Return seeds in short form.

    >>> seeds_text([0, 1, 2, 3, 7])
    '0-3, 7'
    """
    spans: list[list[int]] = []
    for seed in sorted(seeds):
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    return ", ".join(str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in spans)
