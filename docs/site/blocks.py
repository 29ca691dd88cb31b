"""Fill the generated parts of the pages: `python docs/site/blocks.py`, or `make tables`.

A generated part is between two comments, `<!-- settings: er er+fit -->` and `<!-- /settings -->`. The kinds
are those of BLOCKS. A test compares the pages with what is generated.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from api import describe_name

from remnant.cli.listing import all_settings
from remnant.config import resolve
from remnant.config.registries import METHOD_NAMES, OF_METHOD
from remnant.report.tables import find_metrics, load_runs, make_table
from remnant.report.tables.formats import value_text
from remnant.report.tables.grouping import seeds_text
from remnant.settings import describe_setting

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^(<!-- ([a-z]+):? ?([^\n]*?) ?-->\n).*?^(<!-- /\2 -->)", re.S | re.M)
METRICS = ("faa", "ff", "purity", "seconds")
SWEEPS = (
    "digits.json",
    "fashion.json",
    "cifar10.json",
    "cifar10-features.json",
)  # of the methods of the paper


def filled(text: str, root: Path = ROOT) -> str:
    """Return a page with its generated parts."""
    return BLOCK.sub(
        lambda found: (
            f"{found[1]}\n{BLOCKS[found[2]](found[3].split(), root)}\n\n{found[4]}"
            if found[2] in BLOCKS
            else found[0]
        ),
        text,
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [titles, ["---"] * len(titles), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def components(methods: Sequence[str], root: Path) -> str:
    """Return the components of replay methods, without those that all of them lack."""
    configs = {name: resolve({"method": name}).table() for name in methods}
    shown = [key for key in OF_METHOD if any(_name(config, key) not in SILENT for config in configs.values())]
    rows = [
        [
            f"`{name}`",
            *(f"`{_name(config, key)}`" for key in shown),
            str(getattr(METHOD_NAMES[name], "about", "")),
        ]
        for name, config in configs.items()
    ]
    return table(["method", *shown, "meaning"], rows)


SILENT = ("none", "lazy", "replay", "")


def _name(config: dict[str, object], key: str) -> str:
    component = config.get(key, {})
    return str(component.get("name", "")) if isinstance(component, dict) else ""


def settings(methods: Sequence[str], root: Path) -> str:
    """Return the settings of the components of methods, with their values by default."""
    values: dict[tuple[str, str], dict[str, list[str]]] = {}
    for method in methods:
        config = resolve({"method": method})
        for key, component in config.table().items():
            if key not in OF_METHOD or not isinstance(component, dict):
                continue
            for name, value in component.items():
                if name != "name":
                    row = (f"`{key}.{name}`", describe_setting(getattr(config, key), name))
                    values.setdefault(row, {}).setdefault(f"`{str(value).lower()}`", []).append(method)
    rows = [[name, _by_method(of), about] for (name, about), of in values.items()]
    return table(["setting", "default", "meaning"], rows) if rows else "No settings of its own."


def _by_method(values: dict[str, list[str]]) -> str:
    if len(values) == 1:
        return next(iter(values))
    return "; ".join(f"{value} ({', '.join(methods)})" for value, methods in values.items())


def measured(words: Sequence[str], root: Path) -> str:
    """Return the stored results of methods, from the files among the words, or from those of all methods."""
    files = [word for word in words if word.endswith(".json")] or [f"results/desk/{name}" for name in SWEEPS]
    runs = load_runs([root / file for file in files if (root / file).exists()])
    found = make_table([run for run in runs if run.method in words], find_metrics(METRICS))
    rows = [
        [
            benchmark,
            row.group.title,
            *(value_text(row.values[metric.name]) for metric in found.metrics),
            seeds_text(list(row.group.runs)),
        ]
        for benchmark, groups in found.rows.items()
        for row in groups
    ]
    if not rows:
        return "No results of these methods are stored in `results/` yet."
    return table(["benchmark", "method", *(metric.title for metric in found.metrics), "seeds"], rows)


def detection(words: Sequence[str], root: Path) -> str:
    """Return a metric of every suspicion score on every benchmark, from a file of bench/detection.py."""
    path, metric = words
    found: dict[str, dict[str, list[float]]] = {}
    for row in map(json.loads, (root / path).read_text().splitlines()):
        of_score = found.setdefault(row["score"], {})
        of_score.setdefault(f"{row['recipe']}, {row['noise']}", []).append(row[metric])
    benchmarks = list(dict.fromkeys(benchmark for of_score in found.values() for benchmark in of_score))
    best = {name: max(mean(scores[name]) for scores in found.values()) for name in benchmarks}
    rows = [
        [score, *(_bold(mean(values[name]), best[name]) for name in benchmarks)]
        for score, values in found.items()
    ]
    return table(["score", *benchmarks], rows)


def _bold(value: float, best: float) -> str:
    return f"**{value:.3f}**" if value == best else f"{value:.3f}"


def methods(pages: Sequence[str], root: Path) -> str:
    """Return all methods with their pages, which are those that have a block of their components."""
    page_of = {
        name: page
        for page in sorted((root / "docs").glob("**/*.md"))
        for words in re.findall(r"<!-- settings: ([^\n]*?) -->", page.read_text())
        for name in words.split()
    }
    rows = []
    for name in METHOD_NAMES.builtin:
        page = page_of[name].relative_to(root / "docs")
        link = page.relative_to("methods") if page.parts[0] == "methods" else Path("..") / page
        rows.append([f"[`{name}`]({link})", str(getattr(METHOD_NAMES[name], "about", ""))])
    return table(["method", "meaning"], rows)


def parameters(words: Sequence[str], root: Path) -> str:
    """Return every setting of a run."""
    rows = [(name.split(" = ", 1), about) for name, about in all_settings()]
    return table(
        ["setting", "default", "meaning"],
        [[f"`{name.strip()}`", _code(default), about] for (name, default), about in rows],
    )


def _code(default: str) -> str:
    return default if default == "set by the method" else f"`{default}`"


def api(names: Sequence[str], root: Path) -> str:
    """Return signature and docstring of public names."""
    return "\n\n".join(describe_name(name) for name in names)


def decisions(words: Sequence[str], root: Path) -> str:
    """Return the titles of the decision records."""
    pages = sorted((root / "docs" / "adr").glob("0*.md"))
    titles = [page.read_text().splitlines()[0].lstrip("# ") for page in pages]
    return "\n".join(f"- [{title}]({page.name})" for page, title in zip(pages, titles, strict=True))


BLOCKS: dict[str, Callable[[Sequence[str], Path], str]] = {
    "components": components,
    "settings": settings,
    "measured": measured,
    "detection": detection,
    "methods": methods,
    "parameters": parameters,
    "api": api,
    "decisions": decisions,
}

if __name__ == "__main__":
    for page in sorted((ROOT / "docs").glob("**/*.md")):
        before = page.read_text()
        if (after := filled(before)) != before:
            page.write_text(after)
