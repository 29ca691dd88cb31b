"""Mutation testing: change the source in one place, run its tests, and list the changes that no test notices.

    make mutants                                   # 500 mutants, drawn with seed 0
    python -m mutants --count 50 --only buffer     # some of one package
    python -m mutants --name buffer/greedy.py      # all mutants whose name contains a text
    python -m mutants --record killed.txt          # skip those that an interrupted run has killed already

Each mutant is tested by those fast tests of its package that call the changed function, the fastest first.
Survivors that cannot be noticed are listed with the reason in mutants/accepted.toml.
"""

import argparse
import random
import sys
import tomllib
from collections import Counter
from pathlib import Path

from mutants.mutations import Mutant, mutants
from mutants.trial import KILLED, Trials

ROOT = Path(__file__).parent.parent
PACKAGES = ("buffer", "engine", "experiment", "methods", "suspects")


def main() -> None:
    options = _options()
    every = [mutant for package in PACKAGES for mutant in _mutants_of(package)]
    chosen = [m for m in every if options.name in m.name and m.path.startswith(f"src/remnant/{options.only}")]
    count = min(options.count, len(chosen))
    drawn = chosen if options.name else random.Random(options.seed).sample(chosen, count)
    print(f"{len(drawn)} of {len(every)} mutants, seed {options.seed}", flush=True)
    reasons = accepted()
    record = Record(options.record)
    outcomes = [(m.package, record.killed[m.key]) for m in drawn if m.key in record.killed]
    drawn = [m for m in drawn if m.key not in record.killed]
    with Trials(ROOT, options.workers) as trials:
        for package in sorted({mutant.package for mutant in drawn}):
            trials.measure(package)
        for mutant, outcome in trials.run(drawn):
            if outcome in KILLED:
                record.add(mutant, outcome)
            else:
                outcome = reasons.get(mutant.name, outcome)
                print(
                    f"{outcome}: {mutant.path}:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}",
                    flush=True,
                )
            outcomes.append((mutant.package, outcome))
    print(table(outcomes))
    sys.exit(any(outcome == "survived" for _, outcome in outcomes))


class Record:
    """The outcomes of killed mutants in a file, so that a run that was interrupted can be resumed."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.killed = {key: outcome for outcome, _, key in (line.partition(" ") for line in lines)}

    def add(self, mutant: Mutant, outcome: str) -> None:
        if self.path:
            with self.path.open("a") as file:
                file.write(f"{outcome} {mutant.key}\n")


def accepted() -> dict[str, str]:
    """Return the names of known survivors with their categories: equivalent, message, speed or device."""
    categories = tomllib.loads((Path(__file__).parent / "accepted.toml").read_text())
    return {name: category for category, names in categories.items() for name in names}


def table(outcomes: list[tuple[str, str]]) -> str:
    """Return one line per package: how many mutants had each outcome, and the share of survivors."""
    kinds = sorted({outcome for _, outcome in outcomes} | {"survived"})
    lines = ["package     mutants  " + "".join(f"{kind:>12}" for kind in kinds) + "       share"]
    for package in (*sorted({package for package, _ in outcomes}), "all"):
        counts = Counter(outcome for name, outcome in outcomes if package in (name, "all"))
        cells = "".join(f"{counts[kind]:12}" for kind in kinds)
        lines.append(f"{package:12}{counts.total():7}  {cells}{counts['survived'] / counts.total():12.1%}")
    return "\n".join(lines)


def _mutants_of(package: str) -> list[Mutant]:
    files = sorted((ROOT / "src" / "remnant" / package).rglob("*.py"))
    return [m for file in files for m in mutants(str(file.relative_to(ROOT)), file.read_text())]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument("--workers", type=int, default=2, help="mutants tested at the same time")
    parser.add_argument("--only", default="", choices=["", *PACKAGES], help="mutate one package only")
    parser.add_argument("--record", type=Path, help="file of killed mutants, which are not tested again")
    parser.add_argument("--name", default="", help="test all mutants whose name contains this text")
    return parser.parse_args()


if __name__ == "__main__":
    main()
