"""What tests of sweeps need: tiny grids, and workers without processes."""

from collections import deque
from pathlib import Path
from typing import Any

from remnant.sweep.backends import Resources
from remnant.sweep.backends.worker import Job, JobOutcome, work

TINY_GRID: dict[str, Any] = {
    "noise": "symmetric:0.4", "per_class": 12, "net": "small:4", "epochs": 2, "buffer_size": 20, "batch": 8,
    "split": [[5, 5]],
}  # fmt: skip


class InlineWorkers:
    """Executes a job when it is polled, in this process; `outcomes` replace those of the first jobs."""

    def __init__(self, *outcomes: str) -> None:
        self.jobs: deque[Job] = deque()
        self.seen: list[Job] = []
        self._outcomes = deque(outcomes)

    def free(self) -> int:
        return 1 - len(self.jobs)

    def submit(self, job: Job) -> None:
        self.jobs.append(job)
        self.seen.append(job)

    def poll(self, seconds: float) -> list[JobOutcome]:
        if not self.jobs:
            return []
        job = self.jobs.popleft()
        if self._outcomes:
            return [JobOutcome(job.key, self._outcomes.popleft(), error="as the test wants it")]
        return [work(job)]

    def stop(self) -> None:
        return

    def close(self) -> None:
        return


def inline(*outcomes: str) -> Any:  # noqa: ANN401
    """Return a replacement of `start_workers`."""
    workers = InlineWorkers(*outcomes)

    def start(resources: Resources, out: Path) -> InlineWorkers:
        return workers

    return start
