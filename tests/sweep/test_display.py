import io

import pytest
from conftest import tiny_config
from rich.console import Console

from remnant.sweep.display import live_table, shown, time_left
from remnant.sweep.status import Cell


def cell(state: str, seed: int, **more: object) -> Cell:
    return Cell(tiny_config(seed=seed), state=state, **more)  # type: ignore[arg-type]


def test_the_live_table_has_active_and_failed_runs_and_the_number_of_the_others() -> None:
    running = cell("running", 0, started=100.0)
    cells = [running, cell("failed", 1, error="the loss became nan"), cell("waiting", 2), cell("finished", 3)]
    console = Console(file=io.StringIO(), width=80)
    console.print(live_table(cells, {running.key: 0.5}, now=160.0))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "50 %" in text
    assert "1:00 min" in text
    assert "the loss became nan" in text
    assert "1 of 4 runs finished, 1 running, 1 waiting, 1 failed" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_time_left_counts_waiting_runs_at_the_speed_of_the_active_ones() -> None:
    # Two active runs have done half in 60 s: 60 s each remain. Two more of 120 s wait, for two workers.
    active = [cell("running", seed, started=0.0) for seed in (0, 1)]
    fractions = {c.key: 0.5 for c in active}
    waiting = [cell("waiting", seed) for seed in (2, 3)]
    assert time_left([*active, *waiting], fractions, now=60.0) == pytest.approx((2 * 60 + 2 * 120) / 2)
    assert time_left(waiting, {}, now=60.0) is None


def test_outside_of_a_terminal_each_run_that_ends_is_one_line() -> None:
    console = Console(file=io.StringIO(), width=80)
    a, b = cell("running", 0), cell("running", 1)
    with shown(console) as show:
        show([a, b])
        a.state = "finished"
        show([a, b])
        b.state, b.error = "failed", "the reason"
        show([a, b])
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split()[1] for line in lines] == ["finished", "failed"]
    assert lines[1].endswith("the reason")
