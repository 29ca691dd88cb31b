"""Statistics of finished tasks, and the suspects of whole runs."""

import csv
from pathlib import Path

import pytest
from conftest import same, tiny_config, tiny_learner, tiny_stream
from run_helpers import RunIn, result

from remnant.experiment.checkpoint import pack, unpack
from remnant.methods.registry import ER
from remnant.suspects.collected import Collected


def test_evidence_covers_every_sample_of_every_learned_task() -> None:
    stream = tiny_stream()
    learner, collected = tiny_learner(ER, stream, epochs=1), Collected()
    for task in stream.tasks[:2]:
        list(learner.learn(task))
        collected.add(task.number, learner.statistics(task))
    found = collected.evidence(stream.tasks, learner.predict)
    assert [e.statistics.id.tolist() for e in found] == [t.id.tolist() for t in stream.tasks[:2]]
    assert [e.task.unique().tolist() for e in found] == [[0], [1]]


def test_the_state_survives_a_checkpoint() -> None:
    stream = tiny_stream()
    learner, collected, other = tiny_learner(ER, stream, epochs=1), Collected(), Collected()
    list(learner.learn(stream.tasks[0]))
    collected.add(0, learner.statistics(stream.tasks[0]))
    other.load_state_dict(unpack(pack(collected.state_dict())))
    assert same(vars(other.tasks[0]), vars(collected.tasks[0]))


def read(folder: Path) -> list[dict[str, str]]:
    with (folder / "suspects.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_lists_every_sample_once_and_measures_the_detection(run_in: RunIn) -> None:
    folder = run_in(tiny_config(tasks=2))
    table, found = read(folder), result(folder)["suspects"]
    assert sorted(int(row["id"]) for row in table) == sorted({int(row["id"]) for row in table})
    assert len(table) == found["samples"] == 120
    assert sum(row["is_suspect"] == "true" for row in table) == found["suspect"]
    assert [float(row["score"]) for row in table] == sorted(float(row["score"]) for row in table)
    assert sum(row["in_buffer"] == "true" for row in table) == 20
    assert 0.5 < found["auroc"] <= 1
    assert found["scores"][found["score"]]["auroc"] == found["auroc"]
    assert "forgetting-rise" in found["scores"]
    assert result(folder)["files"].keys() >= {"suspects.csv"}


@pytest.mark.parametrize("method", ["gdumb"])
def test_a_method_that_does_not_train_on_the_stream_lists_none(method: str, run_in: RunIn) -> None:
    folder = run_in(tiny_config(tasks=2, method=method, consolidation={"epochs": 3}))
    assert result(folder)["suspects"] is None
    assert not (folder / "suspects.csv").exists()
