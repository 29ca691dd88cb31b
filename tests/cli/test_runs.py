import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import TINY, Invoke
from report_runs import measured, on_disk
from run_folders import write_run

from remnant.cli.runs import listed
from remnant.report.folders import run_state

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    on_disk(tmp_path / "runs", [measured("er"), measured("aer-abs")])
    return tmp_path / "runs"


def test_a_report_of_a_folder_of_runs_is_written_with_its_figures(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", matplotlib)
    on_disk(tmp_path / "few", [measured("er", accuracy=[[90.0, 80.0]], separation=[], memorisation=[])])
    unfinished = write_run(tmp_path / "few" / "cut", measured("er-ace"))
    (unfinished / "result.json").unlink()
    done = invoke("report", "few", "-o", "new/page.html", "--figures", "drawn")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "new/page.html"
    assert "cut is left out: not finished" in done.err
    assert "<!doctype html>" in (tmp_path / "new" / "page.html").read_text()
    names = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert {"digits-symmetric-0-4-buffer-purity.pdf", "digits-symmetric-0-4-buffer-purity.png"} <= names


@pytest.mark.slow
def test_the_demo_ends_with_a_table_and_the_path_of_a_report(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", matplotlib)
    done = invoke("demo", "--quiet")
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines() if " ± " in line][:4] == [
        "aer-abs", "er-ace", "er", "finetune",
    ]  # fmt: skip
    assert done.out.splitlines()[-1] == "runs/demo.html"
    assert (tmp_path / "runs" / "demo.html").read_text().count("<figure") == 8
    assert len(list(tmp_path.glob("runs/*/report.html"))) == 8


def test_without_its_packages_a_report_is_an_error_before_anything_runs(
    tmp_path: Path, invoke: Invoke
) -> None:
    for words in (["demo"], ["compare", "--methods", "er", "--report", "report.html"]):
        done = invoke(*words)
        assert done.code == 2
        assert "pip install 'remnant[report]'" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_finished_runs_is_an_error(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "empty").mkdir()
    done = invoke("report", "empty")
    assert done.code == 2
    assert "expected finished runs" in done.err
    assert not (tmp_path / "report.html").exists()


def test_runs_are_listed_with_state_accuracy_and_disk_use(runs: Path, invoke: Invoke) -> None:
    lines = invoke("runs").out.splitlines()
    assert lines[0].split() == ["run", "state", "method", "data", "noise", "seed", "FAA", "disk"]
    assert lines[1].split()[1:7] == ["finished", "aer-abs", "digits", "symmetric:0.4", "0", "70.0"]
    assert lines[-1].startswith("2 runs, ")


def test_in_a_narrow_terminal_only_columns_that_are_not_in_the_name_are_listed(runs: Path) -> None:
    states = [run_state(folder) for folder in sorted(runs.iterdir())]
    lines = listed(states, 60)
    assert lines[0].split() == ["run", "state", "FAA", "disk"]
    assert all(len(line) <= 60 for line in lines)


def test_without_runs_the_list_is_empty(invoke: Invoke) -> None:
    assert invoke("runs").out == "0 runs, 0 kB\n"
    done = invoke("runs", "nowhere")
    assert done.code == 2


def test_named_runs_are_removed_with_yes_and_kept_without_an_answer(
    runs: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(path.name for path in runs.iterdir())
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115
    assert invoke("runs", "--remove", names[0]).code == 1
    assert len(list(runs.iterdir())) == 2
    done = invoke("runs", "--remove", names[0], "--yes")
    assert done.code == 0, done.err
    assert f"removed runs/{names[0]}" in done.out
    assert [path.name for path in runs.iterdir()] == names[1:]
    assert invoke("runs", str(runs), "--remove", names[1], "-y").code == 0
    assert list(runs.iterdir()) == []


def test_a_whole_folder_is_never_removed(runs: Path, invoke: Invoke) -> None:
    for words in (["--remove"], ["runs", "--remove"]):
        done = invoke("runs", *words, "--yes")
        assert done.code == 2
        assert "names of the runs" in done.err
    assert "found none" in invoke("runs", "--remove", "no-such-run", "--yes").err
    assert len(list(runs.iterdir())) == 2


def test_check_prints_one_line_for_an_intact_run(invoke: Invoke) -> None:
    folder = invoke("run", "-q", "--method", "er", *TINY).out.strip()
    assert invoke("check", folder).out == f"{folder}: ok, 7 files, finished\n"
    Path(folder, "result.json").unlink()
    done = invoke("check", folder, folder)
    assert done.code == 0
    assert done.out == f"{folder}: ok, 3 files, not finished\n" * 2


def test_check_prints_a_line_for_each_file_if_asked(invoke: Invoke) -> None:
    folder = invoke("run", "-q", "--method", "er", *TINY).out.strip()
    done = invoke("check", "-v", folder)
    assert done.code == 0
    names = [line.removesuffix(": ok").removeprefix(f"{folder}/") for line in done.out.splitlines()]
    *files, saved = names
    assert files[:3] == ["result.json", "config.toml", "metrics.jsonl"]
    assert sorted(files[3:]) == ["buffer.safetensors", "model.safetensors", "suspects.csv"]
    assert Path(saved).parent.name == "checkpoint"


def test_check_names_the_damaged_files_of_several_runs_and_changes_nothing(invoke: Invoke) -> None:
    a, b = (Path(invoke("run", "-q", "--method", "er", *TINY, f"seed={seed}").out.strip()) for seed in (0, 1))
    (b / "metrics.jsonl").write_text("other")
    (b / "buffer.safetensors").unlink()
    newest = max((b / "checkpoint").iterdir())
    newest.write_bytes(b"")
    done = invoke("check", str(a), str(b))
    assert done.code == 1
    assert f"{b}/metrics.jsonl: expected sha256 " in done.out
    assert f"{b}/buffer.safetensors: No such file or directory\n" in done.out
    assert f"{newest}: its 0 bytes do not match the digest in its name\n" in done.out
    assert done.out.startswith(f"{a}: ok, 7 files, finished\n")
    assert len(done.out.splitlines()) == 1 + 3
    assert (b / "metrics.jsonl").read_text() == "other"
    assert newest.exists()


def test_check_notices_a_changed_config_of_an_unfinished_run(invoke: Invoke) -> None:
    folder = Path(invoke("run", "-q", "--method", "er", *TINY).out.strip())
    (folder / "result.json").unlink()
    assert invoke("check", str(folder)).code == 0
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("epochs = 2", "epochs = 3"))
    done = invoke("check", str(folder))
    assert done.code == 1
    assert f"{config}: it has changed since the last checkpoint\n" in done.out


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes().replace(b"0", b"1", 1)),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes() + b"something else\n"),
        lambda path: path.write_bytes(path.read_bytes() + b"[]\n"),
        Path.unlink,
    ],
)
def test_check_notices_damaged_metrics_of_an_unfinished_run(
    invoke: Invoke, damage: Callable[[Path], object]
) -> None:
    folder = Path(invoke("run", "-q", "--method", "er", *TINY).out.strip())
    (folder / "result.json").unlink()
    damage(folder / "metrics.jsonl")
    done = invoke("check", str(folder))
    assert done.code == 1
    assert done.out.startswith(f"{folder}/metrics.jsonl: ")
    assert done.out.endswith("; it is written again when the run is resumed\n")


def test_check_accepts_metrics_that_were_written_after_the_last_checkpoint(invoke: Invoke) -> None:
    folder = Path(invoke("run", "-q", "--method", "er", *TINY).out.strip())
    (folder / "result.json").unlink()
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"event": "epoch"}\n{"event": "ta')  # a process that was killed while it was writing
    assert invoke("check", str(folder)).code == 0


def test_check_notices_a_link_to_nowhere_in_place_of_the_results(invoke: Invoke) -> None:
    command = ["run", "-q", "--method", "er", *TINY]
    folder = Path(invoke(*command).out.strip())
    (folder / "result.json").unlink()
    (folder / "result.json").symlink_to("nowhere")
    assert f"{folder}/result.json: No such file or directory" in invoke("check", str(folder)).out
    assert "result.json is damaged" in invoke(*command).err
    assert invoke("check", str(folder)).code == 0


def test_check_of_something_else_is_not_ok(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in (".", "nowhere", "file", "file/x", "a" * 300):
        done = invoke("check", name)
        assert done.code in (1, 2)
        assert name in done.out + done.err


def test_check_says_what_to_do_with_a_damaged_checkpoint_of_a_finished_run(invoke: Invoke) -> None:
    command = ["run", "-q", "--method", "er", *TINY]
    folder = invoke(*command).out.strip()
    newest = max(Path(folder, "checkpoint").iterdir())
    newest.write_bytes(b"")
    assert "already finished" in invoke("run", *command[2:]).out  # so it repairs nothing
    damaged = invoke("check", folder)
    assert damaged.code == 1
    assert f"{newest}: its 0 bytes do not match the digest in its name; the run is finished, " in damaged.out
    newest.unlink()
    assert invoke("check", folder).code == 0


def test_check_notices_a_checkpoint_of_another_run(invoke: Invoke) -> None:
    a, b = (Path(invoke("run", "-q", "--method", "er", *TINY, f"seed={seed}").out.strip()) for seed in (0, 1))
    (a / "result.json").unlink()
    assert invoke("check", str(a)).code == 0
    other = max((b / "checkpoint").iterdir())
    (a / "checkpoint" / other.name).write_bytes(other.read_bytes())
    done = invoke("check", str(a))
    assert done.code == 1
    assert f"{other.name}: expected a checkpoint of run {a.name}, found {b.name}\n" in done.out
