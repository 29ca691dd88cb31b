"""Comparing two runs, and interrupting a run after a number of steps."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from remnant.config import Config
from remnant.experiment import checkpoint
from remnant.experiment.loggers import Logger
from remnant.experiment.loggers.console import Quiet
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import StepDone

RunIn = Callable[..., Path]
COST = ("seconds", "seconds_per_phase", "images_per_second", "peak_rss_mb")


def result(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return loaded


def without_cost(folder: Path) -> dict[str, Any]:
    """Return the result without time and memory, without the commit, which may change, and without hashes."""
    varying = (*COST, "git", "environments", "config_digest", "files", "sha256")
    return {key: value for key, value in result(folder).items() if key not in varying}


def records(folder: Path, event: str) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl of one kind."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def final_state(folder: Path) -> dict[str, Any]:
    state = checkpoint.unpack(checkpoint.generations(folder / "checkpoint")[0].read_bytes())
    return state["learner"]  # type: ignore[no-any-return]


def flat(value: Any, path: str = "") -> dict[str, Any]:  # noqa: ANN401
    if not isinstance(value, dict):
        return {path: value.tolist() if isinstance(value, torch.Tensor) else value}
    return {k: v for key, part in value.items() for k, v in flat(part, f"{path}/{key}").items()}


def assert_identical(a: Path, b: Path) -> None:
    """Assert that two runs have the same results, files and final state, bit for bit."""
    for name in ("config.toml", "model.safetensors"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    assert_same_results(a, b)


def assert_same_results(a: Path, b: Path) -> None:
    """Assert that two runs are identical but for their configs."""
    assert without_cost(a) == without_cost(b)
    names = {path.name for folder in (a, b) for path in folder.glob("*.safetensors")}
    names -= {"model.safetensors"}  # it describes its settings; its weights are in the final state
    for name in {"metrics.jsonl", *names}:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    mine, other = flat(final_state(a)), flat(final_state(b))
    assert mine.keys() == other.keys()
    for key, value in mine.items():
        assert repr(value) == repr(other[key]), key


class StopAt(Logger):
    """Interrupts the run after a number of steps, as Ctrl-C does; 0: never."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.notes: list[str] = []

    def step(self, event: StepDone, purity: float | None) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

    def note(self, text: str) -> None:
        self.notes.append(text)


def run_to_end(config: Config, out: Path) -> Path:
    return execute(config, Options(out=out), [Quiet(Console(stderr=True))])


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked process; return the signal that ended it, 0 if none did."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_to_step(config: Config, out: Path, steps: int, phase: Phase = Phase.IDLE) -> int:
    """Run in a process that is killed after so many steps (of a phase); return the signal."""

    class Kill(Quiet):
        left = steps

        def step(self, event: StepDone, purity: float | None) -> None:
            self.left -= phase in event.phase
            if not self.left:
                kill_self()

    loggers = [Kill(Console(stderr=True))]
    return in_child(lambda: execute(config, Options(out=out, save_every=0), loggers))
