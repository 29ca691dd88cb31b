import io
from typing import Any

import pytest
from rich.console import Console

from remnant import progress
from remnant.progress import Ahead, Lines, Live, Quiet, Speed
from remnant.protocol import CONSOLIDATE, STREAM, StepDone, Work
from remnant.schedule import Phase

AHEAD = Ahead(2, {STREAM: Work(80, 4), CONSOLIDATE: Work(14, 7)})


def step(phase: Phase = Phase.LEARN, share: float = 1.0, loss: float | None = 0.5) -> StepDone:
    work = CONSOLIDATE if phase is Phase.CONSOLIDATE else STREAM
    return StepDone(0, 2, 1, 2, phase, loss, 32, share, work)


def ahead(stream: int, memory: int, done: float = 0.0) -> Ahead:
    plan = {STREAM: Work(stream, 1), CONSOLIDATE: Work(memory, 2)}
    return Ahead(1, plan, {STREAM: done})


def consolidation(epoch: int, division: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    facts = {"task": 0, "epoch": epoch, "loss": 0.25, "division": division}
    return {"event": "consolidation", "work": CONSOLIDATE, **facts}


def test_time_left_knows_that_two_kinds_of_step_cost_differently() -> None:
    clock = iter([0.0, 1.0, 2.0, 5.0, 5.0])
    speed = Speed(ahead(10, 4), lambda: next(clock))
    speed.add(step())
    assert speed.left == "13 s"  # 9 + 4 steps left, each a second as far as is known
    speed.add(step())
    speed.add(step(Phase.CONSOLIDATE))
    assert speed.left == "17 s"  # 8 of a second and 3 of three


def test_time_left_counts_what_an_earlier_process_did() -> None:
    clock = iter([0.0, 1.0])
    speed = Speed(ahead(10, 0, done=6), lambda: next(clock))
    speed.add(step())
    assert speed.left == "3 s"


def test_an_epoch_of_fewer_steps_counts_as_a_whole() -> None:
    clock = iter([0.0, 1.0])
    speed = Speed(ahead(0, 8), lambda: next(clock))
    speed.add(step(Phase.CONSOLIDATE, share=4.0))
    assert speed.left == "1 s"


@pytest.fixture
def written() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=200), text


def test_a_log_has_a_line_for_each_cycle_of_the_rate(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    lines = Lines(console)
    lines.begin(AHEAD)
    lines.step(step(), None)
    for epoch in range(7):
        lines.record(consolidation(epoch, [{"trusted": 90, "precision": 97.5}]))
    printed = text.getvalue().splitlines()
    assert [line.split("consolidate")[1].split()[0] for line in printed] == ["1/7", "3/7", "7/7"]
    assert "task 1/2" in printed[0]
    assert "loss 0.250  90 rows trusted, 97.5 % of them right" in printed[0]


def test_a_log_says_why_labels_are_taken_as_they_are(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    lines = Lines(console)
    lines.begin(AHEAD)
    lines.record(consolidation(6, [{"plain": "too few"}]))
    assert "plain cross-entropy: too few" in text.getvalue()


def test_a_log_is_not_silent_for_long(
    written: tuple[Console, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    console, text = written
    monkeypatch.setattr(progress, "SILENCE", 0.0)
    lines = Lines(console)
    lines.begin(AHEAD)
    lines.step(step(Phase.CONSOLIDATE), None)
    assert "task 1/2 epoch 3/7  consolidate  loss 0.500" in text.getvalue()


def test_the_bar_shows_a_consolidation_and_steps_that_train_nothing() -> None:
    text = io.StringIO()
    live = Live(Console(file=text, width=100, force_terminal=True))
    live.begin(AHEAD)
    live.step(step(Phase.WRITE, loss=None), 50.0)
    live.step(step(Phase.CONSOLIDATE), None)
    live.end()
    assert "epoch 3/7" in text.getvalue()
    assert "consolidate" in text.getvalue()


def test_quiet_is_quiet(written: tuple[Console, io.StringIO]) -> None:
    console, text = written
    quiet = Quiet(console)
    quiet.begin(AHEAD)
    quiet.step(step(), None)
    quiet.record(consolidation(6))
    quiet.end()
    assert text.getvalue() == ""
