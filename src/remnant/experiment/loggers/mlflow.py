"""MLflow: the settings of a run, and its metrics after each epoch and task."""

import contextlib
import logging
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from remnant.errors import RemnantError
from remnant.experiment.loggers import Logger, RunStart
from remnant.methods.protocol import StepDone

EXPERIMENT = "remnant"
RUN, RECORDS = "remnant.run", "remnant.records"  # tags: name of the run folder, and records written so far


class MLflow(Logger):
    """Writes to the server in MLFLOW_TRACKING_URI, or to the database mlflow.db beside the run folder.

    A resumed run continues its MLflow run: records that it has already are not written again. They are
    identical, because a resumed run repeats them bit for bit. A run that starts again gets a new MLflow run.
    """

    def __init__(self) -> None:
        """Import MLflow now, so that a missing package is reported before the run starts."""
        try:
            import sqlalchemy  # noqa: F401
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise RemnantError(
                f"MLflow requires the package {error.name}, which is not installed. Install it: "
                "pip install 'remnant[mlflow]'."
            ) from error
        self._new_client, self._metric, self._param = MlflowClient, Metric, Param
        logging.getLogger("alembic").setLevel(logging.WARNING)  # which reports every table that it creates
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)

    def start(self, run: RunStart) -> None:
        """Create an MLflow run, or find that of a run that is resumed."""
        place = run.folder.parent.resolve()
        address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{place / 'mlflow.db'}"
        try:
            self._client = self._new_client(tracking_uri=address)
            self._id = self._find_run(run, place)
            self._client.update_run(self._id, status="RUNNING")
        except Exception as error:  # a server or database can fail in any way
            raise RemnantError(
                f"MLflow: expected a tracking store at {address}, but it cannot be used ({error!s:.300}). "
                "Set MLFLOW_TRACKING_URI, or run without --mlflow."
            ) from error
        tags = self._client.get_run(self._id).data.tags
        self._written, self._count = int(tags.get(RECORDS, 0)), len(run.records)
        self._steps, self._tasks = run.steps, run.tasks
        self._is_finished = False

    def _find_run(self, start: RunStart, place: Path) -> str:
        """Return the id of the last MLflow run of a run that is resumed, otherwise that of a new one."""
        folder = start.folder
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            artifacts = (place / "mlartifacts").as_uri()
            id = self._client.create_experiment(EXPERIMENT, artifact_location=artifacts)
        else:
            id = experiment.experiment_id
        found = self._client.search_runs([id], filter_string=f"tags.`{RUN}` = '{folder.name}'", max_results=1)
        if found and start.steps:
            return str(found[0].info.run_id)
        run = self._client.create_run(id, run_name=folder.name, tags={RUN: folder.name})
        config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
        params = [self._param(key, f"{value}"[:500]) for key, value in _settings(config)]
        self._client.log_batch(run.info.run_id, params=params)
        return str(run.info.run_id)

    def step(self, event: StepDone, purity: float | None) -> None:
        """Count the step: metrics have the number of finished steps on the x axis."""
        self._steps += 1

    def record(self, record: dict[str, Any]) -> None:
        """Write the metrics of an epoch or a task, unless the MLflow run has them."""
        self._count += 1
        self._is_finished = record["event"] == "task" and record["task"] + 1 == self._tasks
        if self._count <= self._written:
            return
        metrics = [self._metric(k, v, 0, self._steps) for k, v in _metrics(record) if v is not None]
        try:
            self._client.log_batch(self._id, metrics=metrics)
            self._client.set_tag(self._id, RECORDS, str(self._count))
        except Exception as error:  # a server or database can fail in any way
            raise RemnantError(
                f"MLflow: expected to write metrics, but the tracking store failed ({error!s:.300}). Run the "
                "same command again to resume from the last checkpoint, or run without --mlflow."
            ) from error

    def end(self) -> None:
        """Set the state of the MLflow run; a server that fails now must not hide why the run has ended."""
        with contextlib.suppress(Exception):
            self._client.set_terminated(self._id, "FINISHED" if self._is_finished else "KILLED")


def _settings(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all settings by name; those of a component as `component.setting`."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _metrics(record: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Yield the metrics of a record by the names that TensorBoard shows, too."""
    if record["event"] == "epoch":
        yield "epoch/loss", record["loss"]
        yield from ((f"buffer/{key}", record[key]) for key in ("separation", "loss_clean", "loss_noisy"))
        yield from ((f"stream/{key}", value) for key, value in (record["stream"] or {}).items())
        yield "buffer/purity", (record["buffer"] or {}).get("purity")
    if record["event"] == "task":
        yield from ((f"accuracy/task {n + 1}", value) for n, value in enumerate(record["accuracy"]))
        yield "accuracy/mean", sum(record["accuracy"]) / len(record["accuracy"])
