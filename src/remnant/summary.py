"""The end of a run, for a person."""

import json
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from remnant import recipe
from remnant.config import resolve
from remnant.data import naming
from remnant.errors import RemnantError
from remnant.progress import duration
from remnant.published import Published, published

OTHERS = ("er", "aer-abs", "er-ace")  # methods to try


def show(console: Console, folder: Path, data_dir: Path | None) -> None:
    """Print what a finished run found, where it lies, and what to try next."""
    result = json.loads((folder / "result.json").read_text())
    table = tomllib.loads((folder / "config.toml").read_text())
    console.print()
    title = f"on {result['data']}, noise {escape(result['noise'])}, seed {result['seed']}"
    console.print(f"[bold]{result['method']}[/] {title}", highlight=False)
    console.print(accuracies(result))
    accuracy, *rest = figures(result)
    for name, value, meaning in [accuracy, *paper(published(resolve(table))), *rest]:
        console.print(f"  {name:24s} {value:>9s}  [dim]{meaning}[/]", highlight=False)
    console.print()
    console.print(files(folder, result), markup=False, highlight=False, soft_wrap=True)
    steps = next_steps(folder, table, result["noise"], data_dir)
    console.print(steps, markup=False, highlight=False, soft_wrap=True)


def accuracies(result: dict[str, Any]) -> Table:
    """Return the table of accuracies per task after the last one."""
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("  task")
    table.add_column("classes")
    table.add_column("accuracy", justify="right")
    table.add_column("within the task", justify="right")
    last, within = result["accuracy"][-1], result["accuracy_task_incremental"][-1]
    for number, classes in enumerate(result["classes"]):
        names = ", ".join(classes) if len(classes) <= 4 else f"{classes[0]} ... {classes[-1]}"
        table.add_row(
            f"  {number + 1}", escape(names), f"{last[number]:.1f} %", f"{within[number]:.1f} %"
        )
    return table


def figures(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return each figure as name, value, meaning."""
    rows = [
        (
            "final average accuracy",
            f"{result['faa']:.1f} %",
            f"over tasks, on the {result['tested_on']}",
        ),
        (
            "final forgetting",
            f"{round(result['ff'], 1) + 0.0:.1f}",
            "points lost; lower is better",
        ),
    ]
    memory = result["memory"]
    if memory and memory["size"]:
        where = f", in {next(iter(result['memories']))}" if len(result["memories"]) > 1 else ""
        balance = "-" if memory["balance"] is None else f"{memory['balance']:.2f}"
        rows += [
            ("memory purity", f"{memory['purity']:.1f} %", f"stored labels that are right{where}"),
            ("wrong labels stored", f"{memory['wrong']}", f"of {memory['size']} rows"),
            ("memory balance", balance, "1: as many rows of each class"),
        ]
    rows += others(result["memories"])
    rows += consolidation(result["consolidation"])
    if skipped := result.get("skipped"):
        rows.append(("skipped files", f"{len(skipped)}", "could not be read; named in result.json"))
    pace = f"{result['images_per_second']:.0f} images/s, {result['peak_rss_mb']:.0f} MB"
    return [*rows, ("time", duration(result["seconds"]), pace)]


def paper(found: Published | None) -> list[tuple[str, str, str]]:
    """Return what the paper has for this method, noise and benchmark, and what was different there."""
    if found is None:
        return []
    error = "" if found.error is None else f"+- {found.error:.1f} "
    forgetting = "" if found.forgetting is None else f", forgetting {found.forgetting:.1f}"
    there = f"; there {', '.join(found.other)}" if found.other else ""
    return [("in the paper", f"{found.faa:.1f} %", f"{error}over 5 seeds{forgetting}{there}")]


def others(memories: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the purity of each memory where there are several."""
    if len(memories) < 2:
        return []
    return [
        (f"  {name}", "-" if found["mean_purity"] is None else f"{found['mean_purity']:.1f} %",
         f"labels right on average; {found['size']} rows now")
        for name, found in memories.items()
    ]  # fmt: skip


def consolidation(found: dict[str, Any] | None) -> list[tuple[str, str, str]]:
    """Return what the divisions of the memory were worth, and how often there was none."""
    if found is None or not found["divisions"]:
        return []
    rows = []
    if found["precision"] is not None:
        rows.append(("trusted labels", f"{found['precision']:.1f} %", "right; mean over consolidation"))
    rows += [
        ("plain cross-entropy", f"{count}", f"of {found['divisions']} divisions: {reason}")
        for reason, count in found["plain"].items()
    ]
    return rows


def files(folder: Path, result: dict[str, Any]) -> str:
    """Say where the files are."""
    names = [name for name, memory in result["memories"].items() if memory["size"]]
    kept = f"     {names[0]}.safetensors  what was kept" if len(names) == 1 else ""
    if len(names) > 1:
        kept = f"\n    *.safetensors   what was kept in {', '.join(names)}"
    return (
        f"  {folder}/\n"
        "    result.json     all numbers          metrics.jsonl       one line per epoch and task\n"
        f"    config.toml     repeats this run{kept}"
    )


def next_steps(folder: Path, table: dict[str, Any], noise: str, data_dir: Path | None) -> str:
    """Suggest what to try, in words that change one thing of the run that was made."""
    is_default = table == resolve(recipe.read("digits")).table()
    run = f"{program()} run" if is_default else f"{program()} run {shlex.quote(str(folder))}"
    run += naming(data_dir)
    suggestions = {}
    if other := next((m for m in OTHERS if m != table["method"] and _is_possible(table, m)), None):
        suggestions[f"{run} --method {other}"] = "the same stream with another method"
    if noise != "given":  # else no other can be made
        rate = 0.6 if noise != "symmetric:0.6" else 0.2
        suggestions[f"{run} --noise symmetric:{rate}"] = "other noise"
    suggestions[f"{program()} list methods"] = "what else there is"
    width = max(map(len, suggestions)) + 2
    lines = [f"    {command:{width}s}{meaning}" for command, meaning in suggestions.items()]
    return "\n".join(["", "  Try next:", *lines])


def _is_possible(table: dict[str, Any], method: str) -> bool:
    """Whether a method goes with the other settings of a run."""
    try:
        resolve(recipe.apply(table, [f"method={method}"]))
    except RemnantError:
        return False
    return True


def program() -> str:
    """Return what to type for this program: its name, or its path where that is not found."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "remnant" and not shutil.which("remnant") else "remnant"
