import re
from typing import Any

import pytest

from remnant.config import resolve
from remnant.config.checks import config_problems, unused_settings
from remnant.config.recipe import to_config
from remnant.config.remarks import remarks
from remnant.errors import RemnantError
from remnant.methods.registry import METHODS

SKELETONS = {"data": "nw-ucla", "net": "efficientgcn-b0"}


def problems(**given: Any) -> str:  # noqa: ANN401
    with pytest.raises(RemnantError) as caught:
        resolve(given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"buffer_size": 0}, "aer-abs needs a buffer of at least 2 samples, got 0"),
        ({"epochs": 1}, "never writes to the buffer"),
        ({"tasks": 3}, "split=[3,3,4]"),
        ({"tasks": 10**6}, "tasks: expected 1 to 10 tasks"),
        ({"epochs": 2 * 10**7}, "epochs: expected a value less than or equal to 10000, got 20000000"),
        ({"lr": 0}, "lr: expected a value greater than 0, got 0"),
        ({"name": "a b"}, "name: expected it to match pattern"),
        ({"split": [2, 2]}, "add up to the 10 of digits, got [2, 2] (4)"),
        ({"split": [11, -1]}, "add up to"),
        ({"class_order": "alphabetic"}, "class_order: "),
        ({"class_order": [1, 2]}, "each of the classes 0 to 9 once"),
        ({"class_order": "superclass"}, "superclasses"),
        ({"lr_drops": [70.0]}, "fractions in (0, 1)"),
        ({"batch": 8, "insertion": {"alpha": 0.99}}, "no sample of a batch of 8 is inserted"),
        (
            {"data": "cifar100-coarse", "noise": "asymmetric:0.2"},
            "noise: asymmetric noise needs superclasses or",
        ),
        ({"noise": "superclass-random:0.2"}, "superclasses"),
        ({"noise": "file:nowhere.npy"}, "nowhere.npy: expected a file of labels, found none"),
        ({"method": "finetune", "consolidation": "mixmatch"}, "trains on the buffer, but finetune has none"),
        ({"method": "er", "schedule": "collect"}, "no network is trained before the end of a task"),
        ({"method": "gdumb", "consolidation": "none"}, "choose a consolidation: buffer-fit"),
    ],
)
def test_settings_that_do_not_go_together_are_explained(given: dict[str, Any], words: str) -> None:
    assert words in problems(**given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"consolidation": "dividemix"}, "no trained network to continue from"),
        ({"insertion": "lowest-loss"}, "insertion: samples are scored by the network"),
        ({"replacement": "abs"}, "replacement: samples are scored by the network"),
    ],
)
def test_a_method_that_never_trains_on_the_stream_cannot_use_its_network(
    given: dict[str, Any], words: str
) -> None:
    assert words in problems(method="gdumb", **given)


def test_finetuning_needs_no_buffer_and_one_epoch_is_enough() -> None:
    config = resolve({"method": "finetune", "buffer_size": 0, "epochs": 1})
    assert not config.to_method().uses_buffer(config.epochs)  # type: ignore[attr-defined]


def test_one_epoch_is_enough_for_plain_replay() -> None:
    resolve({"method": "er", "epochs": 1})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data": "nw-ucla"}, "the dataset nw-ucla has skeletons. Use efficientgcn-b0"),
        ({"net": "efficientgcn-b0"}, "net: the network expects skeletons, but the dataset digits"),
        (SKELETONS | {"method": "spr"}, "images"),
        (
            SKELETONS | {"method": "gdumb", "consolidation": {"cutmix": 0.5}},
            "consolidation: CutMix needs images, but gets skeletons of nw-ucla; set consolidation.cutmix=0",
        ),
        (SKELETONS | {"method": "puridiver", "objective": {"cutmix": 0.1}}, "objective: CutMix needs images"),
    ],
)
def test_what_needs_images_is_an_error_for_skeletons(given: dict[str, Any], words: str) -> None:
    with pytest.raises(RemnantError, match=re.escape(words)):
        resolve(given)


def test_skeletons_go_with_all_methods_that_do_not_need_images() -> None:
    for method in METHODS.keys() - {"spr"}:
        config = resolve(SKELETONS | {"method": method})
        assert config.label == method
        assert list(config_problems(config)) == []
        assert getattr(config.consolidation, "cutmix", 0) == getattr(config.objective, "cutmix", 0) == 0


FEATURES = {"data": "cifar10", "net": "features:efficientnet-lite0"}


def test_features_go_with_all_methods_that_do_not_need_images() -> None:
    for method in METHODS.keys() - {"spr"}:
        config = resolve(FEATURES | {"method": method})
        assert config.label == method
        assert list(config_problems(config)) == []
        assert config.spec.kind == "vectors"
        assert getattr(config.consolidation, "cutmix", 0) == getattr(config.objective, "cutmix", 0) == 0


def test_spr_needs_images_or_a_backbone_that_is_trained() -> None:
    with pytest.raises(RemnantError, match="SPR requires images, but gets vectors of cifar10; use another"):
        resolve(FEATURES | {"method": "spr"})
    trained = {"name": "features", "train_backbone": True}
    assert resolve({"data": "cifar10", "method": "spr", "net": trained}).spec.are_images


def test_features_need_images() -> None:
    with pytest.raises(RemnantError, match="net: the network expects images, but the dataset nw-ucla"):
        resolve({"data": "nw-ucla", "net": "features:efficientnet-lite0"})


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        (
            "spr",
            {"lr": 0.5},
            "spr does not use lr; it has algorithm.lr, algorithm.finetune_lr",
        ),
        ("finetune", {"buffer_size": 50}, "finetune does not use buffer_size"),
        ("joint", {"batchnorm": "buffer"}, "joint does not use batchnorm"),
        ("joint", {"insertion": "lowest-loss"}, "joint does not use insertion"),
        ("gdumb", {"lr": 0.5, "momentum": 0.5}, "it has consolidation.lr, consolidation.momentum"),
        ("cnll", {"weight_decay": 0.5}, "algorithm.weight_decay"),
    ],
)
def test_a_setting_that_the_method_does_not_use_is_a_warning(
    method: str, given: dict[str, Any], words: str
) -> None:
    settings = {"method": method} | given
    (line,) = remarks(to_config("digits", settings), "digits", settings)
    assert words in line
    assert remarks(to_config(settings, {}), settings, {}) == []  # a recipe may be for other methods


def test_methods_that_train_and_replay_use_all_settings() -> None:
    assert unused_settings(resolve({"method": "aer-abs"})) == set()
    assert unused_settings(resolve({"method": "er"})) == set()
