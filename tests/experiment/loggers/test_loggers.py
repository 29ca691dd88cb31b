from pathlib import Path
from typing import Any

from conftest import tiny_config

from remnant.experiment.loggers import Logger, RunStart
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.methods.protocol import StepDone


class Recorder(Logger):
    """Records the calls that it receives."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.purities: list[float | None] = []

    def start(self, run: RunStart) -> None:
        self.calls.append(f"start {run.tasks} tasks after {run.steps} steps, {len(run.records)} records")
        self.run = run

    def step(self, event: StepDone, purity: float | None) -> None:
        self.calls.append("step")
        self.purities.append(purity)

    def record(self, record: dict[str, Any]) -> None:
        self.calls.append(record["event"])

    def end(self) -> None:
        self.calls.append("end")


class NotesOnly(Logger):
    """Uses one method of the base class and ignores the others."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_several_loggers_receive_the_progress_of_a_run(tmp_path: Path) -> None:
    a, b, notes = Recorder(), Recorder(), NotesOnly()
    config = tiny_config(method="er", epochs=1, tasks=2, per_class=4)
    folder = execute(config, Options(out=tmp_path), [a, notes, b])
    assert a.calls == b.calls
    steps = sum(work.steps for work in a.run.plan.works.values())
    assert a.calls.count("step") == steps > 2
    assert [call for call in a.calls if call != "step"] == [
        "start 2 tasks after 0 steps, 0 records",
        *("epoch", "task") * 2,
        "end",
    ]
    assert a.run.folder == folder
    assert all(purity is None or 0 <= purity <= 100 for purity in a.purities)
    assert a.purities[-1] is not None
    assert notes.notes == []
    execute(config, Options(out=tmp_path), [a, notes])
    assert len(notes.notes) == 1  # finished; nothing else is called
    assert a.calls == b.calls


def test_a_logger_without_methods_can_be_used(tmp_path: Path) -> None:
    class Nothing(Logger):
        pass

    assert execute(tiny_config(method="finetune", epochs=1), Options(out=tmp_path), [Nothing()]).is_dir()
