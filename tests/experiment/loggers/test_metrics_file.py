import json
from pathlib import Path

import pytest
from conftest import tiny_config
from run_helpers import StopAt

from remnant.errors import Interrupted, RemnantError
from remnant.experiment.loggers import RunStart
from remnant.experiment.loggers.metrics_file import MetricsFile
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.methods.protocol import WorkPlan


def start(*records: dict[str, object]) -> RunStart:
    return RunStart(Path("run"), 2, WorkPlan({}, None), {}, 0, records)


def test_records_are_appended_and_those_after_the_checkpoint_are_discarded(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    first.start(start())
    for number in range(3):
        first.record({"event": "epoch", "epoch": number})
    resumed = MetricsFile(path)
    resumed.start(start({"event": "epoch", "epoch": 0}))
    resumed.record({"event": "epoch", "epoch": 1})
    assert [json.loads(line)["epoch"] for line in path.read_text().splitlines()] == [0, 1]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"cannot be written \(Is a directory\).*same command again"):
        MetricsFile(tmp_path).record({"event": "task"})


def test_a_resumed_run_has_each_line_once(tmp_path: Path) -> None:
    config = tiny_config(epochs=2, tasks=2)
    whole = execute(config, Options(out=tmp_path / "whole"), [])
    for steps in (3, 10):
        with pytest.raises(Interrupted):
            execute(config, Options(out=tmp_path / "cut"), [StopAt(steps)])
    cut = execute(config, Options(out=tmp_path / "cut"), [])
    assert (cut / "metrics.jsonl").read_text() == (whole / "metrics.jsonl").read_text()
