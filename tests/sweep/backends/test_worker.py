import io
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from sweep_helpers import TINY_GRID

from remnant.experiment.lock import locked
from remnant.sweep.backends.worker import Job, main, work
from remnant.sweep.grid import expand

(CONFIG,) = expand(TINY_GRID | {"method": "finetune", "seed": 0})


def job(out: Path, **changes: object) -> Job:
    return Job(**({"key": CONFIG.digest(), "config": CONFIG.table(), "out": str(out)} | changes))  # type: ignore[arg-type]


def test_a_job_ends_with_the_name_of_its_run_folder_and_removes_an_earlier_error(tmp_path: Path) -> None:
    first = work(job(tmp_path))
    assert (first.state, first.error) == ("finished", None)
    folder = tmp_path / str(first.folder)
    (folder / "error.txt").write_text("of an earlier attempt")
    assert work(job(tmp_path)) == first
    assert not (folder / "error.txt").exists()


def test_a_job_whose_run_another_process_executes_is_busy(tmp_path: Path) -> None:
    name = str(work(job(tmp_path / "first")).folder)
    with locked(tmp_path / "second" / name):
        assert work(job(tmp_path / "second")).state == "busy"


def test_an_unexpected_error_is_an_outcome_with_its_traceback_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def net(spec):\n    raise OSError('no such weights')\n")
    config = CONFIG.table() | {"net": f"{tmp_path / 'broken.py'}:net"}
    outcome = work(job(tmp_path / "out", config=config))
    assert outcome.state == "failed"
    assert "no such weights" in str(outcome.error)
    (file,) = (tmp_path / "out" / ".sweep" / "errors").iterdir()
    assert "no such weights" in file.read_text()


def test_a_worker_answers_each_line_with_a_line_whatever_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(json.dumps(asdict(job(tmp_path))) + "\n" for _ in range(2))
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    read, write = os.pipe()
    before = os.dup(1)
    os.dup2(write, 1)
    os.close(write)
    try:
        main()
    finally:
        os.dup2(before, 1)
    answers = [json.loads(line) for line in os.fdopen(read).read().splitlines()]
    assert [answer["state"] for answer in answers] == ["finished", "finished"]
