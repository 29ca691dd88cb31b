"""Inject faults into commands, and check that nothing is lost: `python faults --help`.

Each command is first run undisturbed, which records its system calls. Then every call fails in every way, the
process is killed before and after it, memory runs out, files are damaged, and two processes compete. After
each fault, the same command without faults has to end with the same bytes.
"""

import argparse
import errno
import fcntl
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import child
import scenarios
from child import Ended
from damage import DAMAGES
from inject import Fault, faults_of
from scenarios import SCENARIOS, harmed, outcome
from surroundings import import_everything, publish

MARGINS = [2**power for power in range(16, 28)]  # bytes that a command may allocate
TEMPORARY = ".download-"  # if it cannot be deleted, the next command deletes it
BLOCK = re.compile(r"(<!-- faults -->\n).*?(<!-- /faults -->)", re.S)


@dataclass(frozen=True)
class Case:
    """A fault of a scenario: of a system call, of memory (a number of bytes), of locks, or of a file."""

    scenario: str
    fault: Fault = Fault()
    margin: int = 0
    lock_error: str = ""
    damage: str = ""
    file: str = ""
    state: str = "finished"  # of the folder whose file is damaged
    attempt: int = 0  # of two processes, whose timing differs

    def __str__(self) -> str:
        if self.margin:
            return "memory runs out"
        if self.lock_error:
            return f"file locks fail ({self.lock_error})"
        return self.damage or str(self.fault) or "two processes"


@dataclass(frozen=True)
class Verdict:
    """Whether the promises were kept; `problem` is empty if so, None if the fault did not occur."""

    case: Case
    problem: str | None


@dataclass(frozen=True)
class Harness:
    """The folders of a session: inputs, finished and interrupted states, and one folder for each case."""

    home: Path

    def reference(self, scenario: str, state: str = "finished") -> Path:
        """Return the folder of a scenario in a state."""
        return self.home / state / scenario

    def command(self, scenario: str, folder: Path, fault: Fault = Fault(), **how: Any) -> Ended:  # noqa: B008
        """Run the command of a scenario."""
        return child.run(SCENARIOS[scenario].words(self.home / "inputs", folder), folder, fault, **how)

    def prepare(self) -> dict[str, list[str]]:
        """Run every command undisturbed; return the calls it makes."""
        calls, inputs = {}, self.home / "inputs"
        older = ["sweep", f"{inputs}/older.toml", "--quiet", "--out", f"{inputs}/older-sweep/runs"]
        child.run(older, self.home / "none", Fault())
        for name, scenario in SCENARIOS.items():
            folder = self.home / "work" / name
            scenario.prepare(inputs, folder)
            ended = self.command(name, folder)
            if ended.status:
                raise SystemExit(f"{name} fails without a fault:\n{ended.output}")
            calls[name] = list(ended.calls)
            folder.rename(self.reference(name))
        folder = self.home / "work" / "run"
        SCENARIOS["run"].prepare(inputs, folder)
        third = [n for n, kind in enumerate(calls["run"], 1) if kind == "rename"][-6]
        self.command("run", folder, Fault(third, "SIGKILL after"))
        folder.rename(self.reference("run", "interrupted"))
        return calls

    def examine(self, case: Case) -> Verdict:
        """Try a case in a folder of its own."""
        folder = self.home / "work" / f"{os.getpid()}"
        scenario = SCENARIOS[case.scenario]
        if case.damage:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.reference(case.scenario, case.state), folder)
            return Verdict(case, self._damaged(case, folder))
        scenario.prepare(self.home / "inputs", folder)
        if not (case.fault.nth or case.margin or case.lock_error):
            return Verdict(case, self._two(case, folder))
        before = child.limit_memory(case.margin) if case.margin else partial(fail_locks, case.lock_error)
        ended = self.command(case.scenario, folder, case.fault, before=before)
        if case.fault.nth and not ended.has_fired:
            return Verdict(case, None)
        older = self.home / "inputs" / scenario.older if scenario.older else None
        problem = manners(ended, may_die=bool(case.margin) or "SIGKILL" in case.fault.action)
        damaged = harmed(folder, older, self.reference(case.scenario))
        problem = problem or (f"damaged: {damaged}" if damaged else "")
        if not problem and ended.status == 0:
            problem = self.difference(case.scenario, folder, "exit code 0", ignored=(".damaged", TEMPORARY))
        return Verdict(case, problem or self._again(case, folder))

    def _again(self, case: Case, folder: Path) -> str:
        """Run the command without a fault; return what is wrong afterwards."""
        ended = self.command(case.scenario, folder)
        if ended.status or ended.hangs:
            return f"again: exit code {ended.status}: {ended.output[-600:]}"
        return self.difference(case.scenario, folder, "again")

    def difference(
        self, scenario: str, folder: Path, when: str, ignored: tuple[str, ...] = (".damaged",)
    ) -> str:
        """Return in which files a folder differs from that of the undisturbed command."""
        expected, found = outcome(self.reference(scenario)), outcome(folder)
        names = [n for n in {**expected, **found} if expected.get(n, "gone") != found.get(n, "gone")]
        names = [name for name in names if not any(part in name for part in ignored)]
        return f"{when}: differs in {sorted(names)[:5]}" if names else ""

    def _damaged(self, case: Case, folder: Path) -> str:
        """Damage a file; every command has to notice or to repair it."""
        DAMAGES[case.damage](folder / case.file)
        reported = ""  # by `check`, which is needed for files that the command itself does not read
        for run in folder.glob("runs/*[!.]"):
            for words in (["check", f"{run}"], ["runs", f"{folder}/runs"], ["table", f"{run}"]):
                ended = child.run(words, folder, Fault())
                if problem := manners(ended, needs_message=False):
                    return f"{words[0]}: {problem}"
                reported += ended.output if words[0] == "check" and ended.status else ""
        ended = self.command(case.scenario, folder)
        is_reported = SCENARIOS[case.scenario].skips_runs and f"{folder / case.file}: " in reported
        ignored = (".damaged", *([case.file] if is_reported else []))
        different = "" if ended.status else self.difference(case.scenario, folder, "repaired", ignored)
        return manners(ended) or different

    def _two(self, case: Case, folder: Path) -> str:
        """Start a command twice at the same time; one may be refused, and the files have to be the same."""
        words = SCENARIOS[case.scenario].words(self.home / "inputs", folder)
        both = [child.finish(*started) for started in [child.start(words, []) for _ in range(2)]]
        if problem := next(filter(None, map(manners, both)), ""):
            return problem
        return self.difference(case.scenario, folder, "both") or self._again(case, folder)


def manners(ended: Ended, *, may_die: bool = False, needs_message: bool = True) -> str:
    """Return what is wrong with the end of a command: it hangs, has a traceback, dies, or says nothing."""
    if ended.hangs:
        return f"it hangs: {ended.output[-300:]}"
    if "Traceback" in ended.output:
        return f"traceback: {ended.output[-900:]}"
    if ended.status < 0 and not may_die:
        return f"it died of signal {-ended.status}: {ended.output[-300:]}"
    said = re.search(r"^(remnant|failed): |Invalid value for", ended.output, re.M)  # the latter: of an option
    return f"no message: {ended.output[-300:]}" if ended.status > 0 and needs_message and not said else ""


def fail_locks(error: str) -> None:
    """Let file locks fail in this process."""
    if error:
        number = getattr(errno, error)

        def flock(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        fcntl.flock = flock


def cases_of(harness: Harness, calls: dict[str, list[str]]) -> list[Case]:
    """Return all cases."""
    cases = [Case(name, fault) for name, kinds in calls.items() for fault in faults_of(kinds)]
    cases += [Case(name, margin=margin) for name in SCENARIOS for margin in MARGINS]
    cases += [
        Case(name, lock_error=error) for name in SCENARIOS for error in ("ENOLCK", "EOPNOTSUPP", "ENOSYS")
    ]
    cases += [Case(name, attempt=attempt) for name in SCENARIOS for attempt in range(3)]
    for name, state in [*((name, "finished") for name in SCENARIOS), ("run", "interrupted")]:
        folder = harness.reference(name, state)
        files = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
        cases += [Case(name, damage=d, file=file, state=state) for file in files for d in DAMAGES]
    return cases


def table(verdicts: Iterable[Verdict]) -> str:
    """Return the numbers of faults that were tried and survived, as a Markdown table."""
    occurred = [verdict for verdict in verdicts if verdict.problem is not None]
    lines = [["fault", *SCENARIOS, "tried", "survived"], ["---"] * (len(SCENARIOS) + 3)]
    for fault in dict.fromkeys(str(v.case) for v in occurred):
        same = [v for v in occurred if str(v.case) == fault]
        counts = Counter(v.case.scenario for v in same)
        lines.append([fault, *(f"{counts[name] or ''}" for name in SCENARIOS)])
        lines[-1] += [f"{len(same):,}", f"{sum(not v.problem for v in same):,}"]
    total = Counter(v.case.scenario for v in occurred)
    lines.append(["**total**", *(f"{total[name]:,}" for name in SCENARIOS)])
    lines[-1] += [f"{len(occurred):,}", f"{sum(not v.problem for v in occurred):,}"]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sweep(harness: Harness, cases: Sequence[Case], jobs: int, record: Path | None) -> list[Verdict]:
    """Try the cases that are not in the record of an earlier sweep; return the verdicts of all."""
    lines = record.read_text(encoding="utf-8").splitlines() if record and record.exists() else []
    problems = dict(map(json.loads, lines))
    verdicts = [Verdict(case, problems[repr(case)]) for case in cases if repr(case) in problems]
    for verdict in tried(harness.examine, [case for case in cases if repr(case) not in problems], jobs):
        verdicts.append(verdict)
        if record:
            with record.open("a", encoding="utf-8") as file:
                file.write(json.dumps([repr(verdict.case), verdict.problem]) + "\n")
    return verdicts


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the cases, print those that failed and a table; return how many failed."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a sample of the cases only: a few seconds")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th case only")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only cases whose description has this text"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--record", type=Path, metavar="FILE", help="file of verdicts, to resume a sweep")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table to a document")
    options = parser.parse_args(arguments)
    import_everything()
    with tempfile.TemporaryDirectory(prefix="remnant-faults-") as place:
        harness = Harness(Path(place))
        for name in ("finished", "interrupted", "work"):
            (harness.home / name).mkdir()
        server = publish(harness.home / "published")
        try:
            scenarios.write_inputs(harness.home / "inputs")
            cases = cases_of(harness, harness.prepare())
            cases = [c for c in cases if c.scenario in options.scenarios and options.only in f"{c} {c!r}"]
            every = len(cases) // 20 if options.short else options.every
            verdicts = sweep(harness, cases[every // 2 :: every], options.jobs, options.record)
        finally:
            os.kill(server, 9)
            os.waitpid(server, 0)
    text = table(verdicts)
    print(text)
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        options.write.write_text(BLOCK.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", document))
    return min(1, sum(bool(verdict.problem) for verdict in verdicts))


def tried(examine: Callable[[Case], Verdict], cases: Sequence[Case], jobs: int) -> Iterable[Verdict]:
    """Yield the verdicts of all cases, and print those that failed."""
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for number, verdict in enumerate(pool.imap(examine, cases), start=1):
            if verdict.problem:
                print(f"FAILED {verdict.case!r}\n  {verdict.problem}", flush=True)
            if number % 100 == 0:
                print(f"{number} of {len(cases)}", file=sys.stderr, flush=True)
            yield verdict


if __name__ == "__main__":
    sys.exit(main())
