"""Runs grouped for comparison: by benchmark, then by method and settings, so that only seeds differ."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from remnant.methods.registry import METHODS
from remnant.report.figures.style import LineStyle, line_styles
from remnant.report.runs import FinishedRun
from remnant.report.summary import as_text
from remnant.report.tables.benchmarks import IN_TITLE, by_benchmark
from remnant.report.tables.grouping import RunGroup, seeds_text
from remnant.report.tables.variants import base_method, named_settings

NOT_NAMED = ("threads", "device", "compile", "channels_last")  # do not affect the accuracy


@dataclass(frozen=True)
class Variant:
    """A group of runs that differ in the seed only, as it appears in figures and tables."""

    group: RunGroup
    style: LineStyle

    @property
    def label(self) -> str:
        """Return the method, with the settings in which it differs from it: `aer-abs insertion.alpha=0.5`."""
        return self.group.title

    @property
    def runs(self) -> list[FinishedRun]:
        """Return the runs in the order of their seeds."""
        return [self.group.runs[seed] for seed in self.seeds]

    @property
    def seeds(self) -> list[int]:
        """Return the seeds of the runs."""
        return sorted(self.group.runs)


@dataclass(frozen=True)
class Benchmark:
    """The runs on one dataset with one noise."""

    title: str
    variants: tuple[Variant, ...]

    @property
    def runs(self) -> list[FinishedRun]:
        """Return the runs of all variants."""
        return [run for variant in self.variants for run in variant.runs]


def benchmarks(runs: Sequence[FinishedRun]) -> list[Benchmark]:
    """Group runs by benchmark and method; a label has the same style in all benchmarks."""
    groups = {title: sorted(_groups(title, same), key=_rank) for title, same in by_benchmark(runs).items()}
    labels = {group.title: group for same in groups.values() for group in same}
    styles = line_styles(sorted(labels, key=lambda label: _rank(labels[label])))
    return [
        Benchmark(title, tuple(Variant(group, styles[group.title]) for group in same))
        for title, same in groups.items()
    ]


def method_rank(method: str) -> tuple[int, str]:
    """Return the position of a method in the list of methods; methods of extensions come last."""
    names, base = list(METHODS), base_method(method)
    return names.index(base) if base in METHODS else len(names), method


def _rank(group: RunGroup) -> tuple[tuple[int, str], str]:
    return method_rank(group.method), group.title


def _groups(benchmark: str, runs: Sequence[FinishedRun]) -> list[RunGroup]:
    """Group runs by the settings in which runs of the same method differ."""
    found: dict[str, RunGroup] = {}
    for base in dict.fromkeys(base_method(run.method) for run in runs):
        same = [run for run in runs if base_method(run.method) == base]
        for run, own in zip(same, named_settings(same), strict=True):
            settings = {key: value for key, value in own.items() if _is_named(key)}
            group = RunGroup(benchmark, run.method, settings, {})
            seeds = found.setdefault(group.title, group).runs
            found[group.title] = RunGroup(benchmark, run.method, settings, {run.seed: run} | dict(seeds))
    return list(found.values())


def _is_named(key: str) -> bool:
    return key not in (*IN_TITLE, *NOT_NAMED) and not key.startswith("noise.")


def seeds_sentence(variants: Sequence[Variant]) -> str:
    """Return what a mean and a band are in a caption, with the seeds of each variant.

    Variants with the same seeds are not listed separately.
    """
    groups: dict[str, list[str]] = {}
    for variant in variants:
        groups.setdefault(seeds_text(variant.seeds), []).append(variant.label)
    if len(groups) == 1:
        (seeds,) = groups
        text = f"seed {seeds}" if seeds.isdecimal() else f"seeds {seeds}"
    else:
        text = "seeds " + "; ".join(f"{seeds} ({', '.join(names)})" for seeds, names in groups.items())
    if all(len(variant.runs) == 1 for variant in variants):
        return f"One run each, {text}." if len(variants) > 1 else f"One run, {text}."
    return f"Mean and standard error over {text}."


def common_settings(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Return the settings that all runs share, as text."""
    tables = [run.settings() for run in runs]
    keys = [key for key in tables[0] if all(key in table for table in tables)]
    return {
        key: as_text(tables[0][key]) for key in keys if len({json.dumps(table[key]) for table in tables}) == 1
    }
