"""Saved models: they predict the same bits without the data, for every kind of method."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config, tiny_data
from run_helpers import RunIn, final_state
from tiny_features import TinyFeatures
from torch import nn

from remnant.data import load
from remnant.errors import RemnantError
from remnant.experiment.build import build_learner, build_stream
from remnant.models.model import find_model, read_model

SPR = {"expert_steps": 4, "base_steps": 4, "batch": 10, "features": 6, "finetune_epochs": 2}
CNLL = {"warmup_epochs": 1, "finetune_epochs": 2, "batch": 8, "clean_kept": 3, "noisy_kept": 3}
METHODS: dict[str, dict[str, Any]] = {
    "aer-abs": {},
    "spr": {"algorithm": SPR},
    "cnll": {"algorithm": CNLL},
    "puridiver": {"consolidation": {"epochs": 3, "warmup": 1}},
    "gdumb": {"consolidation": {"epochs": 3}},
}


@pytest.mark.parametrize("method", METHODS)
def test_the_model_of_a_run_predicts_the_same_bits(method: str, run_in: RunIn) -> None:
    config = tiny_config(method=method, tasks=2, epochs=2, **METHODS[method])
    folder = run_in(config)
    learner = build_learner(config, build_stream(config, None))
    learner.load_state_dict(final_state(folder))
    model, x = read_model(find_model(folder)), load("digits", None).test.take(torch.arange(70))
    assert torch.equal(model.logits(x), learner.predict(x))
    assert model.labels == tuple("0123456789")


def two_layers(spec: Any) -> nn.Module:  # noqa: ANN401
    return nn.Sequential(nn.Flatten(), nn.Linear(64, len(spec.classes)))


def test_a_network_that_is_a_python_object_has_to_be_given_again(run_in: RunIn) -> None:
    path = find_model(run_in(tiny_config(tasks=2, epochs=2, net=two_layers)))
    with pytest.raises(RemnantError, match="Python object"):
        read_model(path)
    assert read_model(path, two_layers).logits(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).shape == (2, 10)


def test_a_folder_without_a_model_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match="expected a finished run or a saved learner"):
        find_model(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\0" * 99, b"\xff" * 99])
def test_a_damaged_file_is_one_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(RemnantError, match="cannot be read"):
        read_model(find_model(tmp_path))


def test_the_model_of_a_run_on_features_takes_images(run_in: RunIn, tmp_path: Path) -> None:
    data, order = tiny_data(4), [2, 0, 3, 1]
    config = tiny_config(tasks=2, epochs=2, net=TinyFeatures(), data=data, class_order=order)
    folder = run_in(config, data_dir=tmp_path)
    stream = build_stream(config, tmp_path)
    learner = build_learner(config, stream)
    learner.load_state_dict(final_state(folder))
    model, task = read_model(find_model(folder), TinyFeatures()), stream.tasks[0]
    assert (model.spec.shape, model.labels) == ((1, 6, 6), tuple(f"class-{c}" for c in order))
    images, features = data.train.take(task.id), task.source.take(task.id)
    torch.testing.assert_close(model.logits(images), learner.predict(features))
    with pytest.raises(RemnantError, match="found 1111111111111111"):
        read_model(find_model(folder), TinyFeatures(weights="1" * 64))
