"""The protocol of the backends that run the jobs of a sweep, and the choice between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from remnant.errors import RemnantError
from remnant.sweep.backends.worker import Job, JobOutcome

BACKENDS = ("local", "ray", "slurm")


class Workers(Protocol):
    """Executes jobs, several at once."""

    def free(self) -> int:
        """Return how many more jobs can be submitted now."""
        ...

    def submit(self, job: Job) -> None:
        """Start a job."""
        ...

    def poll(self, seconds: float) -> Sequence[JobOutcome]:
        """Wait until jobs have ended, at most some seconds, and return their outcomes."""
        ...

    def stop(self) -> None:
        """Ask the active runs to save and end; `poll` returns their outcomes."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


@dataclass(frozen=True)
class Resources:
    """Where and with which resources jobs are run; a backend uses what it needs."""

    backend: str = "local"
    jobs: int = 1  # at once
    address: str | None = None  # of a Ray cluster; None: one is started on this machine
    cpus: int | None = None  # of a run; None: its threads
    gpus: float = 0.0  # of a run
    partition: str | None = None  # of SLURM
    hours: float = 24.0  # limit of a run on SLURM
    cluster: str = "slurm"  # for submitit: slurm, or local for jobs without SLURM


def start_workers(resources: Resources, out: Path) -> Workers:
    """Return the workers of a backend; raise RemnantError if its package is missing."""
    if resources.jobs < 1:
        raise RemnantError(f"jobs: expected at least 1, got {resources.jobs}.")
    folder = out / ".sweep"
    if resources.backend == "local":
        from remnant.sweep.backends.local import LocalWorkers

        return LocalWorkers(resources.jobs, folder)
    if resources.backend == "ray":
        from remnant.sweep.backends.ray import RayWorkers

        return RayWorkers(resources, out)
    if resources.backend == "slurm":
        from remnant.sweep.backends.slurm import SlurmWorkers

        return SlurmWorkers(resources, folder)
    raise RemnantError(f"backend: expected one of {', '.join(BACKENDS)}, got {resources.backend!r}.")
