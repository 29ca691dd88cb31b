"""One experiment, from a config to a run folder: consumes a learner's events, measures, saves.

The runner alone knows of files, signals and the truth. Whatever moment a run is cut at, the same command
continues it, and it ends with the same bytes.
"""

import json
import math
import shutil
import time
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from rich.console import Console

from remnant import checkpoint, evaluate, metrics
from remnant.config import Config
from remnant.errors import Diverged, Interrupted, RemnantError
from remnant.experiment import make_the_learner, make_the_stream, what_was_skipped
from remnant.memory import Memory
from remnant.process import Stop, compute, locked
from remnant.progress import Ahead, Quiet, Screen
from remnant.protocol import STREAM, EpochDone, Learner, Sorted, StepDone
from remnant.result import History, git_commit, memory_file, summarise
from remnant.schedule import Phase
from remnant.stream import Stream


@dataclass(frozen=True)
class Options:
    """What does not change the result."""

    out: Path = Path("runs")
    data_dir: Path | None = None
    force: bool = False  # start over
    save_every: float = 10.0  # seconds between checkpoints; 0: every step
    strict: bool = False  # refuse data of which a file cannot be read


def run(config: Config, options: Options | None = None, screen: Screen | None = None) -> Path:
    """Run an experiment, or the rest of it, and return its folder; without a screen, in silence."""
    options, screen = options or Options(), screen or Quiet(Console(stderr=True))
    with compute(config.threads):
        stream = make_the_stream(config, options.data_dir)
        for line in what_was_skipped(stream, options.strict):
            screen.note(line)
        folder = options.out / config.run_id(stream.fingerprint)
        if is_finished(folder) and not options.force:
            screen.note(f"this run was finished earlier{by_other_code(folder)}; --force repeats it")
            return folder
        with locked(folder):
            if options.force:
                clear(folder)
            if not is_finished(folder):  # another process may have done it meanwhile
                learner = make_the_learner(config, stream)
                Run(config, options, screen, stream, learner, folder).go()
    return folder


def is_finished(folder: Path) -> bool:
    """Whether a run has written its results, which it does last."""
    return (folder / "result.json").exists()


def by_other_code(folder: Path) -> str:
    """Say so if the code may have changed since a run was finished."""
    then, now = json.loads((folder / "result.json").read_text())["git"], git_commit()
    return f", by the code of {then} (now {now})" if then != now or "dirty" in str(now) else ""


def clear(folder: Path) -> None:
    """Remove what an earlier run left in its folder; the results first, so that none outlive it."""
    try:
        (folder / "result.json").unlink(missing_ok=True)
        shutil.rmtree(folder / "checkpoint")
        (folder / "checkpoint").mkdir()
        for path in folder.iterdir():
            if path.is_file() and path.name != ".lock":
                path.unlink()
    except OSError as error:
        raise RemnantError(
            f"{folder}: cannot be cleared ({error.strerror}). Remove it by hand."
        ) from error


class Run:
    """A run in progress."""

    def __init__(
        self, config: Config, options: Options, screen: Screen, stream: Stream, learner: Learner,
        folder: Path,
    ) -> None:  # fmt: skip
        self.config, self.options, self.screen = config, options, screen
        self.stream, self.learner, self.folder = stream, learner, folder
        self.history = History()
        self.since = time.monotonic()  # when history.seconds was brought up to date
        self.saved_at, self.save_cost = time.monotonic(), 0.0
        self.where, self.work = "at the start", STREAM

    def go(self) -> None:
        """Learn all tasks, testing after each; then write the results."""
        self._restore()
        checkpoint.write_atomically(self.folder / "config.toml", self.config.toml().encode())
        self._rewrite_metrics()
        self.screen.begin(self._ahead())
        try:
            with Stop() as stop:
                for number in range(self.history.tasks, len(self.stream.tasks)):
                    self._learn(number, stop)
                    self._test(number)
                    self._save()
        except Diverged as error:
            raise RemnantError(self._post_mortem(str(error))) from error
        finally:
            self.screen.end()
        self._finish()

    def _post_mortem(self, what: str) -> str:
        saved = next(iter(checkpoint.generations(self.folder / "checkpoint")), None)
        key = self.config.learner.rate_of(self.work)
        lr: Any = reduce(getattr, key.split("."), self.config)
        return (
            f"{what}, {self.where}. The last good checkpoint: {saved or 'none yet'}. "
            f"Try a smaller learning rate: --set {key}={lr / 3:.2g}"
        )

    def _learn(self, number: int, stop: Stop) -> None:
        asked = time.monotonic()
        for event in self.learner.learn(self.stream.tasks[number]):
            if isinstance(event, EpochDone):
                self._look(event)
            elif isinstance(event, Sorted):
                self._record({"event": "sorted", **vars(event), "memories": self._memories_report()})
            else:
                self._count(event, time.monotonic() - asked)
                self._show(event)
                if stop.requested:
                    self._stop()
                if self._is_due():
                    self._save()
            asked = time.monotonic()

    def _count(self, event: StepDone, seconds: float) -> None:
        work = "" if event.work == STREAM else f" ({event.work})"
        self.work, history = event.work, self.history
        self.where = f"after step {event.step} of epoch {event.epoch + 1}{work}, task {event.task + 1}"
        history.phase_seconds[event.label] = history.phase_seconds.get(event.label, 0.0) + seconds
        history.planned[event.work] = history.planned.get(event.work, 0.0) + event.share
        self._check_budget()
        history.steps += 1
        history.images += event.images
        if event.loss is not None:
            if not math.isfinite(event.loss):
                raise Diverged(f"the loss became {event.loss}")
            total, rows = history.losses.get(event.work, (0.0, 0))
            history.losses[event.work] = total + event.loss * event.images, rows + event.images

    def _check_budget(self) -> None:
        """Hold a method to the rows it is granted: a larger memory is an unfair comparison."""
        rows = sum(len(memory) for memory in self.learner.memories().values())
        self.history.peak_rows = max(self.history.peak_rows, rows)
        budget = self.config.learner.budget(self.config.buffer)
        if budget is not None and rows > budget:
            raise RemnantError(
                f"{self.config.label} holds {rows} rows, and is granted {budget} with buffer = "
                f"{self.config.buffer}: a fault of the method, {self.where}."
            )

    def _show(self, event: StepDone) -> None:
        memory = self._memory()
        clean = None if memory is None else evaluate.is_clean(memory, self.stream)
        self.screen.step(event, None if clean is None else metrics.purity(clean))

    def _memory(self) -> Memory | None:
        """Return the first memory, the one that is replayed."""
        return next(iter(self.learner.memories().values()), None)

    def _stop(self) -> None:
        path = self._save()
        raise Interrupted(f"stopped {self.where}; saved in {path}\nThe same command goes on from there.")

    def _look(self, event: EpochDone) -> None:
        """Measure at the end of an epoch, before anything is rolled back."""
        history, memory = self.history, self._memory()
        total, rows = history.losses.pop(event.work, (0.0, 0))
        loss = total / rows if rows else None
        facts: dict[str, Any] = {"task": event.task, "epoch": event.epoch}
        if Phase.CONSOLIDATE in event.phase:
            division = None
            if memory is not None and event.division is not None:
                division = evaluate.division_report(event.division, memory, self.stream)
            facts |= {"work": event.work, "loss": loss, "division": division}
            self._record({"event": "consolidation", **facts})
            return
        separation = None
        if memory is not None and Phase.TRAIN in event.phase:
            separation = evaluate.separation(self.learner, memory, self.stream, event.task)
        self._record(
            {
                "event": "epoch",
                **facts,
                "phase": str(event.phase.name).lower(),
                "loss": loss,
                "separation": separation,
                "memory": self._memory_report(event.task),
            }
        )

    def _test(self, number: int) -> None:
        is_joint = len(self.stream.tasks) == 1
        tests = self.stream.tests if is_joint else self.stream.tests[: number + 1]
        measured, names = evaluate.accuracy(self.learner, tests), self.stream.spec.classes
        self._record(
            {
                "event": "task",
                "task": number,
                "accuracy": measured.class_incremental,
                "accuracy_task_incremental": measured.task_incremental,
                "accuracy_per_class": {names[c]: v for c, v in measured.per_class.items()},
                "memory": self._memory_report(number),
                "memories": self._memories_report(),
            }
        )
        self.history.tasks = number + 1

    def _memory_report(self, task: int) -> dict[str, Any] | None:
        memory = self._memory()
        return None if memory is None else evaluate.memory_report(memory, self.stream, task)

    def _memories_report(self) -> dict[str, Any]:
        """Return size and purity of each memory."""
        memories = self.learner.memories()
        clean = {name: evaluate.is_clean(memory, self.stream) for name, memory in memories.items()}
        return {n: {"size": len(c), "purity": metrics.purity(c)} for n, c in clean.items()}

    def _record(self, record: dict[str, Any]) -> None:
        self.history.records.append(record)
        path = self.folder / "metrics.jsonl"
        try:
            with path.open("a") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise RemnantError(
                f"{path}: cannot be written ({error.strerror}). Make room, then run the same "
                "command again: it goes on from the last checkpoint."
            ) from error
        self.screen.record(record)

    def _rewrite_metrics(self) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in self.history.records)
        checkpoint.write_atomically(self.folder / "metrics.jsonl", lines.encode())

    def _ahead(self) -> Ahead:
        config, rows = self.config, [len(task) for task in self.stream.tasks]
        plan = config.the_method().plan(rows, config.epochs, config.batch, config.buffer)
        return Ahead(len(rows), plan, dict(self.history.planned))

    def _is_due(self) -> bool:
        every = self.options.save_every
        # A large state on a slow disk is saved less often: it may take a twentieth of the time.
        pause = max(every, 20 * self.save_cost) if every else 0.0
        return time.monotonic() - self.saved_at >= pause

    def _save(self) -> Path:
        start = time.monotonic()
        self.history.seconds += start - self.since
        self.since = start
        state = {
            "run": self.folder.name,
            "history": vars(self.history),
            "learner": self.learner.state_dict(),
        }
        path = checkpoint.save(self.folder / "checkpoint", state)
        self.saved_at = time.monotonic()
        self.save_cost = self.saved_at - start
        return path

    def _restore(self) -> None:
        folder = self.folder / "checkpoint"
        checkpoint.clear_leftovers(folder)
        checkpoint.clear_leftovers(self.folder)
        state, problems = checkpoint.load(folder, self.folder.name)
        for problem in problems:
            self.screen.note(f"warning: {problem}; the one before it is used")
        if state is not None:
            self.history = History(**state["history"])
            self.learner.load_state_dict(state["learner"])
            self.screen.note(f"going on after step {self.history.steps} of {self.folder}")

    def _finish(self) -> None:
        for name, memory in self.learner.memories().items():
            if len(memory):
                content = memory_file(memory, self.stream)
                checkpoint.write_atomically(self.folder / f"{name}.safetensors", content)
        text = json.dumps(summarise(self.config, self.stream, self.history), indent=1) + "\n"
        checkpoint.write_atomically(self.folder / "result.json", text.encode())
