"""Estimation of the duration and memory of a run, from a few steps that are discarded."""

import resource
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from remnant.config import Config
from remnant.experiment.build import learner_builder
from remnant.methods.protocol import WorkPlan
from remnant.stream import Stream


@dataclass(frozen=True)
class Estimate:
    """Expected duration and memory of a run."""

    seconds: tuple[float, float]  # lowest and highest
    megabytes: float


def estimate(config: Config, stream: Stream) -> Estimate:
    """Time a few steps of each kind and multiply by the planned steps."""
    method, setup = config.to_method(), config.setup()
    works = work_plan(config, [len(task) for task in stream.tasks]).works
    measured = method.time_steps(setup, learner_builder(config, stream), stream.tasks[0])
    ranges = {kind: seconds_per_step(times) for kind, times in measured.items()}
    low, high = (sum(work.steps * ranges.get(k, (0, 0))[end] for k, work in works.items()) for end in (0, 1))
    return Estimate((low, high), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def work_plan(config: Config, samples: Sequence[int]) -> WorkPlan:
    """Return the planned steps for tasks with these numbers of samples."""
    return config.to_method().plan(config.setup(), samples)


def seconds_per_step(times: Sequence[float]) -> tuple[float, float]:
    """Return the quartiles of the measured seconds, at least 20 % below and above their median.

    >>> seconds_per_step([1.0, 1.0, 1.0, 5.0, 5.0]), seconds_per_step([2.0])
    ((0.8, 5.0), (1.6, 2.4))
    """
    low, middle, high = quantiles([times[0], *times] if len(times) == 1 else times, n=4, method="inclusive")
    return min(low, 0.8 * middle), max(high, 1.2 * middle)
