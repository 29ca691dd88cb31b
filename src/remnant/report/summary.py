"""The summary of a finished run on the console."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from remnant.config import Config, resolve
from remnant.config.recipe import apply, read
from remnant.data import data_dir_option
from remnant.errors import RemnantError
from remnant.experiment.loggers.console import duration
from remnant.experiment.result import read_result
from remnant.report.paper import PaperFigures, paper_figures

OTHERS = ("er", "aer-abs", "er-ace")  # methods to suggest


def show(folder: Path, data_dir: Path | None) -> None:
    """Print the results of a finished run, where its files are, and what to try next."""
    console = Console()
    result, table = read_result(folder), read(str(folder))
    console.print()
    title = f"on {result['data']}, noise {escape(result['noise'])}, seed {result['seed']}"
    console.print(f"[bold]{result['method']}[/] {title}", highlight=False)
    console.print(accuracies(result))
    accuracy, *rest = figures(result)
    config = _resolved(table)
    published = paper(paper_figures(config)) if config else []
    for name, value, meaning in [accuracy, *published, *rest]:
        console.print(f"  {name:24s} {value:>9s}  [dim]{meaning}[/]", highlight=False)
    console.print()
    console.print(files(folder, result), markup=False, highlight=False, soft_wrap=True)
    if config:
        steps = next_steps(folder, table, result, data_dir)
        console.print(steps, markup=False, highlight=False, soft_wrap=True)


def _resolved(table: dict[str, Any]) -> Config | None:
    """Return the config of a run, or None if it has Python objects."""
    try:
        return resolve(table)
    except RemnantError:
        return None


def accuracies(result: dict[str, Any]) -> Table:
    """Return the table of accuracies per task after the last one."""
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("  task")
    table.add_column("classes")
    table.add_column("accuracy", justify="right")
    table.add_column("task-incremental", justify="right")
    last, within = result["accuracy"][-1], result["accuracy_task_incremental"][-1]
    for number, classes in enumerate(result["classes"]):
        names = ", ".join(classes) if len(classes) <= 4 else f"{classes[0]} ... {classes[-1]}"
        table.add_row(f"  {number + 1}", escape(names), f"{last[number]:.1f} %", f"{within[number]:.1f} %")
    return table


def figures(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of each metric."""
    forgetting = f"{round(result['ff'], 1) + 0.0:.1f}"
    rows = [
        ("final average accuracy", f"{result['faa']:.1f} %", f"mean over tasks, {result['tested_on']}"),
        ("final forgetting", forgetting, "points below the best; lower is better"),
    ]
    buffer = result["buffer"]
    if buffer and buffer["size"]:
        where = f", in {next(iter(result['buffers']))}" if len(result["buffers"]) > 1 else ""
        balance = "-" if buffer["balance"] is None else f"{buffer['balance']:.2f}"
        rows += [
            ("buffer purity", percent(buffer["purity"]), f"stored labels that are clean{where}"),
            (
                "noisy labels stored",
                "unknown" if buffer["noisy"] is None else str(buffer["noisy"]),
                f"of {buffer['size']} samples",
            ),
            ("buffer balance", balance, "1: equally many samples of each class"),
        ]
    rows += others(result["buffers"])
    rows += consolidation(result["consolidation"])
    if skipped := result.get("skipped"):
        rows.append(("skipped files", f"{len(skipped)}", "could not be read; listed in result.json"))
    pace = f"{result['images_per_second']:.0f} samples/s, {result['peak_rss_mb']:.0f} MB"
    return [*rows, ("time", duration(result["seconds"]), pace)]


def percent(value: float | None, otherwise: str = "unknown") -> str:
    """Format a percentage; `otherwise` replaces one that was not measured."""
    return otherwise if value is None else f"{value:.1f} %"


def paper(found: PaperFigures | None) -> list[tuple[str, str, str]]:
    """Return the published accuracy of this method, noise and benchmark, and the settings that differ."""
    if found is None:
        return []
    error = "" if found.error is None else f"+- {found.error:.1f} "
    forgetting = "" if found.forgetting is None else f", forgetting {found.forgetting:.1f}"
    differences = f"; with {', '.join(found.differences)}" if found.differences else ""
    return [("in the paper", f"{found.faa:.1f} %", f"{error}over 5 seeds{forgetting}{differences}")]


def others(buffers: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the purity of each buffer if there are several."""
    if len(buffers) < 2:
        return []
    is_unknown = {name: found["size"] and found["purity"] is None for name, found in buffers.items()}
    return [
        (f"  {name}", percent(found["mean_purity"], "unknown" if is_unknown[name] else "-"),
         f"clean labels on average; {found['size']} samples at the end")
        for name, found in buffers.items()
    ]  # fmt: skip


def consolidation(found: dict[str, Any] | None) -> list[tuple[str, str, str]]:
    """Return the precision of the divisions of the buffer, and how often there was none."""
    if found is None or not found["divisions"]:
        return []
    rows = []
    if found["precision"] is not None:
        rows.append(("trusted labels", f"{found['precision']:.1f} %", "clean; mean over consolidation"))
    rows += [
        ("plain cross-entropy", f"{count}", f"of {found['divisions']} divisions: {reason}")
        for reason, count in found["fallback"].items()
    ]
    return rows


def files(folder: Path, result: dict[str, Any]) -> str:
    """Return a description of the files in the run folder."""
    names = [name for name, buffer in result["buffers"].items() if buffer["size"]]
    kept = f"     {names[0]}.safetensors  the buffer" if len(names) == 1 else ""
    if len(names) > 1:
        kept = f"\n    *.safetensors   the buffers {', '.join(names)}"
    return (
        f"  {folder}/\n"
        "    result.json     all numbers          metrics.jsonl       one line per epoch and task\n"
        f"    config.toml     repeats this run{kept}"
    )


def next_steps(folder: Path, table: dict[str, Any], result: dict[str, Any], data_dir: Path | None) -> str:
    """Return suggested commands, each of which changes one setting of this run."""
    is_default = table == resolve(read("digits")).table()
    run = f"{program()} run" if is_default else f"{program()} run {shlex.quote(str(folder))}"
    run += data_dir_option(data_dir)
    suggestions = {}
    if other := next((m for m in OTHERS if m != table["method"] and _is_possible(table, m)), None):
        suggestions[f"{run} --method {other}"] = "the same stream with another method"
    noise = result["noise"]
    if noise != "given" and (noise != "none" or result["noise_rate"] == 0):  # noise needs clean labels
        rate = 0.6 if noise != "symmetric:0.6" else 0.2
        suggestions[f"{run} --noise symmetric:{rate}"] = "other noise"
    suggestions[f"{program()} list methods"] = "all methods"
    width = max(map(len, suggestions)) + 2
    lines = [f"    {command:{width}s}{meaning}" for command, meaning in suggestions.items()]
    return "\n".join(["", "  Try next:", *lines])


def _is_possible(table: dict[str, Any], method: str) -> bool:
    """Return whether a method can be used with the other settings of a run."""
    return _resolved(apply(table, {"method": method})) is not None


def program() -> str:
    """Return how to call this program: by its name, or by its path if the name is not found."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "remnant" and not shutil.which("remnant") else "remnant"
