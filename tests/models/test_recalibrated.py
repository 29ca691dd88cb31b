"""Predictions with the BatchNorm statistics of the buffer: in runs, models and learners."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from learner_helpers import some_images
from run_helpers import RunIn, final_state
from tiny_features import TinyFeatures
from torch import nn

from remnant import Learner
from remnant.data import load
from remnant.engine.batchnorm import recalibrated
from remnant.experiment.build import build_learner, build_stream
from remnant.models.model import find_model, read_model


def statistics(net: nn.Module) -> list[list[float]]:
    layers = [layer for layer in net.modules() if isinstance(layer, nn.BatchNorm2d)]
    return [layer.running_mean.tolist() for layer in layers if layer.running_mean is not None]


@pytest.mark.parametrize(
    "changes", [{}, {"method": "gdumb", "consolidation": {"epochs": 3}}, {"method": "finetune"}]
)
def test_training_is_the_same_and_predictions_have_the_statistics_of_the_buffer(
    changes: dict[str, Any],
) -> None:
    changes = {"tasks": 2, "epochs": 2} | changes
    config = tiny_config(**changes, batchnorm="buffer")
    stream = build_stream(config, None)
    learner, other = build_learner(config, stream), build_learner(tiny_config(**changes), stream)
    for both in zip(learner.learn(stream.tasks[0]), other.learn(stream.tasks[0]), strict=True):
        assert both[0] == both[1]
    assert statistics(learner.learner.network()) == statistics(other.network())  # type: ignore[attr-defined]
    buffer = next(iter(learner.buffers().values()), None)
    if buffer is None:
        assert statistics(learner.network()) == statistics(other.network())
    else:
        expected = recalibrated(other.network(), buffer.samples().x, stream.spec.transform.plain)
        assert statistics(learner.network()) == statistics(expected) != statistics(other.network())


def test_the_model_of_a_run_has_them_too(run_in: RunIn) -> None:
    config = tiny_config(tasks=2, epochs=2, batchnorm="buffer")
    folder = run_in(config)
    learner = build_learner(config, build_stream(config, None))
    learner.load_state_dict(final_state(folder))
    model, x = read_model(find_model(folder)), load("digits", None).test.take(torch.arange(70))
    assert torch.equal(model.logits(x), learner.predict(x))
    other = build_learner(tiny_config(tasks=2, epochs=2), build_stream(config, None))
    other.load_state_dict(final_state(folder))
    assert not torch.equal(model.logits(x), other.predict(x))


def test_a_learner_predicts_with_them_and_still_grows(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"net": "small:4", "buffer_size": 10, "epochs": 1, "batch": 8}
    learners = [Learner("er-ace", batchnorm=name, **settings) for name in ("buffer", "stream")]
    for learner in learners:
        learner.learn(some_images(8), [0, 1] * 4)
        learner.learn(some_images(8, seed=1), [0, 2] * 4)
    buffer, stream = (learner.predict_proba(some_images(8)) for learner in learners)
    assert buffer.shape == (8, 3)
    assert (buffer != stream).any()
    learners[1].save(tmp_path / "stream")
    changed = Learner.load(tmp_path / "stream", batchnorm="buffer").predict_proba(some_images(8))
    assert (changed == buffer).all()


def test_a_learner_on_frozen_features_which_have_no_batchnorm_is_the_same() -> None:
    settings: dict[str, Any] = {"net": TinyFeatures(), "buffer_size": 10, "epochs": 1, "batch": 8}
    x = some_images(8).repeat(3, 1)
    learners = [Learner("er", batchnorm=name, **settings) for name in ("buffer", "stream")]
    buffer, stream = (learner.learn(x, [0, 1] * 4).predict_proba(x) for learner in learners)
    assert (buffer == stream).all()


def test_a_run_without_the_setting_keeps_its_folder() -> None:
    config = tiny_config(batchnorm="stream")
    assert config.digest() == tiny_config().digest() != tiny_config(batchnorm="buffer").digest()
    assert "batchnorm" not in config.table()
