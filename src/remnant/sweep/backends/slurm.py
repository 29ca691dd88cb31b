"""Workers that are jobs of SLURM, submitted with submitit."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

from remnant.errors import RemnantError
from remnant.sweep.backends import Resources
from remnant.sweep.backends.worker import Job, JobOutcome, work


class SlurmWorkers:
    """A job of SLURM for each run. The run folders have to be on a file system that all nodes share."""

    def __init__(self, resources: Resources, folder: Path) -> None:
        self._resources = resources
        self._executor = _executor(resources, folder / "slurm")
        self._jobs: dict[str, Any] = {}

    def free(self) -> int:
        """Return how many more jobs can be submitted now."""
        return self._resources.jobs - len(self._jobs)

    def submit(self, job: Job) -> None:
        """Submit a job; it uses as many cores as the run has threads, unless another number is given."""
        cores = self._resources.cpus or int(job.config.get("threads", 1))
        if self._resources.cluster == "slurm":
            self._executor.update_parameters(cpus_per_task=cores)
        self._jobs[job.key] = self._executor.submit(work, job)

    def poll(self, seconds: float) -> list[JobOutcome]:
        """Wait until jobs have ended, at most some seconds, and return their outcomes."""
        end = time.monotonic() + seconds
        while not (done := [key for key, job in self._jobs.items() if job.done()]):
            if time.monotonic() > end:
                return []
            time.sleep(min(0.2, seconds))
        return [_outcome(key, self._jobs.pop(key)) for key in done]

    def stop(self) -> None:
        """Cancel all jobs with SIGTERM, after which active runs save."""
        for job in self._jobs.values():
            job.cancel(check=False)

    def close(self) -> None:
        """Cancel what is left."""
        self.stop()
        self._jobs.clear()


def _executor(resources: Resources, folder: Path) -> Any:  # noqa: ANN401
    try:
        import submitit
    except ImportError as error:
        raise RemnantError("backend slurm: expected the package submitit. Install remnant[slurm].") from error
    if resources.cluster == "slurm" and shutil.which("sbatch") is None:
        raise RemnantError(
            "backend slurm: expected the command sbatch, found none. Run the sweep on a login node of SLURM."
        )
    executor = submitit.AutoExecutor(folder=os.fspath(folder.absolute()), cluster=resources.cluster)
    executor.update_parameters(timeout_min=round(60 * resources.hours), name="remnant")
    if resources.cluster == "slurm":
        executor.update_parameters(gpus_per_node=round(resources.gpus), slurm_partition=resources.partition)
    return executor


def _outcome(key: str, job: Any) -> JobOutcome:  # noqa: ANN401
    """Return the outcome of a job that has ended; a job that left none was killed or cancelled."""
    import submitit

    try:
        outcome: JobOutcome = job.result()
    except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return JobOutcome(key, "lost", error=f"its SLURM job ended without an answer: {reason}")
    return outcome
