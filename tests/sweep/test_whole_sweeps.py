"""Whole sweeps whose processes are killed with SIGKILL: nothing is lost, and nothing runs twice."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import tomli_w

pytestmark = pytest.mark.slow

GRID = {
    "recipe": "digits", "method": ["er", "aer-abs"], "seed": "0-3", "per_class": 12, "net": "small:4",
    "epochs": 8, "buffer_size": 20, "batch": 8,
}  # fmt: skip
CELLS = 8
COUNT = """
import json, sys, tomllib
from pathlib import Path
from remnant.sweep.backends import Resources
from remnant.sweep.grid import expand
from remnant.sweep.scheduler import SweepOptions, run_cells
grid = tomllib.loads(Path("grid.toml").read_text())
options = SweepOptions(Path(sys.argv[1]), resources=Resources(jobs=2))
cells = run_cells(expand(grid), options, lambda cells: None)
print(json.dumps([[cell.state, cell.attempts] for cell in cells]))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweeps")
    (folder / "grid.toml").write_text(tomli_w.dumps(GRID))
    return folder


@pytest.fixture(scope="module")
def reference(place: Path) -> dict[str, object]:
    """The results of all cells with the local backend, without interruption."""
    done = subprocess.run(sweep("reference", "--table", "reference.csv"), cwd=place, check=True)
    assert done.returncode == 0
    return results(place / "reference")


def sweep(out: str, *options: str) -> list[str]:
    words = ["sweep", "grid.toml", "--jobs", "2", "--out", out, "--save-every", "0", *options]
    return [sys.executable, "-m", "remnant", *words]


def results(out: Path) -> dict[str, object]:
    """Accuracies and hash of the buffer of each finished run; every run has each epoch once."""
    found: dict[str, object] = {}
    for path in out.glob("*/result.json"):
        result = json.loads(path.read_text())
        records = [json.loads(line) for line in (path.parent / "metrics.jsonl").read_text().splitlines()]
        epochs = [(r["task"], r["epoch"]) for r in records if r["event"] == "epoch"]
        assert len(epochs) == len(set(epochs)) == 5 * 8
        found[path.parent.name] = result["accuracy"], result["files"]["buffer.safetensors"]
    return found


def finished(out: Path) -> int:
    return len(list(out.glob("*/result.json")))


def is_half_way(out: Path) -> bool:
    """Whether some runs are finished, and another one has finished epochs but not all."""
    active = [folder for folder in out.glob("*-s?-*") if not (folder / "result.json").exists()]
    lines = [
        len((f / "metrics.jsonl").read_text().splitlines()) for f in active if (f / "metrics.jsonl").exists()
    ]
    return finished(out) >= 2 and any(5 < count < 35 for count in lines)


def wait_for(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not holds():
        assert process.poll() is None, "it ended before it was half-way"
        time.sleep(0.05)


def descendants(pid: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    found = [pid]
    for known in found:  # grows in the loop
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def kill_one_worker(process: subprocess.Popen[bytes], words: str) -> None:
    workers = [pid for pid in descendants(process.pid) if words in command(pid)]
    assert workers, [command(pid) for pid in descendants(process.pid)]
    os.kill(workers[0], signal.SIGKILL)


@pytest.mark.parametrize(
    ("backend", "options", "worker"),
    [
        ("local", [], "remnant.sweep.backends.worker"),
        ("ray", ["--backend", "ray"], "ray::remnant"),
        ("slurm", ["--backend", "slurm", "--cluster", "local"], "submitit.core._submit"),
    ],
)
def test_a_worker_that_is_killed_half_way_changes_nothing(
    backend: str, options: Sequence[str], worker: str, place: Path, reference: dict[str, object]
) -> None:
    pytest.importorskip({"local": "remnant", "ray": "ray", "slurm": "submitit"}[backend])
    with subprocess.Popen(sweep(backend, *options), cwd=place) as process:
        wait_for(lambda: is_half_way(place / backend), process)
        kill_one_worker(process, worker)
        assert process.wait() == 0
    assert len(reference) == CELLS
    assert results(place / backend) == reference


def test_two_sweeps_on_one_folder_run_each_cell_once(place: Path, reference: dict[str, object]) -> None:
    words = [sys.executable, "-c", COUNT, "twice"]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(words, cwd=place, stdout=pipe) for _ in range(2)]
    states = [json.loads(process.communicate()[0]) for process in both]
    assert all(state == "finished" for one in states for state, _ in one)
    attempts = [sum(counts) for counts in zip(*[[a for _, a in one] for one in states], strict=True)]
    assert attempts == [1] * CELLS
    assert results(place / "twice") == reference


def test_a_sweep_whose_process_group_is_killed_has_the_same_final_table(
    place: Path, reference: dict[str, object]
) -> None:
    with subprocess.Popen(sweep("killed"), cwd=place, start_new_session=True) as process:
        wait_for(lambda: is_half_way(place / "killed"), process)
        os.killpg(process.pid, signal.SIGKILL)
    assert finished(place / "killed") < CELLS
    again = subprocess.run(sweep("killed", "--table", "killed.csv"), cwd=place, check=False)
    assert again.returncode == 0
    tables = [list(csv.reader((place / f"{name}.csv").open())) for name in ("reference", "killed")]
    assert tables[0] == tables[1]
    assert results(place / "killed") == reference


def test_ctrl_c_saves_the_active_runs_and_the_same_command_resumes(
    place: Path, reference: dict[str, object]
) -> None:
    with subprocess.Popen(sweep("stopped"), cwd=place, start_new_session=True) as process:
        wait_for(lambda: is_half_way(place / "stopped"), process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == 130
    assert subprocess.run(sweep("stopped"), cwd=place, check=False).returncode == 0
    assert results(place / "stopped") == reference
