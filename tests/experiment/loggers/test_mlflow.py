import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import tiny_config
from run_helpers import StopAt, records

from remnant.errors import Interrupted, RemnantError
from remnant.experiment.loggers.mlflow import MLflow
from remnant.experiment.run import execute
from remnant.experiment.runner import Options

tracking = pytest.importorskip("mlflow.tracking")
pytest.importorskip("sqlalchemy")

CONFIG = {"epochs": 2, "tasks": 2}


def histories(client, id: str) -> dict[str, list[tuple[int, float]]]:  # noqa: ANN001
    """Return steps and values of each metric."""
    names = client.get_run(id).data.metrics
    return {name: [(m.step, m.value) for m in client.get_metric_history(id, name)] for name in names}


@pytest.mark.slow
def test_a_resumed_run_continues_its_mlflow_run_with_each_value_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/shared.db")
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/shared.db")
    config = tiny_config(**CONFIG)
    with pytest.raises(Interrupted):
        execute(config, Options(out=tmp_path / "cut"), [MLflow(), StopAt(11)])
    experiment = client.get_experiment_by_name("remnant").experiment_id
    (found,) = client.search_runs([experiment])
    assert found.info.status == "KILLED"
    folder = execute(config, Options(out=tmp_path / "cut"), [MLflow()])
    (run,) = client.search_runs([experiment])
    assert run.info.status == "FINISHED"
    assert run.info.run_name == folder.name
    assert run.data.params["method"] == "aer-abs"
    assert run.data.params["noise.rate"] == "0.4"
    values = histories(client, found.info.run_id)
    epochs, tasks = records(folder, "epoch"), records(folder, "task")
    assert [value for _, value in values["epoch/loss"]] == pytest.approx([e["loss"] for e in epochs])
    assert [value for _, value in values["buffer/purity"]] == [e["buffer"]["purity"] for e in epochs]
    assert values["accuracy/task 2"][0][1] == tasks[-1]["accuracy"][1]
    steps = [step for step, _ in values["epoch/loss"]]
    assert steps == sorted(set(steps))
    execute(config, Options(out=tmp_path / "cut", force=True), [MLflow()])
    assert len(client.search_runs([experiment])) == 2


def test_a_store_that_cannot_be_used_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://store")
    with pytest.raises(RemnantError, match="MLFLOW_TRACKING_URI"):
        execute(tiny_config(**CONFIG), Options(out=tmp_path), [MLflow()])


def test_a_server_that_fails_during_a_run_is_an_error_and_does_not_hide_others() -> None:
    def fail(*args: object, **options: object) -> None:
        raise ConnectionError("no route")

    logger = MLflow()
    logger._client, logger._id = SimpleNamespace(log_batch=fail, set_terminated=fail), "1"
    logger._written = logger._count = logger._steps = 0
    logger._tasks = 2
    with pytest.raises(RemnantError, match=r"tracking store failed \(no route\)"):
        logger.record({"event": "task", "task": 0, "accuracy": [50.0]})
    logger.end()


@pytest.mark.parametrize(("task", "state"), [(0, "KILLED"), (1, "FINISHED")])
def test_a_run_is_finished_after_its_last_task_only(task: int, state: str) -> None:
    states = list[str]()
    ignore = SimpleNamespace(log_batch=lambda *_, **__: None, set_tag=lambda *_: None)
    logger = MLflow()
    logger._client = SimpleNamespace(**vars(ignore), set_terminated=lambda _, found: states.append(found))
    logger._id, logger._tasks = "1", 2
    logger._written = logger._count = logger._steps = 0
    logger.record({"event": "task", "task": task, "accuracy": [50.0]})
    logger.end()
    assert states == [state]


def test_a_missing_package_is_an_error_before_the_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mlflow", "mlflow.entities", "mlflow.tracking"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RemnantError, match=r"pip install 'remnant\[mlflow\]'"):
        MLflow()
