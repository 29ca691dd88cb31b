from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hf_models import save_vit
from tiny_features import TinyFeatures
from torch import nn

from remnant.data import DATA
from remnant.errors import RemnantError
from remnant.nets import NETS, Features, build
from remnant.transforms.vector import VectorTransform, standardised

CIFAR10, DIGITS, NW_UCLA = (DATA[name].spec for name in ("cifar10", "digits", "nw-ucla"))


def test_methods_receive_vectors_of_the_backbone() -> None:
    spec = Features(noise=0.3).adapted(CIFAR10)
    assert (spec.shape, spec.dtype, spec.kind) == ((1280,), torch.float32, "vectors")
    assert spec.transform == VectorTransform(0.3)
    assert (spec.name, spec.classes, spec.confused_with) == (
        "cifar10",
        CIFAR10.classes,
        CIFAR10.confused_with,
    )


def test_the_default_head_is_linear_and_has_no_other_parameters() -> None:
    net = build(NETS["features"], Features().adapted(CIFAR10), seed=0)
    assert [p.shape for p in net.parameters()] == [(10, 1280), (10,)]


def test_a_multilayer_head_has_a_linear_layer_on_its_hidden_units() -> None:
    net = build(Features(head="mlp:7"), Features().adapted(CIFAR10), seed=0)
    x = torch.randn(2, 1280)
    assert isinstance(net.head, nn.Linear)
    assert net.features(x).shape == (2, 7)
    assert (net.features(x) >= 0).all()
    assert torch.equal(net(x), net.head(net.features(x)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"head": "mlp"}, "expected head linear or mlp:N .*, got mlp"),
        ({"head": "mlp:0"}, "got mlp:0"),
        ({"backbone": "vgg"}, "expected backbone efficientnet-lite0 or hf:NAME, got vgg"),
        ({"image_size": 7}, "expected image_size 0, or from 8 to 4096, got 7"),
        ({"noise": -0.1}, "expected noise >= 0"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Features(**settings)  # type: ignore[arg-type]


def test_a_backbone_that_is_trained_receives_images_with_its_own_normalisation(tmp_path: Path) -> None:
    features = Features(f"hf:{save_vit(tmp_path)}", head="mlp:4", train_backbone=True)
    for spec in (CIFAR10, DIGITS):
        adapted = features.adapted(spec)
        assert adapted == replace(spec, transform=replace(spec.transform, mean=adapted.transform.mean,
                                                          std=adapted.transform.std))  # fmt: skip
        assert adapted.transform.mean == (0.5,) * spec.shape[0]
        net = build(features, adapted, seed=0)
        images = torch.zeros(2, *spec.shape, dtype=torch.uint8)
        net(adapted.transform.plain(images)).sum().backward()
        assert all(p.grad is not None for p in net.parameters())


def test_the_image_size_is_that_of_the_backbone_unless_it_is_set() -> None:
    assert Features().pretrained.size == 128
    assert Features(image_size=64).load().pretrained.size == 64


def test_images_must_be_grey_or_in_colour() -> None:
    spec = replace(
        CIFAR10, shape=(4, 32, 32), transform=replace(CIFAR10.transform, mean=(0.5,) * 4, std=(1,) * 4)
    )
    with pytest.raises(RemnantError, match="expected images with 1 or 3 channels, got 4 in cifar10"):
        Features().adapted(spec)
    assert Features().adapted(NW_UCLA) == NW_UCLA


def test_a_frozen_backbone_completes_a_network_that_takes_its_features() -> None:
    net, head = TinyFeatures(), nn.Linear(3, 2)
    complete = net.completed(head)
    x = torch.rand(4, 3, 8, 8)
    assert torch.equal(complete(x), head(standardised(x.mean((2, 3)))))
    assert replace(net, train_backbone=True).completed(head) is head
