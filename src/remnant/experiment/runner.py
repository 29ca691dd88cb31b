"""The runner, which processes the events of a learner: it measures, logs and saves.

It handles files, signals and true labels, which learners do not access, and works with any method. A run
that was interrupted is resumed by the same command, with bitwise identical results.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

from remnant.buffer import Buffer
from remnant.config import Config
from remnant.engine.backend import Backend
from remnant.engine.losses import Losses
from remnant.engine.parallel.ranks import check_equal, first_in_turn, on_first
from remnant.errors import Diverged, Interrupted, RemnantError, memory_errors
from remnant.experiment import checkpoint, evaluate
from remnant.experiment.checkpoint import History
from remnant.experiment.finish import write_results
from remnant.experiment.lock import StopSignal
from remnant.experiment.loggers import Logger, RunStart
from remnant.experiment.result import environment, sha256
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import EpochDone, SamplesSplit, StepDone, TaskLearner
from remnant.stream import Stream
from remnant.suspects.collected import Collected


@dataclass(frozen=True)
class Options:
    """Options that do not affect the result."""

    out: Path = Path("runs")
    data_dir: Path | None = None
    force: bool = False  # restart from the beginning
    save_every: float = 10.0  # seconds between checkpoints; 0: every step
    strict: bool = False  # raise if a file of the dataset cannot be read


class Run:
    """A single run, which can be interrupted and resumed."""

    def __init__(
        self, config: Config, options: Options, loggers: Sequence[Logger], stream: Stream,
        learner: TaskLearner, folder: Path, backend: Backend,
    ) -> None:  # fmt: skip
        self.config, self.options, self.loggers = config, options, loggers
        self.stream, self.learner, self.folder, self.ranks = stream, learner, folder, backend.ranks
        self.plan = config.to_method().plan(config.setup(), [len(task) for task in stream.tasks])
        self.history, self.environment, self.losses = History(), environment(backend), Losses()
        self.statistics = Collected()  # of finished tasks
        self.since = time.monotonic()  # when history.seconds was last updated
        self.saved_at, self.save_cost = time.monotonic(), 0.0
        self.where, self.lr_setting = "at the start", "lr"
        self.purity: tuple[int, int, float | None] = -1, -1, None  # with the changes and size of the buffer

    def execute(self) -> None:
        """Resume the run if it has a checkpoint, learn all tasks, and write the results."""
        if not self._restore():
            self._execute()
            return
        what = "the resumed run failed, because its checkpoint was changed or because of a bug"
        with checkpoint.content_errors(f"{self.folder}: {what}"), memory_errors():
            self._execute()

    def _execute(self) -> None:
        """Learn all tasks, evaluate after each, and write the results."""
        self._write("config.toml", self.config.toml().encode())
        history = self.history
        start = RunStart(
            folder=self.folder,
            tasks=len(self.stream.tasks),
            plan=self.plan,
            done=dict(history.planned),
            steps=history.steps,
            records=history.records,
        )
        with ExitStack() as started:
            for logger in self.loggers:
                logger.start(start)
                started.callback(logger.end)
            try:
                self._learn_tasks()
            except Diverged as error:
                raise RemnantError(self._advice(str(error))) from error
        write_results(self._write, self.config, self.stream, self.learner, self.history, self.statistics)

    def _learn_tasks(self) -> None:
        """Learn the remaining tasks, and evaluate after each."""
        history, tasks = self.history, self.stream.tasks
        with StopSignal() as stop:
            if not history.untrained and len(tasks) > 1:  # forward transfer needs a second task
                history.untrained = evaluate.accuracy(self.learner, self.stream.tests).class_incremental
            for number in range(history.tasks, len(tasks)):
                self._learn(number, stop)
                self.statistics.add(number, self.learner.statistics(tasks[number]))
                self._evaluate(number)
                if any(self.ranks.any(self._save_is_due(), number + 1 == len(tasks))):
                    self._save()

    def _advice(self, what: str) -> str:
        saved = next(iter(checkpoint.generations(self.folder / "checkpoint")), None)
        lr: Any = reduce(getattr, self.lr_setting.split("."), self.config)
        advice = f"Try a smaller learning rate: {self.lr_setting}={min(lr / 3, 0.1):.2g}"
        if lr < 1e-6:
            advice = f"{self.lr_setting}={lr:.2g} is small: check the inputs and the network instead."
        return f"{what}, {self.where}. The last valid checkpoint: {saved or 'none yet'}. {advice}"

    def _learn(self, number: int, stop: StopSignal) -> None:
        start = time.monotonic()
        for event in self.learner.learn(self.stream.tasks[number]):
            if isinstance(event, EpochDone):
                self._measure(event)
                check_equal(self.ranks, "the same state", lambda: checkpoint.pack(self.learner.state_dict()))
            elif isinstance(event, SamplesSplit):
                purities = evaluate.buffer_purities(self.learner, self.stream)
                self._record({"event": "split", **vars(event), "buffers": purities})
            else:
                self._count(event, time.monotonic() - start)
                self._log_step(event)
                is_stopped, is_due = self.ranks.any(stop.received, self._save_is_due())
                if is_stopped:
                    self._stop()
                if is_due:
                    self._save()
            start = time.monotonic()

    def _count(self, event: StepDone, seconds: float) -> None:
        kind, history = event.work, self.history
        self.lr_setting = self.plan.works[kind].lr
        self.where = f"after step {event.step} of epoch {event.epoch + 1} ({kind}), task {event.task + 1}"
        history.phase_seconds[kind] = history.phase_seconds.get(kind, 0.0) + seconds
        history.planned[kind] = history.planned.get(kind, 0.0) + event.planned
        self._check_budget()
        history.steps += 1
        history.samples += event.samples
        self.losses.add(kind, event.loss if event.unread is None else event.unread, event.samples)
        if self.losses.are_due:
            self._read_losses()

    def _read_losses(self) -> None:
        """Add up the losses of the last steps; raise Diverged if one is not finite."""
        sums = self.history.losses
        for kind, loss, samples in self.losses.read():
            total, count = sums.get(kind, (0.0, 0))
            sums[kind] = total + loss * samples, count + samples

    def _check_budget(self) -> None:
        """Raise if the buffers hold more samples than the budget, which would make comparisons unfair."""
        stored = sum(len(buffer) for buffer in self.learner.buffers().values())
        self.history.peak_samples = max(self.history.peak_samples, stored)
        budget = self.plan.buffer_budget
        if budget is not None and stored > budget:
            raise RemnantError(
                f"expected at most {budget} samples in all buffers with buffer_size = "
                f"{self.config.buffer_size}, got {stored}, {self.where}: a bug in {self.config.label}."
            )

    def _log_step(self, event: StepDone) -> None:
        buffer = self._buffer()
        if buffer is not None and self.purity[:2] != (buffer.changes, len(buffer)):
            self.purity = buffer.changes, len(buffer), evaluate.purity(buffer, self.stream)
        if event.unread is not None:
            event = replace(event, loss=self.losses.last.get(event.work))
        for logger in self.loggers:
            logger.step(event, self.purity[2])

    def _buffer(self) -> Buffer | None:
        """Return the first buffer, the one that is replayed."""
        return next(iter(self.learner.buffers().values()), None)

    def _stop(self) -> None:
        self._save()
        raise Interrupted(
            f"stopped {self.where}; saved in {self.folder}\nRun the same command again to resume."
        )

    def _measure(self, event: EpochDone) -> None:
        """Record the metrics at the end of an epoch, before anything is rolled back."""
        self._read_losses()
        history, buffer = self.history, self._buffer()
        total, samples = history.losses.pop(event.work, (0.0, 0))
        record: dict[str, Any] = {"task": event.task, "epoch": event.epoch}
        loss = total / samples if samples else None
        if Phase.CONSOLIDATE in event.phase:
            division = None
            if buffer is not None and event.division is not None:
                division = evaluate.division_report(event.division, buffer, self.stream)
            record |= {"work": event.work, "loss": loss, "division": division}
            self._record({"event": "consolidation", **record})
            return
        fit: dict[str, Any] = {**evaluate.NOT_SEPARATED, "stream": None}
        if Phase.TRAIN in event.phase:
            fit = evaluate.fit_report(self.learner, buffer, self.stream, event.task)
        record |= {"phase": event.phase.label, "loss": loss, **fit}
        self._record({"event": "epoch", **record, "buffer": self._buffer_report(event.task)})

    def _evaluate(self, number: int) -> None:
        self._record(evaluate.task_report(self.learner, self.stream, number))
        self.history.tasks = number + 1

    def _buffer_report(self, task: int) -> dict[str, Any] | None:
        buffer = self._buffer()
        return None if buffer is None else evaluate.buffer_report(buffer, self.stream, task)

    def _record(self, record: dict[str, Any]) -> None:
        self.history.records.append(record)
        for logger in self.loggers:
            logger.record(record)

    def _note(self, text: str) -> None:
        for logger in self.loggers:
            logger.note(text)

    def _save_is_due(self) -> bool:
        every = self.options.save_every
        # A large state on a slow disk is saved less often: saving takes at most 5 % of the time.
        pause = max(every, 20 * self.save_cost) if every else 0.0
        return time.monotonic() - self.saved_at >= pause

    def _write(self, name: str, content: bytes) -> None:
        on_first(self.ranks, lambda: checkpoint.write_atomically(self.folder / name, content))

    def _save(self) -> None:
        self._read_losses()
        start = time.monotonic()
        self.history.seconds += start - self.since
        self.since = start
        state = {
            "run": self.folder.name,
            "environment": self.environment,
            "config": sha256(self.config.toml().encode()),
            "history": vars(self.history),
            "learner": self.learner.state_dict(),
            "statistics": self.statistics.state_dict(),
        }
        on_first(self.ranks, lambda: checkpoint.save(self.folder / "checkpoint", state))
        self.saved_at = time.monotonic()
        self.save_cost = self.saved_at - start

    def _restore(self) -> bool:
        """Load the newest checkpoint; return whether there is one."""
        folder = self.folder / "checkpoint"
        for place in (folder, self.folder):
            on_first(self.ranks, partial(checkpoint.clear_leftovers, place))
        with first_in_turn(self.ranks):  # damaged checkpoints are renamed
            state, problems = checkpoint.load(folder, self.folder.name)
        for problem in problems:
            self._note(f"warning: {problem}; the previous one is used")
        if state is not None:
            self._load(state)
            self._note(f"resuming after step {self.history.steps} of {self.folder}")
        position = f"{self.history.steps} {self.environment}"
        check_equal(self.ranks, "the same checkpoint and software", position.encode)
        if self.environment not in self.history.environments:
            self.history.environments.append(self.environment)
        return state is not None

    def _load(self, state: dict[str, Any]) -> None:
        saved, now = state.get("environment"), self.environment
        then = {"ranks": 1} | saved if isinstance(saved, dict) else now
        changed = [f"{k} {v} (before: {then.get(k)})" for k, v in now.items() if then.get(k) != v]
        code = f" It was written with other code: now {', '.join(changed)}." if changed else ""
        what = "expected a checkpoint of this method, but its content does not fit"
        with checkpoint.content_errors(f"{self.folder}: {what}", code):
            self.history = History.restored(state["history"])
            self.learner.load_state_dict(state["learner"])
            self.statistics.load_state_dict(state["statistics"])
        if changed:
            self._note(
                f"warning: this run is resumed with {', '.join(changed)}; its results may not be bitwise "
                "identical to those of an uninterrupted run"
            )
