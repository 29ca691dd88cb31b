"""What a run would take, measured on a few steps of it that are thrown away."""

import resource
import time
from dataclasses import dataclass, replace
from statistics import median

import torch

from remnant.config import Config
from remnant.experiment import make_the_learner
from remnant.memory import Memory
from remnant.protocol import StepDone
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

    steps: int
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
    times: list[float] = []
    last = time.perf_counter()
    for event in learner.learn(task):
        now = time.perf_counter()
        if not isinstance(event, StepDone) or len(times) == steps:
            break
        times.append(now - last)
        last = now
    return median(times[1:] or times)


def estimate(config: Config, stream: Stream, steps: int = 6) -> Estimate:
    """Time a few steps of each phase and multiply."""
    planned = phases(config.the_method().schedule, config.epochs)
    cost = {phase: seconds_per_step(config, stream, phase, steps) for phase in set(planned)}
    per_epoch = sum(len(even_batches(task.id, config.batch)) for task in stream.tasks)
    return Estimate(
        steps=per_epoch * config.epochs,
        seconds=per_epoch * sum(cost[phase] for phase in planned),
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
