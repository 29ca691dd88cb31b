import math
from dataclasses import dataclass
from typing import Any

import pytest

from remnant.component import as_table, build, describe, expect, literal, name_of, short
from remnant.insertion import INSERTIONS, LowestLoss
from remnant.noise import NOISES, FromFile, Symmetric
from remnant.registry import REGISTRIES
from remnant.replacement import REPLACEMENTS, Reservoir, asymmetric_victim
from remnant.schedule import SCHEDULES, Alternate


def test_a_name_alone_takes_the_defaults() -> None:
    assert build("insertion", INSERTIONS, as_table(INSERTIONS, "lowest-loss")) == LowestLoss(0.75)


def test_a_value_after_the_colon_is_the_first_setting() -> None:
    assert build("noise", NOISES, as_table(NOISES, "symmetric:0.2")) == Symmetric(0.2)
    assert build("schedule", SCHEDULES, as_table(SCHEDULES, "alternate:4")) == Alternate(4)
    assert build("noise", NOISES, as_table(NOISES, "file:a/b.npy")) == FromFile("a/b.npy")


def test_a_table_sets_several() -> None:
    table = {"name": "abs", "allow_duplicates": True}
    found = build("replacement", REPLACEMENTS, table)
    assert found == Reservoir(asymmetric_victim, allow_duplicates=True)


@pytest.mark.parametrize("kind", REGISTRIES)
def test_every_component_can_be_written_down_and_read_back(kind: str) -> None:
    registry = REGISTRIES[kind]
    for name, value in registry.items():
        assert name_of(registry, value) == name
        assert build(kind, registry, describe(registry, value)) == value
        assert build(kind, registry, as_table(registry, short(registry, value))) == value


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'symmetric'"):
        build("noise", NOISES, as_table(NOISES, "symetric:0.4"))


def test_an_unknown_setting_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="no setting 'periode'; did you mean 'period'"):
        build("schedule", SCHEDULES, {"name": "alternate", "periode": 3})


@pytest.mark.parametrize("value", ["four", 2.5, True, [2]])
def test_a_setting_of_the_wrong_type_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="period expects a whole number"):
        build("schedule", SCHEDULES, {"name": "alternate", "period": value})


def test_a_number_beyond_all_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rate expects a number, got 1000"):
        build("noise", NOISES, {"name": "symmetric", "rate": 10**400})
    assert literal("1" * 5000) == "1" * 5000  # which Python does not read


def test_a_value_for_a_component_without_settings_is_refused() -> None:
    with pytest.raises(ValueError, match="it has no settings"):
        build("schedule", SCHEDULES, as_table(SCHEDULES, "always:3"))


@dataclass(frozen=True)
class Rated:
    rate: float = 0.5
    share: float = 0.5
    count: int = 1
    name: str = "inf"

    def __post_init__(self) -> None:
        expect({"share in [0, 1]": 0 <= self.share <= 1, "count >= 1": self.count >= 1}, self)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rate": math.inf}, "expected rate to be finite, got inf"),
        (
            {"rate": math.nan, "count": 0},
            "expected count >= 1, got 0; expected rate to be finite, got nan",
        ),
        ({"share": math.nan}, r"expected share in \[0, 1\], got nan"),  # once is enough
    ],
)
def test_what_breaks_a_rule_or_is_not_finite_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        Rated(**given)


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("0.5", 0.5), ("false", False), ("er-ace", "er-ace"), ("", "")]
)
def test_values_are_read_as_toml_or_else_as_text(text: str, value: object) -> None:
    assert literal(text) == value
