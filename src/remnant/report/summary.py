"""The summary of a finished run on the console."""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from remnant.config import Config, resolve
from remnant.config.components import short
from remnant.config.recipe import find, read, to_config
from remnant.config.registries import REGISTRIES
from remnant.errors import RemnantError
from remnant.experiment.loggers.console import duration
from remnant.experiment.result import read_result
from remnant.report.paper import benchmarks, paper_figures
from remnant.settings import literal

OTHERS = ("er", "aer-abs", "er-ace")  # methods to suggest
AS_OPTIONS = ("method", "noise", "seed")  # settings that suggested commands have as options
INDENT = 4


@dataclass(frozen=True)
class Command:
    """The command that started a run: its recipe, settings and folders."""

    recipe: str | None
    settings: Mapping[str, Any]
    out: Path = Path("runs")
    data_dir: Path | None = None

    @property
    def repeats_a_run(self) -> bool:
        """Return whether the recipe is the config of a run, with values that fit its method and noise."""
        path = None if self.recipe is None else find(self.recipe)
        return path is not None and path.name == "config.toml"

    def words(self) -> list[str]:
        """Return the command, word by word, as it can be typed."""
        options = {f"--{key}": self.settings[key] for key in AS_OPTIONS if key in self.settings}
        options |= {} if self.data_dir is None else {"--data-dir": str(self.data_dir)}
        options |= {} if self.out == Path("runs") else {"--out": str(self.out)}
        words = [f"{k}={as_text(v)}" for k, v in self.settings.items() if k not in AS_OPTIONS]
        words = [*([self.recipe] if self.recipe else []), *words]
        pairs = [f"{option} {shlex.quote(as_text(value))}" for option, value in options.items()]
        return [f"{program()} run", *map(shlex.quote, words), *pairs]


def as_text(value: Any) -> str:  # noqa: ANN401
    """Return the text of a value on the command line.

    >>> [as_text(value) for value in (0.5, True, "abs", [1, 2], {"name": "abs"})]
    ['0.5', 'true', 'abs', '[1, 2]', '{name = "abs"}']
    """
    if isinstance(value, str) and literal(value) == value:
        return value
    if isinstance(value, Mapping):
        inner = {k: json.dumps(v) if isinstance(v, str) else as_text(v) for k, v in value.items()}
        return f"{{{', '.join(f'{key} = {text}' for key, text in inner.items())}}}"
    return json.dumps(value)


def show(folder: Path, command: Command) -> None:
    """Print the results of a finished run, where its files are, and what to try next."""
    console = Console()
    result, config = read_result(folder), _resolved(read(str(folder)))
    show_metrics(console, result, paper(config) if config else [])
    console.print()
    console.print(files(folder, result), markup=False, highlight=False, soft_wrap=True)
    if config:
        is_clean = result["noise"] != "none" or result["noise_rate"] == 0  # before noise is added
        steps = next_steps(command, config, console.width, can_add_noise=is_clean)
        console.print(steps, markup=False, highlight=False, soft_wrap=True)


def show_metrics(
    console: Console, result: dict[str, Any], published: Sequence[tuple[str, str, str]] = ()
) -> None:
    """Print the accuracies and the other metrics of a run; `published` are those of the paper."""
    is_unknown = result["noise"] == "none" and result["noise_rate"] is None  # none was added
    noise = "labels as given" if is_unknown else f"noise {escape(result['noise'])}"
    title = f"on {escape(result['data'])}, {noise}, seed {result['seed']}"
    console.print(f"\n[bold]{escape(result['method'])}[/] {title}", highlight=False)
    console.print(accuracies(result))
    accuracy, *rest = figures(result)
    table = Table(box=None, pad_edge=False, padding=0, show_header=False)
    for width, justify in ((26, "left"), (10, "right"), (2, "left")):
        table.add_column(min_width=width, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name, value, meaning in [accuracy, *published, *rest]:
        table.add_row(f"  {name}", value, "", f"[dim]{escape(meaning)}[/]")
    console.print(table, highlight=False)


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
    rows = [("final average accuracy", f"{result['faa']:.1f} %", f"mean over tasks, {result['tested_on']}")]
    if len(result["accuracy"]) > 1:
        forgetting = f"{round(result['ff'], 1) + 0.0:.1f}"
        rows.append(("final forgetting", forgetting, "points below the best; lower is better"))
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
    rows += suspects(result)
    if skipped := result.get("skipped"):
        rows.append(("samples left out", f"{len(skipped)}", "listed in result.json with the reasons"))
    pace = f"{result['images_per_second']:.0f} samples/s, {result['peak_rss_mb']:.0f} MB"
    return [*rows, ("time", duration(result["seconds"]), pace)]


def percent(value: float | None, otherwise: str = "unknown") -> str:
    """Format a percentage; `otherwise` replaces one that was not measured."""
    return otherwise if value is None else f"{value:.1f} %"


def paper(config: Config) -> list[tuple[str, str, str]]:
    """Return the published accuracy of this method, noise and benchmark, and the settings that differ."""
    found = paper_figures(config)
    if found is None:
        noise = short(REGISTRIES["noise"], config.noise)
        text = f"the paper has no number for {config.label} with noise {noise} on {config.name}"
        return [("in the paper", "-", text)] if config.name in benchmarks() else []
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


def suspects(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return how many labels are suspect, or why none are listed."""
    if "suspects" not in result:  # of an earlier version
        return []
    if (found := result["suspects"]) is None:
        return [("suspect labels", "-", f"{result['method']} does not train on the stream itself")]
    rate = f"estimated noise rate {found['noise_rate']:.0f} %"
    return [("suspect labels", f"{found['suspect']}", f"of {found['samples']} ({rate}), in suspects.csv")]


def files(folder: Path, result: dict[str, Any]) -> str:
    """Return a description of the files in the run folder."""
    names = [name for name, buffer in result["buffers"].items() if buffer["size"]]
    rows = {"result.json": "all numbers", "metrics.jsonl": "one line per epoch and task"}
    rows |= {"config.toml": "repeats this run"}
    rows |= {"model.safetensors": "the network; remnant predict uses it"} if "suspects" in result else {}
    rows |= {"suspects.csv": "all samples, the most doubtful label first"} if result.get("suspects") else {}
    rows |= {f"{names[0]}.safetensors": "the buffer"} if len(names) == 1 else {}
    rows |= {"*.safetensors": f"the buffers {', '.join(names)}"} if len(names) > 1 else {}
    rows |= {"report.html": "figures, for the browser"} if (folder / "report.html").exists() else {}
    width = max(map(len, rows)) + 2
    return "\n".join([f"  {folder}/", *(f"    {name:{width}s}{about}" for name, about in rows.items())])


def next_steps(command: Command, config: Config, width: int, *, can_add_noise: bool = True) -> str:
    """Return suggested commands, each of which changes one setting of the command that was typed."""
    suggestions = {}
    if command.repeats_a_run:  # its learning rate is that of its method and noise
        suggestions["the same with another seed"] = replace_settings(command, seed=config.seed + 1)
    else:
        methods = (replace_settings(command, method=name) for name in OTHERS)
        rates = (0.6, 0.2) if can_add_noise else ()
        noises = (replace_settings(command, noise=f"symmetric:{rate}") for rate in rates)
        for about, choices in (("the same stream with another method", methods), ("other noise", noises)):
            if chosen := next((choice for choice in choices if _is_another_run(choice, config)), None):
                suggestions[about] = chosen
    commands = {about: chosen.words() for about, chosen in suggestions.items()}
    commands["all methods"] = [f"{program()} list methods"]
    lines = [f"    # {about}\n{wrapped(words, width)}" for about, words in commands.items()]
    return "\n".join(["", "  Try next:", *lines])


def replace_settings(command: Command, **changes: Any) -> Command:  # noqa: ANN401
    """Return a command with other settings."""
    return replace(command, settings={**command.settings, **changes})


def _is_another_run(command: Command, config: Config) -> bool:
    """Return whether a command can be run, and is not the run of `config`."""
    try:
        other = to_config(command.recipe, command.settings)
    except RemnantError:
        return False
    return (other.label, other.table()["noise"]) != (config.label, config.table()["noise"])


def wrapped(words: Sequence[str], width: int) -> str:
    """Return a command in lines of at most `width` characters, where possible, that can be copied.

    >>> print(wrapped(["remnant run", "digits", "--method er"], 25))
        remnant run digits \\
          --method er
    """
    lines = [" " * INDENT + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 > width:
            lines[-1] += " \\"
            lines.append(" " * (INDENT + 2) + word)
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def program() -> str:
    """Return how to call this program: by its name, or by its path if the name is not found."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "remnant" and not shutil.which("remnant") else "remnant"
