from pathlib import Path

import pytest
import torch
from conftest import tiny_config
from hf_models import save_vit
from own_files import table_of_images
from report_runs import measured, on_disk
from run_helpers import run_to_end
from tiny_features import TinyFeatures

from remnant.config import resolve
from remnant.errors import RemnantError
from remnant.report.figures import diversity
from remnant.report.figures.diversity import (
    Features,
    class_diversity,
    clean_joint_run,
    joint_features,
    mean_diversity,
    with_diversity,
)
from remnant.report.runs import FinishedRun, find_runs

CLEAN = {"noise": "none", "noise_rate": 0.0}


def test_the_joint_run_on_clean_labels_of_the_dataset_is_found() -> None:
    runs = [
        measured("joint", 0),  # noisy
        measured("joint", 2, **CLEAN),
        measured("joint", 1, **CLEAN),
        measured("joint", 0, data="fashion", **CLEAN),
        measured("er", 0, **CLEAN),
    ]
    assert clean_joint_run(runs, measured("er")) is runs[2]
    assert clean_joint_run(runs, measured("er", data="cifar10")) is None


def test_a_joint_run_on_another_folder_of_the_same_name_is_not_used() -> None:
    at = [{"data": {"name": "folder", "path": f"/{place}/photos"}} for place in ("a", "b")]
    joint = measured("joint", 0, at[0], data="photos", **CLEAN)
    assert clean_joint_run([joint], measured("er", 0, at[0], data="photos")) is joint
    assert clean_joint_run([joint], measured("er", 0, at[1], data="photos")) is None


def test_diversity_is_the_deviation_of_features_scaled_by_occurrence(tmp_path: Path) -> None:
    (run,) = on_disk(tmp_path, [measured("er")])  # labels 2, 0, 1, 0
    features = torch.tensor([[1.0, 1.0], [0.0, 4.0], [5.0, 5.0], [2.0, 4.0]])
    # Class 0: deviations 1 and 0, mean 0.5; 2 of 4 samples, 4 classes: times 2.
    assert class_diversity(run, lambda x, y: features) == {"zero": 1.0, "one": 0.0, "two": 0.0}
    assert class_diversity(measured("finetune", buffers={}), lambda x, y: features) is None


def test_features_are_those_of_the_trained_joint_network(run_in, tmp_path: Path) -> None:  # noqa: ANN001
    folder = run_in(tiny_config(method="joint", noise="none", epochs=1))
    (run,) = find_runs([folder])
    x, y = torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.zeros(3, dtype=torch.long)
    features = joint_features(run)(x, y)
    assert features.shape[0] == 3
    assert torch.equal(features[0], features[1])
    for path in (folder / "checkpoint").iterdir():
        path.unlink()
    with pytest.raises(RemnantError, match="expected a checkpoint"):
        joint_features(FinishedRun(run.folder, run.config, run.result))


def test_the_diversity_of_a_buffer_is_the_mean_over_all_classes(tmp_path: Path) -> None:
    (run,) = on_disk(tmp_path, [measured("er")])  # labels 2, 0, 1, 0; four classes
    features = torch.tensor([[1.0, 1.0], [0.0, 4.0], [5.0, 5.0], [2.0, 4.0]])
    assert mean_diversity(run, lambda x, y: features) == 0.25  # 1 for class 0, see above; 0 for the others
    assert mean_diversity(measured("finetune", buffers={}), lambda x, y: features) is None


def test_diversity_is_added_to_runs_with_a_folder_and_joint_training_on_the_same_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = torch.tensor([[1.0, 1.0], [0.0, 4.0], [5.0, 5.0], [2.0, 4.0]])
    used: list[int] = []

    def pretend(run: FinishedRun) -> Features:
        used.append(run.seed)
        return lambda x, y: features

    monkeypatch.setattr(diversity, "joint_features", pretend)
    measured_runs = [
        measured("er", 0, config_digest="a"),
        measured("er", 1, config_digest="b"),
        measured("er", 0, {"net": "resnet18"}, config_digest="c"),
        measured("finetune", 0, config_digest="d", buffer=None, buffers={}),
        measured("joint", 3, config_digest="e", buffer=None, buffers={}, **CLEAN),
    ]
    folders = on_disk(tmp_path, measured_runs)
    stored = [FinishedRun(Path("all.json"), run.config, run.result) for run in measured_runs]
    gone = measured("er", 2, config_digest="f")
    notes: list[str] = []
    found = {
        run.digest: run.result["buffer"] for run in with_diversity([*stored, gone], folders, notes.append)
    }
    values = {digest: (buffer or {}).get("diversity") for digest, buffer in found.items()}
    assert values == {"a": 0.25, "b": 0.25, "c": None, "d": None, "e": None, "f": None}
    assert found["a"]["purity"] == 75.0
    assert (used, notes) == ([3], [])
    assert "diversity" not in stored[0].result["buffer"]


def test_an_unreadable_joint_network_is_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(run: FinishedRun) -> Features:
        raise RemnantError("no checkpoint")

    monkeypatch.setattr(diversity, "joint_features", fail)
    runs = [measured("er", seed, config_digest=f"{seed}") for seed in (0, 1)]
    runs.append(measured("joint", 0, config_digest="j", buffer=None, buffers={}, **CLEAN))
    notes: list[str] = []
    found = with_diversity(runs, on_disk(tmp_path, runs), notes.append)
    assert [run.result for run in found] == [run.result for run in runs]
    assert notes == ["diversity is left out: no checkpoint"]


def test_features_of_a_head_are_those_of_its_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "data"))  # where features are stored
    net = TinyFeatures(backbone="efficientnet-lite0", head="mlp:4")
    config = tiny_config(method="joint", noise="none", epochs=1, net=net)
    folder = run_to_end(config, tmp_path / "runs")
    (run,) = find_runs([folder])
    monkeypatch.setattr(diversity, "resolve", lambda settings: config)  # a file cannot contain this network
    features = joint_features(run)(torch.rand(5, 3), torch.zeros(5, dtype=torch.long))
    assert features.shape == (5, 4)


def test_features_of_frozen_networks_are_not_taken_for_images(run_in, tmp_path: Path) -> None:  # noqa: ANN001
    table = table_of_images(tmp_path, ["a", "b"] * 8, true_label=["a", "b"] * 8)
    net = {"name": "features", "backbone": f"hf:{save_vit(tmp_path / 'vit')}"}
    changes = {"data": f"table:{table}", "tasks": 1, "split": [], "net": net, "per_class": 0, "batch": 4}
    (run,) = find_runs([run_in(tiny_config(method="joint", noise="none", epochs=1, **changes))])
    x = torch.rand(3, resolve(dict(run.config)).spec.shape[0])
    assert joint_features(run)(x, torch.zeros(3, dtype=torch.long)).shape == x.shape
