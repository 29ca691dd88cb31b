import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from run_helpers import COST, RunIn, result
from safetensors.torch import load_file
from torch import nn

from remnant.data import Spec, load
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import History
from remnant.experiment.result import (
    buffers,
    consolidation,
    cost,
    damage,
    git_commit,
    read_result,
)

FIT = {"method": "aer-abs", "tasks": 2, "epochs": 2}


def test_result_json_has_the_documented_content(run_in: RunIn) -> None:
    found = result(run_in(tiny_config()))
    assert found["method"] == "aer-abs"
    assert found["noise"] == "symmetric:0.4"
    assert found["net"] == "small:4"
    assert found["finished"] is True
    assert found["tested_on"] == "test split"
    assert [len(row) for row in found["accuracy"]] == [5] * 5
    for t, row in enumerate(found["accuracy"]):
        assert all(0 <= value <= 100 for value in row[: t + 1])
        assert row[t + 1 :] == [None] * (4 - t)
    assert found["faa"] == pytest.approx(sum(found["accuracy"][-1]) / 5)
    assert {"size", "noisy", "purity", "balance", "duplicates"} <= found["buffer"].keys()
    assert found["buffer"]["size"] == 20
    assert found["buffer_samples"] == {"peak": 20, "budget": 20}
    assert found["buffers"]["buffer"]["size"] == 20
    assert len(found["separation"]) == 5 * 4
    first = {"task": 0, "epoch": 0, "phase": "forget"}
    assert found["separation"][0] == {**first, "auroc": None, "loss_clean": None, "loss_noisy": None}
    assert found["separation"][-1]["loss_clean"] > 0
    assert len(found["memorisation"]) == 5 * 4
    assert found["memorisation"][0].items() > first.items()
    assert {"loss_clean", "loss_noisy", "memorised", "recovered"} < found["memorisation"][0].keys()
    assert found["choices"]["schedule"] == {"name": "alternate", "period": 2}
    assert found["versions"]["torch"] == version("torch")
    assert len(found["accuracy_untrained"]) == 5
    gains = [a - b for a, b in zip(found["accuracy_next"], found["accuracy_untrained"][1:], strict=True)]
    assert found["fwt"] == pytest.approx(sum(gains) / 4)
    for key in ("ff", "aia", "bwt", *COST, "git", "skipped"):
        assert key in found


def plain(spec: Spec) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, len(spec.classes)))


def test_a_custom_network_is_named_by_its_function(tmp_path: Path, run_in: RunIn) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from remnant.nets.small import SmallNet\n\n\ndef own(s): return SmallNet(1, 10, 4)\n")
    nets = {"plain": plain, "mine.py:own": f"{path}:own"}
    for name, net in nets.items():
        assert result(run_in(tiny_config(method="finetune", epochs=1, net=net)))["net"] == name


def test_the_buffer_file_has_what_result_json_reports(run_in: RunIn) -> None:
    folder = run_in(tiny_config())
    buffer = load_file(folder / "buffer.safetensors")
    assert buffer["x"].dtype == torch.uint8
    assert len(buffer["y"]) == len(buffer["loss"]) == result(folder)["buffer"]["size"]
    truth = torch.from_numpy(load("digits", None).y)[buffer["index"]]
    assert 100 * (truth == buffer["y"]).double().mean() == pytest.approx(result(folder)["buffer"]["purity"])


def test_a_run_without_consolidation_has_none_in_its_result(run_in: RunIn) -> None:
    assert result(run_in(tiny_config()))["consolidation"] is None


def test_epochs_without_a_division_are_counted_by_reason(run_in: RunIn) -> None:
    config = tiny_config(**FIT, buffer_size=2, consolidation={"name": "mixmatch", "epochs": 3})
    found = result(run_in(config))["consolidation"]
    assert found["fallback"] == {"fewer than 3 samples": 6}
    assert found["precision"] is None


def test_consolidation_is_summarised_over_all_divisions() -> None:
    clean = {"trusted": 4, "precision": 50.0, "recall": None, "f1": 40.0}
    clean |= {"noisy_precision": 10.0, "noisy_recall": 20.0, "noisy_f1": None, "label_correction": None}
    records: list[dict[str, Any]] = [
        {"division": None},
        {"division": [clean, {"fallback": "too few"}]},
        {"division": [clean | {"precision": 100.0}]},
    ]
    assert consolidation(records) == {
        "epochs": 3,
        "divisions": 3,
        "fallback": {"too few": 1},
        "trusted": 4,
        "precision": 75,
        "recall": None,
        "f1": 40,
        "noisy_precision": 10,
        "noisy_recall": 20,
        "noisy_f1": None,
        "label_correction": None,
    }
    assert consolidation([]) is None


def test_the_mean_purity_of_a_buffer_is_over_all_splits_of_samples() -> None:
    def record(event: str, clean: float | None) -> dict[str, Any]:
        return {"event": event, "buffers": {"clean": {"size": 3, "purity": clean}}}

    lines = [record("split", 100.0), record("split", None), record("task", 10.0), record("split", 50.0)]
    found = buffers([*lines, record("task", 80.0)])
    assert found == {"clean": {"size": 3, "purity": 80.0, "mean_purity": 75.0}}
    assert buffers([record("task", 80.0)])["clean"]["mean_purity"] is None


def test_gdumb_has_a_complete_accuracy_matrix_and_forgetting(run_in: RunIn) -> None:
    found = result(run_in(tiny_config(method="gdumb", consolidation={"epochs": 3})))
    assert found["method"] == "gdumb"
    assert [sum(value is not None for value in row) for row in found["accuracy"]] == [1, 2, 3, 4, 5]
    assert isinstance(found["ff"], float)


def test_time_is_reported_by_kind_of_work(run_in: RunIn) -> None:
    folder = run_in(tiny_config(**FIT, consolidation={"name": "buffer-fit", "epochs": 3}))
    assert set(result(folder)["seconds_per_phase"]) == {"forget", "learn", "consolidate"}
    assert cost(History(samples=60, phase_seconds={"a": 2.0, "b": 1.0}))["images_per_second"] == 20
    assert cost(History())["images_per_second"] is None


def test_the_commit_is_that_of_the_checkout_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = git_commit()
    assert found is None or found.removesuffix("-dirty").isalnum()
    monkeypatch.setattr("remnant.experiment.result.__file__", str(tmp_path / "result.py"))
    assert git_commit() is None


def test_result_json_has_the_hashes_of_all_files_and_of_itself(run_in: RunIn) -> None:
    folder = run_in(tiny_config(**FIT))
    found = result(folder)
    assert found["files"] == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in (
            "config.toml",
            "metrics.jsonl",
            "buffer.safetensors",
            "suspects.csv",
            "model.safetensors",
        )
    }
    assert damage(folder) == {}
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    assert damage(folder) == {"result.json": "its content does not match its sha256"}
    (folder / "result.json").write_text(json.dumps(json.loads(text)))  # other spaces are not damage
    assert damage(folder) == {}


def test_a_result_without_its_hash_is_damaged(run_in: RunIn) -> None:
    folder = run_in(tiny_config(**FIT))
    content = {key: value for key, value in result(folder).items() if key != "sha256"}
    (folder / "result.json").write_text(json.dumps(content))
    assert damage(folder) == {"result.json": "its content does not match its sha256"}


WITHOUT_RESULTS = ["", "{", "[]", "3", "{}", '{"finished": false}', '{"finished": true, "files": [1]}']


@pytest.mark.parametrize("text", [*WITHOUT_RESULTS, pytest.param("[" * 10**5, id="nested"), "1" * 5000])
def test_a_result_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(
        RemnantError, match=r"result\.json: expected the results of a finished run, but .+\. Rep"
    ):
        read_result(tmp_path)
    assert damage(tmp_path).keys() == {"result.json"}
