from pathlib import Path

import pytest
import torch
from conftest import tiny_config
from hf_models import save_vit
from own_files import table_of_images
from report_runs import measured, on_disk

from remnant.config import resolve
from remnant.errors import RemnantError
from remnant.report.figures.diversity import class_diversity, clean_joint_run, joint_features
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
    assert clean_joint_run(runs, "digits") is runs[2]
    assert clean_joint_run(runs, "cifar10") is None


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


def test_features_of_frozen_networks_are_not_taken_for_images(run_in, tmp_path: Path) -> None:  # noqa: ANN001
    table = table_of_images(tmp_path, ["a", "b"] * 8, true_label=["a", "b"] * 8)
    net = {"name": "features", "backbone": f"hf:{save_vit(tmp_path / 'vit')}"}
    changes = {"data": f"table:{table}", "tasks": 1, "split": [], "net": net, "per_class": 0, "batch": 4}
    (run,) = find_runs([run_in(tiny_config(method="joint", noise="none", epochs=1, **changes))])
    x = torch.rand(3, resolve(dict(run.config)).spec.shape[0])
    assert joint_features(run)(x, torch.zeros(3, dtype=torch.long)).shape == x.shape
