"""What the benchmarks share: measuring in turns, and tables with the machine in their header."""

import datetime
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

Work = Callable[[], object]


def machine(threads: int) -> str:
    """Return processor, instruction set, threads, version of torch and date in one line."""
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    bf16 = "with" if torch.cpu._is_avx512_bf16_supported() else "without"
    instructions = f"{torch.backends.cpu.get_cpu_capability()} {bf16} bf16"
    cores = f"{threads} of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    date = datetime.datetime.now(tz=datetime.UTC).date()
    name = found[1] if found else "unknown processor"
    return f"{name}, {instructions}, {cores}, torch {torch.__version__}, {date}"


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}  # cpu: for a busy machine and one thread


def seconds(work: Work, clock: str = "wall") -> float:
    """Return how long something takes."""
    start = CLOCKS[clock]()
    work()
    return CLOCKS[clock]() - start


def in_turns(works: Mapping[str, Work], rounds: int, clock: str = "wall") -> dict[str, list[float]]:
    """Return the seconds of each work in each round, without a first round that warms up.

    The works take turns, so that other load affects all of them.
    """
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds(work, clock))
    return times


def ratio(times: Sequence[float], others: Sequence[float]) -> float:
    """Return the median over rounds of one time divided by the other in the same round."""
    return median(a / b for a, b in zip(times, others, strict=True))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a Markdown table; the keys of the first row are its header.

    >>> print(table([{"net": "small", "ratio": 1.25}]))
    | net | ratio |
    |---|---|
    | small | 1.25 |
    """
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_cell(row.get(name)) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- |", "|---|").replace(
        " --- |", "---|"
    )  # fmt: skip


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def report(title: str, threads: int, rows: Sequence[Mapping[str, Any]], out: Path | None) -> None:
    """Print a table with the machine above it; write it to OUT.md and OUT.json."""
    header = machine(threads)
    text = f"{title}\n\n{header}\n\n{table(rows)}\n" if rows else f"{title}\n\n{header}\n\nnothing measured\n"
    print(f"\n{text}")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.with_suffix(".md").write_text(text)
        content = {"title": title, "machine": header, "rows": list(rows)}
        out.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
