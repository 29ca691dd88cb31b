"""metrics.jsonl: one line for each epoch, consolidation epoch, split of samples and task."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remnant.errors import RemnantError
from remnant.experiment.checkpoint import write_atomically
from remnant.experiment.loggers import Logger, RunStart


def metrics_lines(records: Sequence[dict[str, Any]]) -> bytes:
    """Return the content of metrics.jsonl."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


class MetricsFile(Logger):
    """Appends each record to a file, which is rewritten when a run resumes, so that no line is duplicated."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, run: RunStart) -> None:
        """Write the records so far."""
        write_atomically(self.path, metrics_lines(run.records))

    def record(self, record: dict[str, Any]) -> None:
        """Append a line."""
        try:
            with self.path.open("ab") as file:
                file.write(metrics_lines([record]))
        except OSError as error:
            raise RemnantError(
                f"{self.path}: cannot be written ({error.strerror}). Free some disk space, then "
                "run the same command again to resume from the last checkpoint."
            ) from error
