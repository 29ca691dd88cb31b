"""The examples run from the command line and from Python, and stay short."""

import json
from pathlib import Path

import pytest
import torch
from cli_helpers import Invoke

import remnant
from remnant.buffer import Buffer, Candidates, Choice
from remnant.extensions import from_file
from remnant.stream import Batch

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = ["per_class=12", "epochs=2", "buffer_size=20", "batch=8", "net=small:4"]
WORDS = {
    "ntd.py": ["--method", f"{EXAMPLES}/ntd.py:NTD"],
    "own_net.py": [f"net={EXAMPLES}/own_net.py:perceptron"],
    "own_loss.py": ["--method", "er", f"objective={EXAMPLES}/own_loss.py:GCE", "objective.q=0.5"],
    "own_folder.py": [],
    "own_dataset.py": [f"data={EXAMPLES}/own_dataset.py:UNVERIFIED", "tasks=2"],
}


def test_every_example_is_tested() -> None:
    assert sorted([*WORDS, "growing_stream.py", "audit.py"]) == sorted(
        path.name for path in EXAMPLES.glob("*.py")
    )


@pytest.mark.parametrize("name", [name for name in WORDS if name != "own_folder.py"])
def test_an_example_runs_from_the_command_line_and_is_finished_then(name: str, invoke: Invoke) -> None:
    own = [word.partition("=")[0] for word in WORDS[name]]
    words = ["run", *(w for w in SMALL if w.partition("=")[0] not in own), *WORDS[name], "-q"]
    done = invoke(*words)
    assert done.code == 0, done.err
    again = invoke(*words[:-1])
    assert "already finished" in again.out
    folder = done.out.splitlines()[-1]
    assert again.out.splitlines()[-1] == folder
    assert "already finished" in invoke("run", folder).out


def test_ntd_is_at_most_25_lines() -> None:
    assert len((EXAMPLES / "ntd.py").read_text().splitlines()) <= 25


def choice(y: list[int], loss: list[float], new_y: int, new_loss: float) -> Choice:
    buffer = Buffer(len(y), (1,))
    stored = Batch(torch.zeros(len(y), 1, dtype=torch.uint8), torch.tensor(y), torch.arange(len(y)))
    buffer.put(torch.arange(len(y)), stored, task=0)
    new = Candidates(
        torch.tensor([0]), torch.tensor([new_y]), torch.tensor([99]), torch.tensor([new_loss]).double()
    )
    losses = torch.tensor(loss).double()
    return Choice(buffer, 1, torch.rand(1, 3), {}, lambda: new, lambda slots: losses[slots])


def test_ntd_evicts_the_highest_loss_of_the_largest_class() -> None:
    replace = from_file(f"{EXAMPLES}/ntd.py:NTD", "method").replacement  # type: ignore[attr-defined]
    assert replace(choice([1, 1, 2], [0.2, 0.9, 5.0], new_y=2, new_loss=1.0)).tolist() == [1]
    # The candidate makes its class the largest, and has the highest loss there: it is discarded itself.
    assert replace(choice([1, 2, 2], [0.2, 0.9, 0.5], new_y=2, new_loss=1.0)).tolist() == [-1]


def test_ntd_in_python_gives_the_result_of_the_command_line(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("run", *SMALL, "--method", f"{EXAMPLES}/ntd.py:NTD", "-q")
    folder = tmp_path / done.out.splitlines()[-1]
    settings = {"per_class": 12, "epochs": 2, "buffer_size": 20, "batch": 8, "net": "small:4"}
    method = from_file(f"{EXAMPLES}/ntd.py:NTD", "method")
    other = remnant.run(method=method, out=tmp_path / "python", **settings)
    results = [json.loads((f / "result.json").read_text()) for f in (folder, other)]
    assert results[0]["accuracy"] == results[1]["accuracy"]
    assert results[0]["buffer"] == results[1]["buffer"]


def test_the_growing_stream_learns_classes_that_arrive_later() -> None:
    main = from_file(f"{EXAMPLES}/growing_stream.py:main", "function")
    assert main(per_class=20) > 0.4  # type: ignore[operator]


def test_a_folder_runs_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "cache"))
    assert len((EXAMPLES / "own_folder.py").read_text().splitlines()) <= 40
    make_photos = from_file(f"{EXAMPLES}/own_folder.py:make_photos", "function")
    make_photos(tmp_path / "stripes")  # type: ignore[operator]
    settings = {"epochs": 2, "net": "small:4", "data.image_size": 8, "buffer_size": 20}
    folder = remnant.run("folder:stripes", **settings)
    result = json.loads((folder / "result.json").read_text())
    assert result["tested_on"] == "held-out share, against the given labels"
    assert result["classes"] == [["falling", "horizontal"], ["rising", "vertical"]]


def test_the_audit_of_a_folder_gives_corrected_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "cache"))
    assert len((EXAMPLES / "audit.py").read_text().splitlines()) <= 40
    from_file(f"{EXAMPLES}/own_folder.py:make_photos", "function")(tmp_path / "stripes")  # type: ignore[operator]
    audit, correct = (from_file(f"{EXAMPLES}/audit.py:{name}", "function") for name in ("audit", "correct"))
    page = audit("stripes", epochs=2, net="small:4", buffer_size=20)  # type: ignore[operator]
    assert page.read_text().count("data:image/png") > 100
    row = (page.parent / "suspects.csv").read_text().splitlines()[1].split(",")
    new = "rising" if row[5] != "rising" else "falling"
    Path("decisions.csv").write_text(
        f"id,path,given,decision,label\n{row[0]},{row[1]},{row[5]},wrong,{new}\n"
    )
    assert correct(page, "decisions.csv") == 1  # type: ignore[operator]
    assert f"./stripes/{row[1]},{new}" in Path("labels.csv").read_text().splitlines()
