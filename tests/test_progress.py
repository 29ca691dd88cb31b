import io
from typing import Any

import pytest
from rich.console import Console

from remnant.progress import Lines, Live, Plan, Quiet, Speed, Work
from remnant.protocol import StepDone
from remnant.schedule import Phase

PLAN = Plan(2, 4, Work(80), consolidation_epochs=7, memory=Work(14))


def step(phase: Phase = Phase.LEARN, share: float = 1.0, loss: float | None = 0.5) -> StepDone:
    return StepDone(0, 2, 1, 2, phase, loss, 32, share)


def consolidation(epoch: int, division: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"event": "consolidation", "task": 0, "epoch": epoch, "loss": 0.25, "division": division}


def test_time_left_knows_that_two_kinds_of_step_cost_differently() -> None:
    clock = iter([0.0, 1.0, 2.0, 5.0, 5.0])
    speed = Speed(Plan(1, 1, Work(10), 1, Work(4)), lambda: next(clock))
    speed.add(step())
    assert speed.left == "13 s"  # 9 + 4 steps left, each a second as far as is known
    speed.add(step())
    speed.add(step(Phase.CONSOLIDATE))
    assert speed.left == "17 s"  # 8 of a second and 3 of three


def test_time_left_counts_what_an_earlier_process_did() -> None:
    clock = iter([0.0, 1.0])
    speed = Speed(Plan(1, 1, Work(10, done=6)), lambda: next(clock))
    speed.add(step())
    assert speed.left == "3 s"


def test_an_epoch_of_fewer_steps_counts_as_a_whole() -> None:
    clock = iter([0.0, 1.0])
    speed = Speed(Plan(1, 1, Work(), 2, Work(8)), lambda: next(clock))
    speed.add(step(Phase.CONSOLIDATE, share=4.0))
    assert speed.left == "1 s"


@pytest.fixture
def written() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=200), text


def test_a_log_has_a_line_for_each_cycle_of_the_rate(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    lines = Lines(console)
    lines.begin(PLAN)
    lines.step(step(), None)
    for epoch in range(7):
        lines.record(consolidation(epoch, [{"trusted": 90, "precision": 97.5}]))
    printed = text.getvalue().splitlines()
    assert [line.split("consolidation")[1].split()[0] for line in printed] == ["1/7", "3/7", "7/7"]
    assert "task 1/2" in printed[0]
    assert "loss 0.250  90 rows trusted, 97.5 % of them right" in printed[0]


def test_a_log_says_why_labels_are_taken_as_they_are(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    lines = Lines(console)
    lines.begin(PLAN)
    lines.record(consolidation(6, [{"plain": "too few"}]))
    assert "plain cross-entropy: too few" in text.getvalue()


def test_the_bar_shows_a_consolidation_and_steps_that_train_nothing() -> None:
    text = io.StringIO()
    live = Live(Console(file=text, width=100, force_terminal=True))
    live.begin(PLAN)
    live.step(step(Phase.WRITE, loss=None), 50.0)
    live.step(step(Phase.CONSOLIDATE), None)
    live.end()
    assert "epoch 3/7" in text.getvalue()
    assert "consolidate" in text.getvalue()


def test_quiet_is_quiet(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    quiet = Quiet(console)
    quiet.begin(PLAN)
    quiet.step(step(), None)
    quiet.record(consolidation(6))
    quiet.end()
    assert text.getvalue() == ""
