import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TINY = ["per_class=12", "net=small:4", "epochs=2", "buffer=20", "batch=8"]


def remnant(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "remnant", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_the_last_line_printed_is_the_run_folder(tmp_path: Path) -> None:
    done = remnant("run", *TINY, cwd=tmp_path)
    assert done.returncode == 0
    folder = tmp_path / done.stdout.splitlines()[-1]
    assert json.loads((folder / "result.json").read_text())["finished"]
    for words in ("final average accuracy", "memory purity", "wrong labels stored", "Try next"):
        assert words in done.stdout
    assert "task 5/5  epoch  2/2  learn" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_folder_with_brackets_and_an_equals_sign_is_no_riddle(tmp_path: Path) -> None:
    done = remnant("run", "--out", "a[/b]lr=1", "--method", "finetune", *TINY, cwd=tmp_path)
    assert done.returncode == 0
    folder = done.stdout.splitlines()[-1]
    again = remnant("run", f"{folder}/config.toml", "--out", "a[/b]lr=1", cwd=tmp_path)
    assert "finished earlier" in again.stdout
    assert again.stdout.splitlines()[-1] == folder


def test_what_to_try_next_can_be_tried(tmp_path: Path) -> None:
    words = ["--method", "er", *TINY[:2], *TINY[3:], "epochs=1", "--data-dir", "my data"]
    done = remnant("run", *words, cwd=tmp_path)
    folder = done.stdout.splitlines()[-1]
    # aer-abs would need two epochs.
    assert f"remnant run {folder} --data-dir 'my data' --method er-ace" in done.stdout


def test_quiet_prints_the_folder_and_nothing_else(tmp_path: Path) -> None:
    done = remnant("run", "--quiet", "--method", "finetune", *TINY, cwd=tmp_path)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_dry_run_prints_a_plan_and_leaves_nothing(tmp_path: Path) -> None:
    done = remnant("run", "--dry-run", *TINY, cwd=tmp_path)
    assert done.returncode == 0
    for words in ("# time", "# memory", "# steps", "41.7 % of the labels are wrong"):
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--method", "aer-sba"], "did you mean 'aer-abs'"),
        (["run", "digit"], "did you mean 'digits'"),
        (["run", "lr=fast", "epochs=0"], "epochs:"),
        (["run", "a", "b"], "expected one recipe"),
        (["run", "buffer=20", "--set", "buffer=50"], "each setting once, got buffer"),
        (["run", "cifar10", "--data-dir", "nowhere"], "remnant data get cifar10"),
        (["run", "--noise", "file:nowhere.npy"], "nowhere.npy"),
        (["run", "--noise", f"symmetric:1{'0' * 400}"], "rate expects a number, got 1000"),
        (["run", "--noise", f"symmetric:1{'0' * 5000}"], "rate expects a number, got '1000"),
        (["list", "method"], "did you mean 'methods'"),
        (["data", "check", "cifar"], "did you mean"),
    ],
)
def test_a_users_mistake_is_a_message_and_not_a_traceback(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = remnant(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_needs_no_torch() -> None:
    code = "import sys, remnant.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["list", "--help"], ["data", "--help"]]
)
def test_every_verb_has_help(tmp_path: Path, words: list[str]) -> None:
    done = remnant(*words, cwd=tmp_path)
    assert done.returncode == 0
    assert "remnant" in done.stdout


def test_list_shows_everything_there_is(tmp_path: Path) -> None:
    out = remnant("list", cwd=tmp_path).stdout
    for words in ("aer-abs-noace", "cifar100-coarse", "resnet34:64", "superclass-random", "digits"):
        assert words in out


def test_list_settings_names_the_settings_of_components(tmp_path: Path) -> None:
    out = remnant("list", "settings", cwd=tmp_path).stdout
    assert re.search(r"insertion\.alpha = 0\.75 +lowest-loss: share of", out)
    for words in ("insertion.alpha = 0.75", "schedule.period = 2", "scoring.refresh_every", "seed = 0"):
        assert words in out


def test_a_consolidation_is_shown_at_the_end(tmp_path: Path) -> None:
    words = ["consolidation=mixmatch", "consolidation.epochs=3"]
    done = remnant("run", *TINY, *words, cwd=tmp_path)
    assert done.returncode == 0
    assert "trusted labels" in done.stdout
    assert "task 5/5  consolidate   3/3" in done.stdout
    plan = remnant("run", "--dry-run", *TINY, *words, cwd=tmp_path)
    assert ", consolidate 15\n" in plan.stdout
