"""Descriptions of specs and networks as plain values."""

import json

import pytest
from conftest import tiny_config, tiny_data

from remnant.data import entry
from remnant.models.description import config_for, describe_spec, names_of, network_settings, to_spec
from remnant.transforms.resizing import stretched


def test_a_spec_of_images_survives_json() -> None:
    spec = tiny_data().spec
    assert to_spec(json.loads(json.dumps(describe_spec(spec)))) == spec


@pytest.mark.parametrize("name", ["nw-ucla", "cifar10"])
def test_transforms_of_known_datasets_are_found_by_name(name: str) -> None:
    spec, found = entry(name).spec, to_spec(json.loads(json.dumps(describe_spec(entry(name).spec))))
    assert found.transform == spec.transform
    assert (found.shape, found.classes, found.dtype) == (spec.shape, spec.classes, spec.dtype)


def test_the_way_of_resizing_is_kept() -> None:
    assert [describe_spec(entry(name).spec)["resize"] for name in ("food101n", "cifar10")] == [
        "bilinear",
        "upright crop",
    ]
    assert to_spec(describe_spec(entry("food101n").spec)).resize == stretched


def test_a_config_needs_no_samples() -> None:
    config = config_for(tiny_data().spec, {"method": "er", "net": "small:4"})
    assert config.spec.classes == tiny_data().spec.classes


def test_settings_of_the_network_rebuild_the_method() -> None:
    config = tiny_config(method="aer-abs+fit")
    again = config_for(config.spec, network_settings(config))
    assert again.to_method() == config.to_method()
    assert again.net == config.net


def test_numbers_become_names() -> None:
    assert names_of([1, "a"]) == ("1", "a")
