"""Real SIGKILL at any moment: the same command must end with the same bytes."""

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
from test_runner import RunIn, assert_identical

from remnant import checkpoint
from remnant.config import Config
from remnant.errors import RemnantError
from remnant.progress import Quiet
from remnant.protocol import StepDone
from remnant.runner import Options, run
from remnant.schedule import Phase

CALLS = [f"{call} {when}" for call in ("fsync", "replace", "unlink") for when in ("before", "after")]


KINDS = ["buffer-fit", "mixmatch", "coteaching", "dividemix", "gdumb", "gdumb+dividemix"]


def consolidating(kind: str) -> Config:
    """Thirty and more steps of consolidation in two tasks."""
    settings: dict[str, Any] = {"epochs": 7, "batch": 8}
    if kind.endswith("dividemix"):
        settings |= {"warmup": 2}
    if kind.startswith("gdumb"):
        return tiny_config(method=kind, tasks=2, epochs=2, consolidation=settings)
    settings |= {"name": kind}
    return tiny_config(method="aer-abs", tasks=2, epochs=2, consolidation=settings)


def in_a_child(work: Callable[[], object]) -> int:
    """Do something in a forked process; return the signal that ended it, 0 if none did."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def deadly(function: Callable[..., Any], count: Iterator[int], when: str) -> Callable[..., Any]:
    """A function during whose n-th call the process is killed, before or after it does its work."""

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        last = next(count) == 0
        if last and when == "before":
            die()
        done = function(*args, **kwargs)
        if last:
            die()
        return done

    return call


def run_to_death(config: Config, out: Path, call: str, nth: int) -> int:
    name, when = call.split()

    def work() -> None:
        count = iter(range(nth, -1, -1))
        endless = iter(lambda: next(count, 1), None)
        setattr(os, name, deadly(getattr(os, name), endless, when))  # type: ignore[arg-type]
        run(config, Options(out=out, save_every=0), Quiet(Console(stderr=True)))

    return in_a_child(work)


def run_to_step(config: Config, out: Path, steps: int, phase: Phase = Phase.IDLE) -> int:
    """Run until so many steps of a phase are done, or of any; then be killed."""

    class Kill(Quiet):
        left = steps

        def step(self, event: StepDone, purity: float | None) -> None:
            self.left -= phase in event.phase
            if not self.left:
                die()

    return in_a_child(lambda: run(config, Options(out=out, save_every=0), Kill(Console(stderr=True))))


@pytest.mark.parametrize("call", CALLS)
def test_killed_at_every_call_that_makes_a_checkpoint_last(
    run_in: RunIn, tmp_path: Path, call: str
) -> None:
    config = tiny_config(epochs=2, tasks=2)
    whole = run_in(config, "whole")
    # The first calls write config.toml and metrics.jsonl; the rest are those of successive checkpoints.
    for nth in range(10):
        out = tmp_path / f"cut-{nth}"
        assert run_to_death(config, out, call, nth) == signal.SIGKILL
        assert_identical(whole, run(config, Options(out=out), Quiet(Console(stderr=True))))
        assert not list(out.rglob("*.part"))


@pytest.mark.parametrize("method", ["aer-abs", "der++-aer-abs", "er-ace"])
def test_killed_at_random_steps_and_continued_each_time(
    run_in: RunIn, tmp_path: Path, method: str
) -> None:
    config, rng = tiny_config(method=method), random.Random(method)
    whole, out = run_in(config, "whole"), tmp_path / "cut"
    for kill in range(4):
        assert run_to_step(config, out, rng.randint(2, 12)) == signal.SIGKILL, kill
        assert checkpoint.generations(out / whole.name / "checkpoint")
    assert_identical(whole, run(config, Options(out=out), Quiet(Console(stderr=True))))


@pytest.mark.parametrize("kind", KINDS)
def test_killed_inside_a_consolidation_of_each_kind(run_in: RunIn, tmp_path: Path, kind: str) -> None:
    config, rng = consolidating(kind), random.Random(kind)
    whole, out = run_in(config, "whole"), tmp_path / "cut"
    for kill in range(4):
        steps = rng.randint(2, 9)
        assert run_to_step(config, out, steps, Phase.CONSOLIDATE) == signal.SIGKILL, kill
    assert_identical(whole, run(config, Options(out=out), Quiet(Console(stderr=True))))


def test_a_disk_that_is_full_costs_nothing_that_was_saved(run_in: RunIn, tmp_path: Path) -> None:
    config, out = tiny_config(), tmp_path / "cut"
    whole = run_in(config, "whole")
    state = checkpoint.generations(whole / "checkpoint")[0].stat().st_size

    def work() -> None:
        # The operating system refuses to write files larger than the first checkpoints were.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (state - 3000, state - 3000))
        with pytest.raises(RemnantError, match=r"cannot be written \(File too large\)"):
            run(config, Options(out=out, save_every=0), Quiet(Console(stderr=True)))
        die()

    assert in_a_child(work) == signal.SIGKILL
    assert not list(out.rglob("*.part"))
    assert checkpoint.generations(next(out.iterdir()) / "checkpoint")
    assert_identical(whole, run(config, Options(out=out), Quiet(Console(stderr=True))))


PROBE = """
import sys, time
from remnant import runner
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
        ("spr", "epochs=2 learner.expert_steps=20 learner.base_steps=20 learner.finetune_epochs=10"),
        ("cnll", "epochs=1"),
    ],
)
def test_ten_sigkills_of_the_command_line_each_continued_to_the_same_end(
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
        found = re.search(r"going on after step (\d+)", done.stdout)
        assert found, done.stdout
        lines = [line.split() for line in log.read_text().splitlines()]
        reached = max(int(line[1]) for line in lines if line[0] == "step")
        saved = [int(line[1]) for line in lines if line[0] == "saved"]
        # Only what came after the last checkpoint is repeated; one more may have been just renamed.
        assert 0 < saved[-1] <= int(found[1]) <= reached
        print(f"{method}: killed after step {reached}, saved {saved}, went on after {found[1]}")
        assert_identical(folder, Path(done.stdout.splitlines()[-1]))
