"""What a run would take, measured on a few steps of it that are thrown away."""

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

import torch

from remnant.config import Config
from remnant.experiment import make_the_learner
from remnant.memory import Memory
from remnant.protocol import Event, StepDone
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

    steps: int  # on the stream
    consolidation_epochs: int
    seconds: float
    megabytes: float


def fill(memory: Memory, task: Task, classes: int) -> None:
    """Store rows of the task in every slot."""
    slots = torch.arange(memory.capacity)
    unknown = torch.full((memory.capacity,), torch.nan, dtype=torch.float64)
    rows = task.take(slots % len(task))
    memory.put(slots, rows, task.number, unknown, torch.zeros(memory.capacity, classes))


def seconds_per_step(config: Config, stream: Stream, phase: Phase, steps: int) -> float:
    """Return the median time of a step in this phase, with a memory full of stream rows."""
    learner, task = make_the_learner(config, stream), stream.tasks[0]
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
    learner = make_the_learner(config, stream)
    fit = learner.fit
    if fit is None:
        return 0.0
    fill(learner.memory, stream.tasks[0], len(stream.spec.classes))
    learner.seen.fill_(True)
    fit.task, fit.epoch = 0, fit.how.epochs // 2  # after any warm-up
    fit.how.divide(fit.bench, fit.epoch)  # the first time of all is no measure
    times, planned = timed(fit.run(0), steps)
    return times[0] + median(times[1:] or times) * (planned - 1)


def estimate(config: Config, stream: Stream, steps: int = 6) -> Estimate:
    """Time a few steps of each phase and multiply."""
    planned = [phase for phase in phases(config.the_method().schedule, config.epochs) if phase]
    cost = {phase: seconds_per_step(config, stream, phase, steps) for phase in set(planned)}
    per_epoch = sum(len(even_batches(task.id, config.batch)) for task in stream.tasks)
    fits = len(stream.tasks) * config.consolidation.epochs
    return Estimate(
        steps=per_epoch * len(planned),
        consolidation_epochs=fits,
        seconds=per_epoch * sum(cost[phase] for phase in planned)
        + fits * seconds_per_consolidation_epoch(config, stream, steps),
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
