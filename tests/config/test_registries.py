from dataclasses import replace

import pytest

from remnant.config.registries import (
    COMPONENTS,
    CUSTOM,
    METHOD_NAMES,
    OF_METHOD,
    REGISTRIES,
    REQUIRED,
    components_of,
    describe_algorithm,
    find_method,
    fitted_to,
    is_same_method,
)
from remnant.data import DATA
from remnant.methods.consolidation import MixMatch
from remnant.methods.epoch_schedule import Alternate
from remnant.methods.registry import AER_ABS, GDUMB, METHODS, PURIDIVER
from remnant.methods.replay import Replay
from remnant.methods.spr import Spr


@pytest.mark.parametrize("kind", REGISTRIES)
def test_every_built_in_component_has_what_is_required_of_its_kind(kind: str) -> None:
    for value in REGISTRIES[kind].values():
        assert [key for key in REQUIRED[kind] if not hasattr(value, key)] == []


def test_a_method_is_found_by_name_and_with_the_suffix_of_a_consolidation() -> None:
    assert find_method("aer-abs") is METHODS["aer-abs"]
    assert find_method("er-ace+consolidation") == replace(METHODS["er-ace"], consolidation=MixMatch())
    assert find_method("er-ace+alpha+dividemix") is not None  # a plus sign may be part of a name
    assert find_method("er-ace+nonsense") is None
    assert find_method("nonsense+fit") is None
    assert find_method("spr+fit") is None  # only a replay method has a consolidation
    assert find_method(CUSTOM) == Replay()


def test_a_replay_method_has_six_components_and_spr_none() -> None:
    assert components_of(AER_ABS) == COMPONENTS
    assert components_of(Spr()) == ()
    assert (*COMPONENTS, "algorithm") == OF_METHOD


def test_an_algorithm_is_described_by_name_and_settings() -> None:
    table = describe_algorithm(Spr(expert_steps=7), None)
    assert (table["name"], table["expert_steps"]) == ("spr", 7)
    assert describe_algorithm(AER_ABS, None) == {"name": "replay"}


def test_methods_that_differ_in_tuned_settings_are_the_same_method() -> None:
    method = replace(AER_ABS, consolidation=MixMatch())
    assert is_same_method(replace(method, consolidation=MixMatch(lr=0.5)), method)
    assert not is_same_method(replace(method, consolidation=MixMatch(views=7)), method)
    assert not is_same_method(replace(method, schedule=Alternate(7)), method)
    assert not is_same_method(Spr(), method)


@pytest.mark.parametrize("method", [GDUMB, PURIDIVER])
def test_a_method_for_skeletons_does_not_use_cutmix(method: Replay) -> None:
    fitted = fitted_to(method, DATA["nw-ucla"].spec)
    assert isinstance(fitted, Replay)
    for name in COMPONENTS:
        assert getattr(getattr(fitted, name), "cutmix", 0) == 0
    assert any(getattr(getattr(method, name), "cutmix", 0) for name in COMPONENTS)
    assert fitted_to(method, DATA["digits"].spec) is method


def test_every_method_has_a_description() -> None:
    assert list(METHOD_NAMES)[: len(METHODS)] == list(METHODS)
    assert all(METHODS[name].about for name in METHODS)
