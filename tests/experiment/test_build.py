from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config, tiny_data
from torch import nn

from remnant.config import Config
from remnant.data import load
from remnant.errors import RemnantError
from remnant.experiment.build import (
    build_backend,
    build_dataset,
    build_learner,
    build_stream,
    data_notes,
    net_builder,
    plan_stream,
)
from remnant.methods.replay import ReplayLearner
from remnant.nets.pretrained.backbone import LITE0


def test_the_known_noise_rate_is_that_of_the_training_samples() -> None:
    for validation in (0.0, 0.25):
        config = tiny_config(method="er+coteaching", noise="symmetric:0.4", validation=validation)
        stream = build_stream(config, None)
        trained_on = [i for task in stream.tasks for i in task.id.tolist()]
        noisy = [i for i in range(len(stream.truth)) if stream.truth[i] != stream.observed[i]]
        expected = len(set(trained_on) & set(noisy)) / len(trained_on)
        assert stream.noise_rate == pytest.approx(expected)
        # Held-out samples have another noise rate, which the method must not know.
        overall = len(noisy) / len(stream.truth)
        assert (stream.noise_rate == pytest.approx(overall)) == (not validation)
        learner = build_learner(config, stream)
        assert isinstance(learner, ReplayLearner)
        assert learner.consolidation is not None
        assert learner.consolidation.context.noise_rate == stream.noise_rate


def test_the_subset_is_the_same_for_all_seeds_and_the_noise_is_not() -> None:
    (a, noisy_a), (b, noisy_b) = (build_dataset(tiny_config(seed=seed), None) for seed in (0, 1))
    assert np.array_equal(a.index, b.index)
    assert len(a.y) == 120
    assert not np.array_equal(noisy_a, noisy_b)


FEATURES = {"name": "features", "image_size": 8, "head": "mlp:5"}


def feature_config(**changes: Any) -> Config:  # noqa: ANN401
    return tiny_config(**{"data": tiny_data(rows=2), "per_class": 0, "tasks": 3, "net": FEATURES, **changes})


def test_features_replace_images_after_the_noise_is_drawn(tmp_path: Path) -> None:
    images, features = (build_stream(feature_config(net=net), tmp_path) for net in ("small", FEATURES))
    assert torch.equal(images.observed, features.observed)
    assert torch.equal(images.index, features.index)
    assert images.fingerprint != features.fingerprint
    assert features.spec.shape == (1280,)
    assert features.tasks[0].take(torch.arange(2)).x.shape == (2, 1280)


def test_the_plan_of_a_stream_computes_no_features(tmp_path: Path) -> None:
    config = feature_config()
    stream, missing = plan_stream(config, tmp_path)
    assert missing == 12  # the test images are training images, too
    assert list(tmp_path.iterdir()) == []
    real = build_stream(config, tmp_path)
    again, missing = plan_stream(config, tmp_path)
    assert missing == 0
    assert again.fingerprint == real.fingerprint
    assert [len(task) for task in stream.tasks] == [len(task) for task in real.tasks]
    assert plan_stream(feature_config(net="small"), tmp_path)[1] == 0


def test_a_run_depends_on_the_pretrained_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    for trained in (False, True):
        config = tiny_config(net={**FEATURES, "train_backbone": trained})
        before = config.run_id("data")
        with monkeypatch.context() as patch:
            other = {"efficientnet-lite0": (replace(LITE0, weights="1" * 64), None)}
            patch.setattr("remnant.nets.pretrained.backbone.BACKBONES", other)
            assert config.run_id("data") != before
        assert config.run_id("data") == before


def test_a_dataset_object_is_used_as_it_is() -> None:
    data = tiny_data()
    config = tiny_config(data=data, per_class=0, tasks=3, noise="none")
    dataset, observed = build_dataset(config, None)
    assert dataset is data
    assert np.array_equal(observed, data.y)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda y: y.tolist(), "an array of 120 labels from 0 to 9, got list"),
        (lambda y: y[:-1], r"got int64 of shape \(119,\)"),
        (lambda y: y + 0.5, r"got float64 of shape \(120,\)"),
        (lambda y: y + 5, "got labels from 5 to 14"),
        (lambda y: None, "got NoneType"),
    ],
)
def test_a_noise_that_does_not_return_labels_is_an_error(labels: Any, words: str) -> None:  # noqa: ANN401
    def broken(dataset: Any, rng: np.random.Generator) -> Any:  # noqa: ANN401
        return labels(dataset.y)

    with pytest.raises(RemnantError, match=rf"broken.*expected .*{words}"):
        build_stream(tiny_config(noise=broken), None)


def test_joint_training_has_one_task_with_all_samples() -> None:
    stream = build_stream(tiny_config(method="joint"), None)
    assert [len(task) for task in stream.tasks] == [120]
    assert len(stream.tests) == 5


def test_networks_of_one_name_have_the_same_initial_weights() -> None:
    config = tiny_config(channels_last=True)
    new_net = net_builder(config, build_stream(config, None).spec, build_backend(config))
    a, b, other = new_net("net"), new_net("net"), new_net("expert")
    for name, value in a.state_dict().items():
        assert torch.equal(value, b.state_dict()[name])
    assert any(not torch.equal(v, other.state_dict()[n]) for n, v in a.state_dict().items())
    weight = next(p for p in a.parameters() if p.dim() == 4)
    assert weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (lambda spec: nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), r"got \[2, 7\] for two inputs"),
        (
            lambda spec: nn.Sequential(nn.Flatten(), nn.Linear(99, 10)),
            "RuntimeError: mat1 and mat2",
        ),
        (lambda spec: nn.Conv2d(3, 10, 3), "failed with RuntimeError: Given groups=1"),
        (lambda spec: nn.Linear(8, 10), r"got \[2, 1, 8, 10\]"),
        (lambda spec: nn.LSTM(8, 10), "failed with "),
        (lambda spec: spec.nothing, "failed with AttributeError"),
        (lambda: nn.Flatten(), "failed with TypeError"),
    ],
)
def test_a_network_that_does_not_compute_logits_is_an_error(net: Any, message: str) -> None:  # noqa: ANN401
    net.__qualname__ = "mine"
    config = tiny_config(net=net)
    expected = r"net mine: expected a network from inputs \(B, 1, 8, 8\) to logits \(B, 10\), .*"
    with pytest.raises(RemnantError, match=expected + message):
        build_learner(config, build_stream(config, None))


def test_files_that_are_left_out_are_listed_and_an_error_if_strict() -> None:
    stream = build_stream(tiny_config(data=load("digits", None)), None)
    assert data_notes(stream, strict=True) == []
    reasons = {0: "no label", 1: "listed before, in line 7", 2: "listed before, in line 8"}
    skipped = {f"{i}.jpg": reasons.get(i, f"truncated (by {i} bytes)") for i in range(1200)}
    broken = replace(stream, skipped=skipped, notes=("a class is empty",))
    count = "1,200 left out: 1,197 x truncated, 2 x listed before, 1 x no label"
    assert data_notes(broken, strict=False, most=2) == [
        "left out: 0.jpg: no label",
        "left out: 1.jpg: listed before, in line 7",
        f"{count}; all of them are listed in result.json",
        "note: a class is empty",
    ]
    few = replace(stream, skipped=dict(list(skipped.items())[:2]), notes=())
    assert data_notes(few, strict=False, most=2) == [
        "left out: 0.jpg: no label",
        "left out: 1.jpg: listed before, in line 7",
    ]
    with pytest.raises(RemnantError, match=r"1,200 left out: .*; first: 0\.jpg: no label\. Fix them"):
        data_notes(broken, strict=True)
