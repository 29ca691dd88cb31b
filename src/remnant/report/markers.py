"""Tables in documents, generated from stored results between two comments.

    <!-- table: results/desk/digits.json noise=symmetric:0.4 metric=faa,purity to=aer-abs -->
    <!-- /table -->

`noise` and `methods` select runs, `to` is the method that the others are compared with (by default the best).
With `wide:` instead of `table:`, the columns are benchmarks. With `verify:`, the claims of the paper are
listed with what the results show.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from remnant.errors import RemnantError
from remnant.report.runs import FinishedRun
from remnant.report.tables import find_metrics, load_runs, make_table, make_wide_table, wide_markdown
from remnant.report.tables.formats import markdown
from remnant.report.verify.claims import Verdict, verdicts

BLOCK = re.compile(r"(<!-- (table|wide|verify): ([^\n]+?) -->\n).*?(<!-- /\2 -->)", re.S)
OPTIONS = ("noise", "methods", "metric", "to")


def updated(text: str, root: Path) -> str:
    """Return a document with the content between its comments generated from the files they name."""
    return BLOCK.sub(
        lambda found: f"{found[1]}\n{_content(found[2], found[3].split(), root)}\n{found[4]}", text
    )


def _content(kind: str, words: Sequence[str], root: Path) -> str:
    paths = [root / word for word in words if "=" not in word]
    options = dict(word.split("=", 1) for word in words if "=" in word)
    if unknown := options.keys() - set(OPTIONS):
        raise RemnantError(
            f"a comment {kind}: expected the options {', '.join(OPTIONS)}, got {sorted(unknown)}."
        )
    runs = [run for run in load_runs(paths) if _is_selected(run, options)]
    if not runs:
        raise RemnantError(f"a comment {kind}: expected results for {' '.join(words)}, found none.")
    if kind == "verify":
        return "\n".join(verdict_lines(verdicts(runs))) + "\n"
    metrics = find_metrics(options.get("metric", "faa,ff,purity").split(","))
    if kind == "wide":
        return wide_markdown(make_wide_table(runs, metrics[0]))
    return markdown(make_table(runs, metrics, options.get("to")))


def _is_selected(run: FinishedRun, options: dict[str, str]) -> bool:
    methods = options.get("methods")
    return run.noise == options.get("noise", run.noise) and (
        methods is None or run.method in methods.split(",")
    )


def verdict_lines(found: Sequence[Verdict]) -> list[str]:
    """Return a list of the paper's claims in Markdown, with the numbers of each comparison."""
    lines = []
    for verdict in found:
        needs = f"; it needs {verdict.needs}" if not verdict.findings else ""
        held = sum(finding.holds for finding in verdict.findings)
        count = f" ({held} of {len(verdict.findings)} comparisons)" if verdict.findings else ""
        lines.append(f"- **{verdict.verdict}**{count}: {verdict.claim}{needs}")
        lines += [
            f"  - {'yes' if finding.holds else 'no'}: {finding.benchmark}: {finding.text}"
            for finding in verdict.findings
        ]
    return lines
