"""What a run would take, measured on a few steps of it that are thrown away."""

import math
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

import torch

from remnant.config import Config
from remnant.experiment import make_the_learner, make_the_replay_learner
from remnant.memory import Memory
from remnant.methods import Replay
from remnant.protocol import Event, Plan, StepDone
from remnant.schedule import Phase, phases
from remnant.stream import Stream, Task, even_batches


@dataclass(frozen=True)
class Only:
    """A schedule of one phase."""

    phase: Phase

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase."""
        return self.phase


@dataclass(frozen=True)
class Estimate:
    """What is to be expected."""

    plan: Plan
    seconds: float
    megabytes: float


def fill(memory: Memory, task: Task, classes: int) -> None:
    """Store rows of the task in every slot."""
    slots = torch.arange(memory.capacity)
    rows = task.take(slots % len(task))
    rows = replace(rows, id=-2 - slots)  # of none that will come: those would not be offered
    memory.put(slots, rows, task.number, logits=torch.zeros(memory.capacity, classes))


def seconds_per_step(config: Config, stream: Stream, phase: Phase, steps: int) -> float:
    """Return the median time of a step in this phase, with a memory full of stream rows."""
    learner, task = make_the_replay_learner(config, stream), stream.tasks[0]
    learner.method = replace(learner.method, schedule=Only(phase))
    fill(learner.memory, task, len(stream.spec.classes))
    # As many candidates as half of the first task brings: that is how rarely one is accepted.
    learner.memory.candidates = learner.method.insertion.count(len(task)) * config.epochs // 2
    times, _ = timed(learner.learn(task), steps)
    return median(times[1:] or times)


def timed(events: Iterator[Event], steps: int) -> tuple[list[float], int]:
    """Return the seconds of the first steps of an epoch, and how many steps it has."""
    times, planned, last = list[float](), 0, time.perf_counter()
    for event in events:
        now = time.perf_counter()
        if not isinstance(event, StepDone) or len(times) == steps:
            break
        times.append(now - last)
        last, planned = now, event.steps
    return times, planned


def seconds_per_consolidation_epoch(config: Config, stream: Stream, steps: int) -> float:
    """Return the time of an epoch over a full memory, from its first steps: they come after dividing."""
    learner = make_the_replay_learner(config, stream)
    fit = learner.fit
    if fit is None:
        return 0.0
    fill(learner.memory, stream.tasks[0], len(stream.spec.classes))
    learner.seen.fill_(True)
    fit.task, fit.epoch = 0, fit.how.epochs - 1  # after any warm-up
    fit.how.divide(fit.bench, fit.epoch)  # the first time of all is no measure
    times, planned = timed(fit.run(0), steps)
    return times[0] + median(times[1:] or times) * (planned - 1)


def seconds_of_each_work(config: Config, stream: Stream) -> dict[str, float]:
    """Return the median time of a step of each kind, rehearsed on the first rows of the stream."""
    assert not isinstance(config.learner, Replay)
    task, delay = stream.tasks[0], config.learner.sized(config.buffer).delay
    task = replace(task, id=task.id[:delay], y=task.y[:delay])  # enough for one delay to be full
    epochs = math.ceil(delay / len(task))
    short = config.model_copy(update={"learner": config.learner.rehearsed(), "epochs": epochs})
    times: dict[str, list[float]] = {}
    last = time.perf_counter()
    for event in make_the_learner(short, stream).learn(task):
        now = time.perf_counter()
        if isinstance(event, StepDone):
            times.setdefault(event.work, []).append(now - last)
        last = time.perf_counter()
    return {work: median(spent[1:] or spent) for work, spent in times.items()}


def estimate(config: Config, stream: Stream, steps: int = 6) -> Estimate:
    """Time a few steps of each kind and multiply."""
    method, rows = config.the_method(), [len(task) for task in stream.tasks]
    plan = method.plan(rows, config.epochs, config.batch, config.buffer)
    if isinstance(config.learner, Replay):
        seconds = replay_seconds(config, stream, steps)
    else:
        cost = seconds_of_each_work(config, stream)
        seconds = sum(work.steps * cost.get(name, 0.0) for name, work in plan.items())
    return Estimate(plan, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def replay_seconds(config: Config, stream: Stream, steps: int) -> float:
    """Return what a method of the six choices takes."""
    planned = [phase for phase in phases(config.schedule, config.epochs) if phase]
    cost = {phase: seconds_per_step(config, stream, phase, steps) for phase in set(planned)}
    per_epoch = sum(len(even_batches(task.id, config.batch)) for task in stream.tasks)
    fits = len(stream.tasks) * config.consolidation.epochs
    return per_epoch * sum(cost[phase] for phase in planned) + (
        fits * seconds_per_consolidation_epoch(config, stream, steps)
    )
