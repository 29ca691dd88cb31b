"""Processes that are killed at any moment: the same command afterwards gives the same bytes."""

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_config
from rich.console import Console
from run_helpers import RunIn, assert_identical, in_child, kill_self, run_to_end, run_to_step

from remnant.config import Config
from remnant.errors import RemnantError
from remnant.experiment import checkpoint
from remnant.experiment.loggers.console import Quiet
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.methods.epoch_schedule import Phase

CALLS = [
    pytest.param(f"{call} {when}", marks=[pytest.mark.slow] if call == "unlink" or when == "after" else [])
    for call in ("fsync", "replace", "unlink")
    for when in ("before", "after")
]
KINDS = ["buffer-fit", "mixmatch", "coteaching", "dividemix", "gdumb", "gdumb+dividemix"]


def consolidating(kind: str) -> Config:
    """At least thirty steps of consolidation in two tasks."""
    settings: dict[str, Any] = {"epochs": 7, "batch": 8}
    if kind.endswith("dividemix"):
        settings |= {"warmup": 2}
    if kind.startswith("gdumb"):
        return tiny_config(method=kind, tasks=2, epochs=2, consolidation=settings)
    settings |= {"name": kind}
    return tiny_config(method="aer-abs", tasks=2, epochs=2, consolidation=settings)


def deadly(function: Callable[..., Any], count: Iterator[int], when: str) -> Callable[..., Any]:
    """Return a function during whose n-th call the process is killed, before or after its work."""

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        is_last = next(count) == 0
        if is_last and when == "before":
            kill_self()
        done = function(*args, **kwargs)
        if is_last:
            kill_self()
        return done

    return call


def run_until_killed(config: Config, out: Path, call: str, nth: int) -> int:
    name, when = call.split()

    def work() -> None:
        count = iter(range(nth, -1, -1))
        endless = iter(lambda: next(count, 1), None)
        setattr(os, name, deadly(getattr(os, name), endless, when))  # type: ignore[arg-type]
        execute(config, Options(out=out, save_every=0), [Quiet(Console(stderr=True))])

    return in_child(work)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.slow
def test_a_run_killed_at_any_call_that_writes_a_checkpoint_resumes_to_the_same_bytes(
    run_in: RunIn, tmp_path: Path, call: str
) -> None:
    config = tiny_config(epochs=2, tasks=2)
    whole = run_in(config, "whole")
    # The first calls write config.toml and metrics.jsonl; the rest write successive checkpoints.
    for nth in range(10):
        out = tmp_path / f"cut-{nth}"
        assert run_until_killed(config, out, call, nth) == signal.SIGKILL
        assert_identical(whole, run_to_end(config, out))
        assert not list(out.rglob("*.part"))


@pytest.mark.parametrize("method", ["aer-abs", "der++-aer-abs", "er-ace"])
@pytest.mark.slow
def test_a_run_killed_at_random_steps_resumes_to_the_same_bytes(
    run_in: RunIn, tmp_path: Path, method: str
) -> None:
    config, rng = tiny_config(method=method), random.Random(method)
    whole, out = run_in(config, "whole"), tmp_path / "cut"
    for kill in range(4):
        assert run_to_step(config, out, rng.randint(2, 12)) == signal.SIGKILL, kill
        assert checkpoint.generations(out / whole.name / "checkpoint")
    assert_identical(whole, run_to_end(config, out))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_a_run_killed_in_a_consolidation_resumes_to_the_same_bytes(
    run_in: RunIn, tmp_path: Path, kind: str
) -> None:
    config, rng = consolidating(kind), random.Random(kind)
    whole, out = run_in(config, "whole"), tmp_path / "cut"
    for kill in range(4):
        steps = rng.randint(2, 9)
        assert run_to_step(config, out, steps, Phase.CONSOLIDATE) == signal.SIGKILL, kill
    assert_identical(whole, run_to_end(config, out))


def test_a_full_disk_loses_nothing_that_was_saved(run_in: RunIn, tmp_path: Path) -> None:
    config, out = tiny_config(), tmp_path / "cut"
    whole = run_in(config, "whole")
    size = checkpoint.generations(whole / "checkpoint")[0].stat().st_size

    def work() -> None:
        # The operating system does not write files larger than the first checkpoints were.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 3000, size - 3000))
        with pytest.raises(RemnantError, match=r"cannot be written \(File too large\)"):
            execute(config, Options(out=out, save_every=0), [Quiet(Console(stderr=True))])
        kill_self()

    assert in_child(work) == signal.SIGKILL
    assert not list(out.rglob("*.part"))
    assert checkpoint.generations(next(out.iterdir()) / "checkpoint")
    assert_identical(whole, run_to_end(config, out))


PROBE = """
import sys, time
from remnant.experiment import runner
count = runner.Run._count
def probe(self, event, seconds):
    count(self, event, seconds)
    print("step", self.history.steps, time.monotonic(), file=sys.stderr, flush=True)
runner.Run._count = probe
save = runner.Run._save
def saved(self):
    path = save(self)
    print("saved", self.history.steps, time.monotonic(), file=sys.stderr, flush=True)
    return path
runner.Run._save = saved
from remnant.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("aer-abs", "epochs=10"),
        ("er-ace", "epochs=10"),
        ("der++-aer-abs", "epochs=10"),
        ("aer-abs+consolidation", "epochs=2 consolidation.epochs=63"),
        ("gdumb+dividemix", "consolidation.epochs=31"),
        ("puridiver", "epochs=2 consolidation.epochs=31"),
        ("spr", "epochs=2 algorithm.expert_steps=20 algorithm.base_steps=20 algorithm.finetune_epochs=10"),
        ("cnll", "epochs=1"),
    ],
)
def test_a_command_killed_ten_times_resumes_to_the_same_bytes_each_time(
    tmp_path: Path, method: str, settings: str
) -> None:
    rng, pause = random.Random(f"kill {method}"), 0.5
    words = ["run", "digits", "--method", method, *settings.split(), "--save-every", str(pause)]
    command = [sys.executable, "-c", PROBE, *words, "--out"]
    whole = subprocess.run([*command, tmp_path / "whole"], capture_output=True, text=True, check=True)
    last = max(int(line.split()[1]) for line in whole.stderr.splitlines())
    folder = Path(whole.stdout.splitlines()[-1])
    for kill in range(10):
        out = tmp_path / f"cut-{kill}"
        log = tmp_path / f"log-{kill}"
        with log.open("w") as stderr:
            process = subprocess.Popen([*command, out], stdout=subprocess.DEVNULL, stderr=stderr)
            step = rng.randint(last // 20, last - last // 10)
            while "saved" not in log.read_text() or f"step {step} " not in log.read_text():
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.02))  # anywhere within a step or a checkpoint
            process.kill()
            assert process.wait() == -signal.SIGKILL
        done = subprocess.run([*command, out], capture_output=True, text=True, check=True)
        found = re.search(r"resuming after step (\d+)", done.stdout)
        assert found, done.stdout
        lines = [line.split() for line in log.read_text().splitlines()]
        reached = max(int(line[1]) for line in lines if line[0] == "step")
        saved = [int(line[1]) for line in lines if line[0] == "saved"]
        # Only what came after the last checkpoint is repeated; one more may have been just renamed.
        assert 0 < saved[-1] <= int(found[1]) <= reached
        print(f"{method}: killed after step {reached}, saved {saved}, resumed after {found[1]}")
        assert_identical(folder, Path(done.stdout.splitlines()[-1]))
