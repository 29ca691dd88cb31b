"""Runs on several ranks: the same results as in a single process, also if ranks are killed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import float64_nets
import pytest
import torch
from conftest import TINY
from rank_helpers import in_ranks
from run_helpers import assert_identical, final_state, flat, result

from remnant.config import Config, resolve
from remnant.errors import Interrupted
from remnant.experiment.loggers import Logger
from remnant.experiment.run import run
from remnant.experiment.runner import Run
from remnant.methods.protocol import EpochDone, StepDone

DIGITS = {"data": "digits", "noise": "symmetric:0.4", "tasks": 2, "epochs": 4, "batch": 32}


class Notes(Logger):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def with_net(settings: Mapping[str, Any], net: str = "normed", **changes: Any) -> Config:  # noqa: ANN401
    return resolve({**settings, "net": getattr(float64_nets, net), **changes})


def run_once(config: Config, out: Path) -> Path:
    """Run to the end in this process, and write the buffer after each epoch to a file."""
    measure = Run._measure

    def measured(self: Run, event: EpochDone) -> None:
        measure(self, event)
        with (out / "buffers.txt").open("a") as file:
            for buffer in self.learner.buffers().values() if self.ranks.number == 0 else ():
                print(event.task, event.work, event.epoch, buffer.samples().id.tolist(), file=file)

    out.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_measure", measured)
        return run(config, out=out, save_every=0, loggers=[Notes()])


def on_ranks(config: Config, out: Path, count: int = 2, killed: Mapping[int, int] = {}) -> list[Any]:
    """Run on several ranks, of which some are killed after a number of steps: rank -> steps."""
    step = Run._log_step

    def work() -> str:
        def log(self: Run, event: StepDone) -> None:
            step(self, event)
            done[0] += 1
            if done[0] == killed.get(self.ranks.number):
                os.kill(os.getpid(), signal.SIGKILL)

        done = [0]
        Run._log_step = log  # type: ignore[method-assign]
        return str(run_once(config, out))

    out.mkdir(exist_ok=True)
    return in_ranks(count, out, work)


def assert_close(found: Path, expected: Path) -> None:
    """Assert that weights agree to 1e-8, and that buffers were the same after every epoch."""
    lines = [(folder.parent / "buffers.txt").read_text().splitlines() for folder in (found, expected)]
    assert list(dict.fromkeys(lines[0])) == lines[1]  # an epoch that is repeated gives the same line
    a, b = (flat(final_state(folder)) for folder in (found, expected))
    assert a.keys() == b.keys()
    for key, value in b.items():
        if isinstance(value, list):
            torch.testing.assert_close(
                torch.tensor(a[key], dtype=torch.float64), torch.tensor(value, dtype=torch.float64),
                rtol=0, atol=1e-8, equal_nan=True, msg=lambda text, k=key: f"{k}: {text}",
            )  # fmt: skip


@pytest.mark.slow
def test_two_ranks_give_the_results_of_one_process_also_if_one_is_killed(tmp_path: Path) -> None:
    config = with_net(TINY, tasks=2, epochs=2, per_class=8)
    one = run_once(config, tmp_path / "one")
    whole = on_ranks(config, tmp_path / "two")
    assert whole == [str(tmp_path / "two" / one.name)] * 2
    assert_close(Path(whole[0]), one)
    error, killed = on_ranks(config, tmp_path / "cut", killed={1: 7})
    assert killed == "killed"
    assert "rank 1 has stopped or hangs" in error
    resumed = on_ranks(config, tmp_path / "cut")
    assert_identical(Path(resumed[0]), Path(whole[0]))
    assert result(Path(whole[0]))["environments"][0]["ranks"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("net", ["plain", "normed"])
@pytest.mark.parametrize("method", ["aer-abs", "er-ace", "der++-aer-abs"])
def test_two_ranks_give_the_results_of_one_process_on_digits(tmp_path: Path, method: str, net: str) -> None:
    config, rng = with_net(DIGITS, net, method=method), random.Random(method + net)
    one = run_once(config, tmp_path / "one")
    whole = Path(on_ranks(config, tmp_path / "two")[0])
    assert_close(whole, one)
    cuts: list[dict[int, int]] = [{0: rng.randint(2, 60)}, {1: rng.randint(2, 60)}]
    cuts.append(dict.fromkeys((0, 1), rng.randint(2, 60)))
    for killed in cuts:
        assert "killed" in on_ranks(config, tmp_path / "cut", killed=killed)
    resumed = Path(on_ranks(config, tmp_path / "cut")[0])
    assert_identical(resumed, whole)
    assert_close(resumed, one)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        "er",
        "abs",
        "puridiver",
        "gdumb",
        "er+coteaching",
        "er+dividemix",
        "aer-abs+consolidation",
        "cnll",
        "spr",
    ],
)
def test_three_ranks_run_every_kind_of_method_as_one_process_does(tmp_path: Path, method: str) -> None:
    needs_features = method in ("puridiver", "cnll", "spr")
    changes: dict[str, Any] = {"method": method, "tasks": 2, "epochs": 2}
    if method == "spr":
        changes |= {"algorithm": {"expert_steps": 4, "base_steps": 4, "finetune_epochs": 2}}
    elif method not in ("er", "abs", "cnll"):
        has_warmup = method in ("puridiver", "er+dividemix")
        changes |= {"consolidation": {"epochs": 3} | ({"warmup": 1} if has_warmup else {})}
    config = resolve({**TINY, **changes}) if needs_features else with_net(TINY, **changes)
    one = run_once(config, tmp_path / "one")
    found = on_ranks(config, tmp_path / "three", count=3)
    assert found == [str(tmp_path / "three" / one.name)] * 3
    if not needs_features:  # the others are not in double precision
        assert_close(Path(found[0]), one)


def test_a_run_resumes_with_another_number_of_ranks_after_a_note(tmp_path: Path) -> None:
    config, notes = with_net(TINY, tasks=2, epochs=2, per_class=8), Notes()
    on_ranks(config, tmp_path, killed={0: 5, 1: 5})
    folder = run(config, out=tmp_path, loggers=[notes])
    assert any("this run is resumed with ranks 1 (before: 2)" in text for text in notes.texts)
    assert [found["ranks"] for found in result(folder)["environments"]] == [2, 1]


def test_ranks_whose_buffers_differ_are_an_error(tmp_path: Path) -> None:
    config = with_net(TINY, tasks=2, epochs=2, per_class=8)

    def work() -> None:
        measure = Run._measure

        def spoil(self: Run, event: EpochDone) -> None:
            measure(self, event)
            self.learner.buffers()["buffer"].y[0] += self.ranks.number

        Run._measure = spoil  # type: ignore[method-assign]
        run(config, out=tmp_path, loggers=[Notes()])

    for found in in_ranks(2, tmp_path, work):
        assert "expected the same state on all ranks, but rank 1 differs from rank 0" in found


@pytest.mark.slow
def test_all_ranks_stop_at_the_same_step_if_one_receives_a_signal(tmp_path: Path) -> None:
    config = with_net(TINY, tasks=2, epochs=2, per_class=8)
    whole = Path(on_ranks(config, tmp_path / "whole")[0])

    def work() -> None:
        step = Run._log_step

        def log(self: Run, event: StepDone) -> None:
            step(self, event)
            if self.ranks.number == 1 and self.history.steps == 5:
                os.kill(os.getpid(), signal.SIGTERM)

        Run._log_step = log  # type: ignore[method-assign]
        run(config, out=tmp_path, loggers=[Notes()])

    found = in_ranks(2, tmp_path, work)
    assert found[0] == found[1]
    assert found[0].startswith(f"{Interrupted.__name__}: stopped after step")
    assert_identical(Path(on_ranks(config, tmp_path)[0]), whole)


@pytest.mark.slow
def test_rank_0_alone_writes_files_and_calls_loggers(tmp_path: Path) -> None:
    config = with_net(TINY, tasks=2, epochs=2, per_class=8)

    def work() -> int:
        notes = Notes()
        run(config, out=tmp_path / str(os.environ["RANK"]), loggers=[notes])
        notes.texts.clear()
        run(config, out=tmp_path / str(os.environ["RANK"]), loggers=[notes])
        return len(notes.texts)

    assert in_ranks(2, tmp_path, work) == [1, 0]  # it is already finished
    assert (tmp_path / "0").exists()
    assert not (tmp_path / "1").exists()


def torchrun(out: Path) -> subprocess.Popen[str]:
    settings = ["per_class=24", "epochs=12", "net=small:4", "buffer_size=30", "batch=8"]
    words = [
        Path(sys.executable).with_name("torchrun"),
        "--nproc-per-node",
        "2",
        "-m",
        "remnant",
        "run",
        *settings,
    ]
    return subprocess.Popen(
        [*map(str, words), "--save-every", "0", "--out", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def saved(out: Path) -> int:
    """Return the number of the last checkpoint."""
    return max((int(path.name[:8]) for path in out.glob("*/checkpoint/0*")), default=0)


def ranks_of(process: subprocess.Popen[str], out: Path) -> list[int]:
    """Wait for a few more checkpoints, and return the ids of the processes of the ranks."""
    before = saved(out)
    while saved(out) < before + 4:
        assert process.poll() is None
        time.sleep(0.1)
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.slow
def test_a_run_of_torchrun_names_a_rank_that_is_killed_stops_on_a_signal_and_resumes(tmp_path: Path) -> None:
    whole, out = torchrun(tmp_path / "whole"), tmp_path / "cut"
    printed, _ = whole.communicate()
    assert whole.returncode == 0
    folder = Path(printed.splitlines()[-1])
    assert printed.count(str(folder)) == 2  # in the summary and in the last line, by rank 0

    process = torchrun(out)
    os.kill(ranks_of(process, out)[1], signal.SIGKILL)
    printed, _ = process.communicate(timeout=60)
    assert printed.count("remnant: expected 2 ranks to be connected, but rank 1 has stopped or hangs") == 1

    for number in (signal.SIGINT, signal.SIGTERM):  # of which torchrun informs its processes
        process = torchrun(out)
        assert len(ranks_of(process, out)) == 2
        process.send_signal(number)
        printed, _ = process.communicate(timeout=60)
        assert printed.count("remnant: stopped after step") == 1, printed
        assert printed.count("resuming after step") == 1

    process = torchrun(out)
    for pid in ranks_of(process, out):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    printed, _ = torchrun(out).communicate()
    assert_identical(out / folder.name, folder)
