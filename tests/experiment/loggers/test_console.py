import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from remnant.experiment.loggers import RunStart, console as module
from remnant.experiment.loggers.console import (
    Lines,
    Live,
    Quiet,
    Speed,
    Warnings,
    console_logger,
    duration,
    epoch_line,
    progress_logger,
)
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import StepDone, Work, WorkPlan


def start(learn: int = 80, consolidate: int = 14, done: float = 0.0) -> RunStart:
    works = {"learn": Work(learn, 4), "write": Work(8, 4), "consolidate": Work(consolidate, 7)}
    return RunStart(Path("run"), 2, WorkPlan(works, 100), {"learn": done}, 0, [])


def step(phase: Phase = Phase.LEARN, planned: float = 1.0, loss: float | None = 0.5) -> StepDone:
    kind = "consolidate" if phase is Phase.CONSOLIDATE else ""
    return StepDone(0, 2, 1, 2, phase, loss, 32, planned, kind)


def epoch(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    facts = {"task": 0, "epoch": 2, "phase": "learn", "loss": 0.25, "separation": 0.75}
    return {"event": "epoch", "buffer": {"size": 9, "purity": 90.0}, **facts, **changes}


def consolidation(number: int, division: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    facts = {"task": 0, "epoch": number, "loss": 0.25, "division": division}
    return {"event": "consolidation", "work": "consolidate", **facts}


TASK = {"event": "task", "task": 1, "accuracy": [12.34, 100.0]}


def speed_of(run: RunStart, *times: float) -> Speed:
    clock = iter(times)
    return Speed(run, lambda: next(clock))


def test_the_remaining_time_considers_that_two_kinds_of_steps_have_different_costs() -> None:
    plan = WorkPlan({"learn": Work(10, 1), "consolidate": Work(4, 2)}, None)
    speed = speed_of(RunStart(Path("run"), 1, plan, {}, 0, []), 0.0, 1.0, 2.0, 5.0, 5.0)
    speed.add(step())
    assert speed.left == "13 s"  # 9 + 4 steps left, each of them a second as far as is known
    speed.add(step())
    speed.add(step(Phase.CONSOLIDATE))
    assert speed.left == "17 s"  # 8 steps of one second and 3 steps of three seconds


def test_the_remaining_time_considers_the_steps_of_an_earlier_process() -> None:
    plan = WorkPlan({"learn": Work(10, 1)}, None)
    speed = speed_of(RunStart(Path("run"), 1, plan, {"learn": 6}, 6, []), 0.0, 1.0)
    speed.add(step())
    assert speed.left == "3 s"


def test_a_step_that_stands_for_several_planned_ones_counts_as_those() -> None:
    plan = WorkPlan({"consolidate": Work(8, 2)}, None)
    speed = speed_of(RunStart(Path("run"), 1, plan, {}, 0, []), 0.0, 1.0)
    speed.add(step(Phase.CONSOLIDATE, planned=4.0))
    assert speed.left == "1 s"


def test_samples_per_second_are_those_of_all_steps() -> None:
    speed = speed_of(start(), 0.0, 1.0, 3.0, 4.0)
    speed.add(step())
    speed.add(step())
    assert speed.samples_per_second == 16


def test_durations_are_formatted_by_their_length() -> None:
    texts = [duration(seconds) for seconds in (0, 59, 60, 3599, 3600)]
    assert texts == ["0 s", "59 s", "1:00 min", "59:59 min", "1:00 h"]


@pytest.fixture
def written() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=200), text


def test_the_line_of_an_epoch_leaves_out_what_is_unknown() -> None:
    assert epoch_line(epoch(), start()) == (
        "task 1/2  epoch  3/4  learn     loss 0.250  purity  90.0 %  separation 0.75"
    )
    assert epoch_line(epoch(buffer=None, separation=None, loss=None), start()) == (
        "task 1/2  epoch  3/4  learn     "
    )
    assert "purity" not in epoch_line(epoch(buffer={"size": 0, "purity": None}), start())
    assert "purity unknown" in epoch_line(epoch(buffer={"size": 3, "purity": None}), start())


@pytest.fixture
def without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print a line for each epoch, as if it took long."""
    monkeypatch.setattr(module, "PAUSE", 0.0)


@pytest.mark.usefixtures("without_pause")
def test_a_log_has_a_line_for_each_long_epoch_and_task(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    lines = Lines(console)
    lines.start(start())
    lines.step(step(), None)
    lines.record(epoch())
    lines.record(TASK)
    first, second = text.getvalue().splitlines()
    assert first.startswith("task 1/2  epoch  3/4  learn     loss 0.250")
    assert first.endswith(" left")
    assert second == "after task 2: accuracy per task   12.3  100.0"


def test_a_log_of_short_epochs_has_a_line_in_ten_seconds_and_one_for_each_task(
    written: tuple[Console, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    console, text = written
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    lines = Lines(console)
    lines.start(start())
    for number in range(50):  # two seconds each
        now += 2.0
        lines.record(epoch(epoch=number) if number % 2 else consolidation(6))
        if number == 24:
            lines.record(TASK)
    printed = text.getvalue().splitlines()
    assert len(printed) == 10 + 1
    assert [line[:10] for line in printed].count("after task") == 1


@pytest.mark.usefixtures("without_pause")
def test_a_log_has_a_line_for_each_cycle_of_the_learning_rate(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    lines = Lines(console)
    lines.start(start())
    lines.step(step(), None)
    for number in range(7):
        lines.record(consolidation(number, [{"trusted": 90, "precision": 97.5}]))
    printed = text.getvalue().splitlines()
    assert [line.split("consolidate")[1].split()[0] for line in printed] == ["1/7", "3/7", "7/7"]
    assert "task 1/2" in printed[0]
    assert "loss 0.250  90 labels trusted, 97.5 % of them clean" in printed[0]


@pytest.mark.usefixtures("without_pause")
def test_a_log_has_the_reason_for_plain_cross_entropy(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    lines = Lines(console)
    lines.start(start())
    lines.record(consolidation(6, [{"fallback": "too few"}]))
    assert "plain cross-entropy: too few" in text.getvalue()


def test_a_log_has_a_line_now_and_then_during_a_long_epoch(
    written: tuple[Console, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    console, text = written
    monkeypatch.setattr(module, "SILENCE", 0.0)
    lines = Lines(console)
    lines.start(start())
    lines.step(step(Phase.CONSOLIDATE), None)
    assert "task 1/2 epoch 3/7  consolidate  loss 0.500" in text.getvalue()


def test_the_bar_shows_consolidation_and_steps_that_train_nothing() -> None:
    text = io.StringIO()
    live = Live(Console(file=text, width=100, force_terminal=True))
    live.start(start())
    live.step(step(Phase.WRITE, loss=None), 50.0)
    live.step(step(Phase.CONSOLIDATE), None)
    live.record(epoch())
    live.record(TASK)
    live.end()
    assert "epoch 3/7" in text.getvalue()
    assert "consolidate" in text.getvalue()
    assert re.search(r"[1-9]\d* samples/s", text.getvalue())
    assert "after task 2: accuracy per task   12.3  100.0" in text.getvalue()


def test_quiet_prints_messages_only(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    quiet = Quiet(console)
    quiet.start(start())
    quiet.step(step(), None)
    quiet.record(consolidation(6))
    quiet.end()
    assert text.getvalue() == ""
    quiet.note("[/a] folder")
    assert text.getvalue() == "[/a] folder\n"


def test_of_a_quiet_run_only_warnings_are_printed(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    logger = Warnings(console)
    logger.start(start())
    logger.note("no recipe, defaults are used: epochs=4")
    logger.note("warning: result.json is damaged")
    assert text.getvalue() == "warning: result.json is damaged\n"


def test_the_console_logger_prints_lines_outside_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(console_logger(quiet=True)) is Warnings
    assert type(console_logger(quiet=False)) is Lines
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert type(console_logger(quiet=False)) is Live


def test_a_run_from_python_shows_a_bar_in_a_terminal_and_one_line_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = progress_logger()
    logger.start(start())
    logger.step(step(), 50.0)
    logger.record(TASK)
    logger.end()
    assert capsys.readouterr() == ("", "run: 102 steps in 2 task(s)\n")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert isinstance(progress_logger(), Live)


def test_control_characters_in_messages_are_escaped() -> None:
    out = io.StringIO()
    Quiet(Console(file=out)).note("left out: \x1b[2J.png")
    assert out.getvalue() == "left out: \\x1b[2J.png\n"
