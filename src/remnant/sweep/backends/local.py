"""Workers that are processes of this machine."""

import json
import os
import selectors
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from remnant.errors import RemnantError
from remnant.settings import check_regular
from remnant.sweep.backends.worker import Job, JobOutcome

COMMAND = [sys.executable, "-P", "-c", "from remnant.sweep.backends.worker import main; main()"]


@dataclass
class WorkerProcess:
    """A process that executes one job after another."""

    process: subprocess.Popen[bytes]
    key: str | None = None  # of the job it executes
    text: bytes = field(default=b"", repr=False)  # of an answer that is not complete

    def send(self, job: Job) -> None:
        """Start a job."""
        assert self.process.stdin is not None
        self.key = job.key
        self.process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> JobOutcome | None:
        """Return the outcome of the job, or None if the answer is not complete."""
        assert self.process.stdout is not None
        part = os.read(self.process.stdout.fileno(), 1 << 16)
        self.text += part
        if not part:
            return JobOutcome(str(self.key), "lost", error=f"its worker process {self._end()}")
        if not self.text.endswith(b"\n"):
            return None
        outcome = JobOutcome(**json.loads(self.text))
        self.key, self.text = None, b""
        return outcome

    def _end(self) -> str:
        code = self.process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


class LocalWorkers:
    """Processes that are started when they are needed, and replaced when they die."""

    def __init__(self, jobs: int, folder: Path) -> None:
        log = folder / "workers.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            check_regular(log)
            self._jobs, self._log = jobs, log.open("ab")
        except OSError as error:
            raise RemnantError(
                f"{log}: cannot be written ({error.strerror}). Remove it, or use --out."
            ) from error
        self._workers: list[WorkerProcess] = []
        self._selector = selectors.DefaultSelector()

    def free(self) -> int:
        """Return how many more jobs can be submitted now."""
        return self._jobs - sum(worker.key is not None for worker in self._workers)

    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        return [worker.process.pid for worker in self._workers]

    def submit(self, job: Job) -> None:
        """Start a job in an idle process, or in a new one."""
        idle = (worker for worker in self._workers if worker.key is None)
        worker = next(idle, None) or self._new()
        try:
            worker.send(job)
        except BrokenPipeError:  # it died while it was idle
            self._remove(worker)
            self._new().send(job)

    def _new(self) -> WorkerProcess:
        pipe = subprocess.PIPE
        worker = WorkerProcess(subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=self._log))
        assert worker.process.stdout is not None
        self._workers.append(worker)
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        return worker

    def _remove(self, worker: WorkerProcess) -> None:
        assert worker.process.stdout is not None
        self._selector.unregister(worker.process.stdout)
        self._workers.remove(worker)
        worker.process.wait()

    def poll(self, seconds: float) -> list[JobOutcome]:
        """Wait until jobs have ended, at most some seconds, and return their outcomes."""
        outcomes = []
        for key, _ in self._selector.select(seconds):
            worker: WorkerProcess = key.data
            had_a_job = worker.key is not None
            outcome = worker.receive()
            if outcome is not None and outcome.state == "lost":
                self._remove(worker)
            if outcome is not None and had_a_job:
                outcomes.append(outcome)
        return outcomes

    def stop(self) -> None:
        """Ask the active runs to save and end."""
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.terminate()

    def close(self) -> None:
        """End the processes."""
        for worker in list(self._workers):
            assert worker.process.stdin is not None
            worker.process.stdin.close()  # an idle process ends
            if worker.key is not None:
                worker.process.terminate()
            self._remove(worker)
        self._selector.close()
        self._log.close()
