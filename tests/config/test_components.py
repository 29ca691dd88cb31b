import math
from dataclasses import dataclass
from functools import partial

import pytest

from remnant.buffer import LowestLoss, Reservoir, asymmetric_victim
from remnant.config.components import as_table, build, describe, name_of, short
from remnant.config.registries import REGISTRIES
from remnant.methods.epoch_schedule import Alternate
from remnant.noise import FromFile, Symmetric
from remnant.settings import literal, setting


def built(kind: str, value: object) -> object:
    registry = REGISTRIES[kind]
    return build(registry, as_table(registry, value))  # type: ignore[arg-type]


def test_a_name_alone_uses_the_default_settings() -> None:
    assert built("insertion", "lowest-loss") == LowestLoss(0.75)


def test_a_value_after_the_colon_is_the_first_setting() -> None:
    assert built("noise", "symmetric:0.2") == Symmetric(0.2)
    assert built("schedule", "alternate:4") == Alternate(4)
    assert built("noise", "file:a/b.npy") == FromFile("a/b.npy")


def test_a_table_sets_several_settings() -> None:
    found = built("replacement", {"name": "abs", "allow_duplicates": True})
    assert found == Reservoir(asymmetric_victim, allow_duplicates=True)


@pytest.mark.parametrize("kind", REGISTRIES)
def test_every_component_can_be_described_and_built_again(kind: str) -> None:
    registry = REGISTRIES[kind]
    for name, value in registry.items():
        assert name_of(registry, value) == name
        assert build(registry, describe(registry, value)) == value
        assert build(registry, as_table(registry, short(registry, value))) == value


def test_settings_that_are_not_the_defaults_are_part_of_the_short_form() -> None:
    assert short(REGISTRIES["noise"], Symmetric(0.25)) == "symmetric:0.25"
    found = short(REGISTRIES["replacement"], Reservoir(asymmetric_victim, allow_duplicates=True))
    assert found.endswith(",allow_duplicates=True")


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown noise 'symetric'; did you mean 'symmetric'"):
        built("noise", "symetric:0.4")


def test_an_unknown_setting_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="no setting 'periode'; did you mean 'period'"):
        built("schedule", {"name": "alternate", "periode": 3})


@pytest.mark.parametrize("value", ["four", 2.5, True, [2]])
def test_a_setting_of_the_wrong_type_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match="period expects a whole number"):
        built("schedule", {"name": "alternate", "period": value})


def test_a_number_that_no_float_can_hold_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"rate expects a number, got 1000"):
        built("noise", {"name": "symmetric", "rate": 10**400})
    assert literal("1" * 5000) == "1" * 5000  # Python does not parse a number of so many digits


def test_a_value_for_a_component_without_settings_is_an_error() -> None:
    with pytest.raises(ValueError, match="it has no settings"):
        built("schedule", "always:3")


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("0.5", 0.5), ("false", False), ("er-ace", "er-ace"), ("", "")]
)
def test_values_are_parsed_as_toml_or_else_are_strings(text: str, value: object) -> None:
    assert literal(text) == value
    assert not isinstance(literal("nan"), str)
    assert math.isnan(literal("nan"))


@dataclass(frozen=True)
class Loud:
    rate: float = setting(0.5, "noise rate")


def plain() -> None:
    pass


@pytest.mark.parametrize(
    ("component", "name"),
    [(Loud(0.25), "Loud"), (plain, "plain"), (Loud, "Loud"), (partial(plain), "partial")],
)
def test_a_python_object_is_described_by_its_definition_and_cannot_be_built(
    component: object, name: str
) -> None:
    table = describe(REGISTRIES["noise"], component)
    assert table["python"].endswith(f":{name}")
    assert "name" not in table
    assert short(REGISTRIES["noise"], component) == name
    with pytest.raises(
        ValueError, match=rf"made with the Python object .*:{name}.* run it from Python again"
    ):
        build(REGISTRIES["noise"], table)


def test_the_description_of_a_python_object_has_its_settings_and_a_digest_of_its_source() -> None:
    table = describe(REGISTRIES["noise"], Loud(0.25))
    assert table["rate"] == 0.25
    assert len(table["source"]) == 16


def test_the_component_of_a_method_that_no_registry_knows_is_called_method() -> None:
    registry = REGISTRIES["noise"]
    assert describe(registry, Loud(0.25), Loud()) == {"name": "method", "rate": 0.25}
    assert build(registry, {"name": "method", "rate": 0.25}, Loud()) == Loud(0.25)
    with pytest.raises(ValueError, match="unknown noise 'method'"):
        build(registry, {"name": "method"})
