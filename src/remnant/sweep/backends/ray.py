"""Workers that are tasks of a Ray cluster."""

import os
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from remnant.errors import RemnantError
from remnant.extensions import with_moved_paths
from remnant.sweep.backends import Resources
from remnant.sweep.backends.worker import Job, JobOutcome, work

SHIPPED_WITHOUT = (".git", ".venv", "runs", "results", "*.safetensors", "*.npz")  # of the working directory


class RayWorkers:
    """A task of Ray for each run, on this machine or on those of a cluster.

    The working directory is sent to a cluster, so that extension files are found there, and the results are
    sent back.
    """

    def __init__(self, resources: Resources, out: Path) -> None:
        self._ray, self._resources = _connected(resources, out), resources
        self._tasks: dict[Any, str] = {}
        self._mark = out.absolute() / ".sweep" / f"machine-{uuid.uuid4().hex}"  # seen where `out` is shared
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        self._mark.touch()

    def free(self) -> int:
        """Return how many more jobs can be submitted now."""
        return self._resources.jobs - len(self._tasks)

    def submit(self, job: Job) -> None:
        """Submit a task; on a cluster it has as many cores as threads, unless another number is given."""
        threads = 1 if self._resources.address is None else int(job.config.get("threads", 1))
        cores = self._resources.cpus or threads
        options = {"num_cpus": cores, "num_gpus": self._resources.gpus, "max_retries": 0, "name": "remnant"}
        remote = self._ray.remote(**options)(_work)
        self._tasks[remote.remote(job, os.getcwd(), str(self._mark))] = job.key

    def poll(self, seconds: float) -> list[JobOutcome]:
        """Wait until tasks have ended, at most some seconds, and return their outcomes."""
        if not self._tasks:
            time.sleep(seconds)
            return []
        done, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        return [self._outcome(task, self._tasks.pop(task)) for task in done]

    def _outcome(self, task: Any, key: str) -> JobOutcome:  # noqa: ANN401
        try:
            outcome: JobOutcome = self._ray.get(task)
        except self._ray.exceptions.TaskCancelledError:
            return JobOutcome(key, "stopped", error="its Ray task was cancelled")
        except self._ray.exceptions.RayError as error:  # its process or its machine died
            return JobOutcome(key, "lost", error=f"its Ray task ended with {type(error).__name__}")
        return outcome

    def stop(self) -> None:
        """Interrupt all tasks, after which active runs save."""
        for task in self._tasks:
            self._ray.cancel(task, force=False)

    def close(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()
        self._mark.unlink(missing_ok=True)


def _connected(resources: Resources, out: Path) -> Any:  # noqa: ANN401
    try:
        import ray
    except ImportError as error:
        raise RemnantError("backend ray: expected the package ray. Install remnant[ray].") from error
    options: dict[str, Any] = {"log_to_driver": False, "include_dashboard": False, "logging_level": "ERROR"}
    if resources.address is not None:
        left_out = [*SHIPPED_WITHOUT, str(out)]
        environment = {"working_dir": os.getcwd(), "excludes": left_out}
        options = {"address": resources.address, "log_to_driver": False, "runtime_env": environment}
    else:
        options["num_cpus"] = resources.jobs * (resources.cpus or 1)
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = resources.address or "this machine"
        raise RemnantError(f"backend ray: expected a Ray cluster at {where}, but {error}") from error
    return ray


def _work(job: Job, root: str, mark: str) -> JobOutcome:
    """Run a job on a machine of the cluster; return the files of the run if they have to be sent back."""
    is_shared = os.path.exists(mark)
    config = job.config if is_shared else with_moved_paths(job.config, Path(root), Path.cwd())
    outcome = work(replace(job, config=config))
    if is_shared or outcome.folder is None:
        return outcome
    folder = Path(job.out, outcome.folder)
    names = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "checkpoint"]
    ordered = sorted(names, key=lambda path: path.name == "result.json")  # the results are the last
    files = {str(path.relative_to(folder)): path.read_bytes() for path in ordered}
    return replace(outcome, files={name: text for name, text in files.items() if name != ".lock"})
