"""Estimation of the duration and memory of a run, from a few steps that are discarded."""

import resource
from dataclasses import dataclass

from remnant.config import Config
from remnant.experiment.build import learner_builder
from remnant.methods.protocol import WorkPlan
from remnant.stream import Stream


@dataclass(frozen=True)
class Estimate:
    """Expected duration and memory of a run."""

    plan: WorkPlan
    seconds: float
    megabytes: float


def estimate(config: Config, stream: Stream) -> Estimate:
    """Time a few steps of each kind and multiply by the planned steps."""
    method, setup = config.to_method(), config.setup()
    plan = method.plan(setup, [len(task) for task in stream.tasks])
    seconds = method.time_steps(setup, learner_builder(config, stream), stream.tasks[0])
    total = sum(work.steps * seconds.get(kind, 0.0) for kind, work in plan.works.items())
    return Estimate(plan, total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
