"""Run changed inputs through every parser: python -m fuzz [NAME ...]; see `--help`.

Input number i of a parser depends on the seed, the parser and i only: `--first i --count 1` repeats it.
A finding is an exception other than RemnantError, an input that takes longer than SECONDS, memory beyond
MEMORY, or the end of the process. The input and the traceback of a finding are written to a folder.
"""

import argparse
import functools
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz.targets import TARGETS, Target
from remnant import extensions
from remnant.errors import RemnantError

SECONDS = 20  # of one input
MEMORY = 2 * 2**30  # bytes of address space, beyond those of the process at its start
START, END = "<!-- fuzz -->", "<!-- /fuzz -->"


class HangError(BaseException):
    """An input takes too long."""


@dataclass
class Outcome:
    """What became of the inputs of a parser."""

    inputs: int = 0
    accepted: int = 0
    findings: dict[str, str] = field(default_factory=dict)  # place in the code -> number of the first input
    seconds: float = 0.0


def fuzz(target: Target, seed: int, first: int, count: int, limit: float, found: Path) -> Outcome:
    """Run inputs through a parser, in this process, until a number or a time is reached."""
    signal.signal(signal.SIGALRM, _hang)
    outcome, start = Outcome(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds = target.seeds(folder)
        start = time.monotonic()
        for i in range(first, first + count):
            if time.monotonic() - start > limit:
                break
            rng = Random(f"{seed} {target.name} {i}")
            content = rng.choice(seeds)
            content = target.mutate(content, rng) if i else content  # the first input is valid
            outcome.inputs += 1
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                target.parse(folder, content)
                outcome.accepted += 1
            except RemnantError as error:
                if isinstance(error.__cause__, MemoryError):
                    _note(outcome, target, i, content, error.__cause__, found)
            except (Exception, HangError) as error:
                _note(outcome, target, i, content, error, found)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    outcome.seconds = time.monotonic() - start
    return outcome


def _hang(*_: object) -> None:
    raise HangError(f"longer than {SECONDS} s")


def _note(
    outcome: Outcome, target: Target, i: int, content: bytes, error: BaseException, found: Path
) -> None:
    """Write the first input that fails at a place in the code."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}"
    if place not in outcome.findings:
        outcome.findings[place] = str(i)
        found.mkdir(parents=True, exist_ok=True)
        (found / f"{target.name}-{i}.bin").write_bytes(content)
        (found / f"{target.name}-{i}.txt").write_text("".join(traceback.format_exception(error)))


def in_process(target: Target, options: argparse.Namespace) -> Outcome:
    """Run a parser in a process of its own, with a limit of memory; its end by a signal is a finding."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def work() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        send.send(fuzz(target, options.seed, options.first, options.count, options.limit, options.found))

    process = context.Process(target=work)
    process.start()
    send.close()
    try:
        outcome: Outcome = receive.recv()
    except EOFError:
        outcome = Outcome(findings={"the process ended": "?"})
    process.join()
    return outcome


def table(outcomes: dict[str, Outcome], seed: int) -> str:
    """Return the outcomes as Markdown."""
    lines = ["| parser | inputs | accepted | refused | findings |", "|---|---|---|---|---|"]
    for name, o in outcomes.items():
        refused = o.inputs - o.accepted
        lines.append(f"| {name} | {o.inputs:,} | {o.accepted:,} | {refused:,} | {len(o.findings)} |")
    return "\n".join([*lines, "", f"Seed {seed}, at most {SECONDS} s and {MEMORY // 2**30} GiB per input."])


def main() -> int:
    """Run the parsers that are named, or all; return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"parsers; default: all of {', '.join(TARGETS)}")
    parser.add_argument("--count", type=int, default=100_000, help="inputs per parser")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds per parser")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("runs/fuzz"), help="folder of findings")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options: Any = parser.parse_args()
    extensions.entry_points = functools.cache(extensions.entry_points)  # searching all packages takes longest
    outcomes = {}
    for name in options.names or TARGETS:
        outcomes[name] = o = in_process(TARGETS[name], options)
        print(f"{name:12s} {o.inputs:8,} inputs {o.accepted:8,} accepted {o.seconds:7.1f} s", flush=True)
        for place, i in o.findings.items():
            print(f"  {place}: {options.found}/{name}-{i}.bin", flush=True)
    text = table(outcomes, options.seed)
    print(text)
    if options.write:
        before, _, rest = options.write.read_text().partition(START)
        options.write.write_text(f"{before}{START}\n{text}\n{END}{rest.partition(END)[2]}")
    return int(any(o.findings for o in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
