import json
import shutil
from pathlib import Path

import pytest
import tomli_w
from cli_helpers import TINY, Invoke
from run_folders import finished
from sweep_helpers import TINY_GRID, inline

from remnant.report.tables.stored import store
from remnant.sweep import scheduler

SMALL = [*TINY, "split=[5,5]"]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "start_workers", inline())


def test_a_grid_is_run_and_its_results_are_stored(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(tomli_w.dumps(TINY_GRID | {"method": ["finetune", "er"]}))
    done = invoke("sweep", "grid.toml", "--seeds", "0-1", "--results", "results/all.json")
    assert done.code == 0, done.err
    assert "4 runs stored in results/all.json" in done.out
    assert len(json.loads((tmp_path / "results" / "all.json").read_text())["runs"]) == 4
    again = invoke("sweep", "grid.toml", "--methods", "er", "seed=0", "--epochs", "2", "-q")
    assert again.code == 0
    assert "finetune" not in again.out


def test_runs_in_the_file_of_results_are_skipped_and_kept(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grid.toml").write_text(tomli_w.dumps(TINY_GRID | {"method": "finetune"}))
    words = ["sweep", "grid.toml", "--results", "all.json", "-q"]
    assert invoke(*words, "--seeds", "0").code == 0
    shutil.rmtree(tmp_path / "runs")  # as on another machine
    assert "2 runs stored" in invoke(*words, "--seeds", "0-1").out
    assert not list(tmp_path.glob("runs/*-s0-*"))
    monkeypatch.setattr(scheduler, "start_workers", None)  # nothing is left to run
    again = invoke(*words, "--seeds", "1")
    assert again.code == 0, again.err
    assert "1 of 1 runs are in all.json" in again.err
    seeds = [run["result"]["seed"] for run in json.loads((tmp_path / "all.json").read_text())["runs"]]
    assert seeds == [0, 1]


def test_diversity_is_stored_once_there_is_joint_training_without_noise(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "grid.toml").write_text(tomli_w.dumps(TINY_GRID | {"method": ["aer-abs", "aer-lass"]}))
    words = ["sweep", "grid.toml", "--seeds", "0", "--results", "all.json", "-q"]

    def diversities() -> list[float | None]:
        runs = json.loads((tmp_path / "all.json").read_text())["runs"]
        return [run["result"]["buffer"].get("diversity") for run in runs]

    assert invoke(*words).code == 0
    assert diversities() == [None, None]
    assert "not testable  the buffer of abs is more diverse" in invoke("verify", "all.json").out
    joint = invoke("sweep", "grid.toml", "method=joint", "--noise", "none", "--seeds", "0", "-q")
    assert joint.code == 0, joint.err
    assert invoke(*words).code == 0  # nothing is run again
    assert all(value is not None and value > 0 for value in diversities())
    for place in ("all.json", "runs"):
        assert "not shown  the buffer of abs is more diverse" in invoke("verify", place).out  # one seed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected a grid"),
        (["paper/tabel-1"], "did you mean 'paper/table-1'"),
        (["paper/table-3", "--backend", "cloud"], "expected one of local, ray, slurm"),
        (["paper/table-3", "--backend", "slurm"], "sbatch"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], message: str
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    done = invoke("sweep", *words)
    assert done.code == 2
    assert message in done.err


def test_a_dry_run_of_a_table_of_the_paper_says_which_data_are_missing(invoke: Invoke) -> None:
    done = invoke("sweep", "paper/table-3", "--dry-run", "--data-dir", "nowhere")
    assert "runs      30, 0 finished" in done.out
    assert "remnant data get cifar100" in done.out


def test_tune_writes_a_recipe_with_the_best_rate(invoke: Invoke, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    words = ["--methods", "finetune", "--seeds", "0", "--space", "lr=0.001,0.1", *SMALL, "-q"]
    done = invoke("tune", *[word for word in words if "buffer" not in word])
    assert done.code == 0, done.err
    assert (tmp_path / "digits-tuned.toml").is_file()
    assert "lr=0.1" in done.out
    assert invoke("run", "digits-tuned.toml", "--method", "finetune", "--dry-run").code == 0


def test_verify_has_a_line_for_each_claim_and_for_each_published_result(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    assert "expected results, found none" in invoke("verify").err
    runs = [
        finished(method, seed, faa + seed)
        for seed in (0, 1)
        for method, faa in (("er", 40.0), ("aer-abs", 60.0))
    ]
    store(tmp_path / "results" / "digits.json", runs)
    done = invoke("verify")
    assert done.code == 0
    assert "aer-abs - er +20.0 ± 0.0" in done.out
    assert "not testable  NTU-60" in done.out
    assert "cifar100, symmetric:0.2" in done.out
