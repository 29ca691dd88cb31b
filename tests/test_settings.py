import os
from dataclasses import dataclass, field, fields
from pathlib import Path

import pytest

from remnant.config.registries import METHOD_NAMES, REGISTRIES
from remnant.errors import RemnantError
from remnant.settings import (
    describe_setting,
    expect,
    is_same_but_tuned,
    literal,
    read_file,
    setting,
    settings,
    user_path,
)


@dataclass(frozen=True)
class Mix:
    """A component with a setting of each type."""

    lr: float = setting(0.1, "learning rate", tuned=True)
    views: int = setting(3, "views per sample")
    is_soft: bool = setting(True, "whether labels are soft", tuned=True)
    kind: str = setting("mean", "how views are combined")
    inner: object = None
    about: str = field(default="what it is", compare=False)

    def __post_init__(self) -> None:
        expect({"lr > 0": self.lr > 0, "views in [1, 9]": 1 <= self.views <= 9}, self)


def test_settings_are_the_fields_with_plain_values_except_the_description() -> None:
    assert settings(Mix(views=2)) == {"lr": 0.1, "views": 2, "is_soft": True, "kind": "mean"}
    assert settings(Mix(inner="text")) == settings(Mix()) | {"inner": "text"}


def test_an_object_that_is_no_dataclass_has_no_settings() -> None:
    assert settings(object()) == {}
    assert settings(len) == {}


def test_a_setting_has_a_description() -> None:
    assert describe_setting(Mix(), "views") == "views per sample"
    assert describe_setting(Mix(), "inner") == ""


def test_a_setting_is_not_tuned_unless_declared() -> None:
    tuned = {declared.name: declared.metadata.get("tuned", False) for declared in fields(Mix)}
    assert tuned == {
        "lr": True, "views": False, "is_soft": True, "kind": False, "inner": False, "about": False
    }  # fmt: skip


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (Mix(), True),
        (Mix(lr=0.7), True),
        (Mix(lr=0.7, is_soft=False), True),  # false is a value of a switch like any other
        (Mix(about="another text"), True),
        (Mix(views=2), False),
        (Mix(lr=0.7, kind="max"), False),
        (Mix(inner=1), False),
        ("mix", False),
    ],
)
def test_components_that_differ_in_tuned_settings_only_are_the_same(other: object, is_same: bool) -> None:
    assert is_same_but_tuned(other, Mix()) == is_same


def test_switching_a_tuned_setting_off_or_on_is_not_tuning() -> None:
    @dataclass(frozen=True)
    class Ramp:
        epochs: int = setting(5, "epochs of the ramp", tuned=True)

    assert is_same_but_tuned(Ramp(7), Ramp())
    assert not is_same_but_tuned(Ramp(0), Ramp())
    assert not is_same_but_tuned(Ramp(), Ramp(0))


def test_objects_that_are_no_dataclasses_are_compared_as_they_are() -> None:
    assert is_same_but_tuned(3, 3)
    assert not is_same_but_tuned(3, 4)


def test_all_rules_that_do_not_hold_are_reported_with_the_values() -> None:
    with pytest.raises(ValueError, match=r"^expected lr > 0, got -1.0; expected views in \[1, 9\], got 12$"):
        Mix(lr=-1.0, views=12)


def test_a_number_that_is_not_finite_is_reported_once() -> None:
    with pytest.raises(ValueError, match=r"^expected lr to be finite, got inf$"):
        Mix(lr=float("inf"))
    with pytest.raises(ValueError, match=r"^expected lr > 0, got nan$"):
        Mix(lr=float("nan"))


@pytest.mark.parametrize("kind", REGISTRIES)
def test_every_setting_of_every_component_is_described(kind: str) -> None:
    for name, component in REGISTRIES[kind].builtin.items():
        for key in settings(component):
            about = describe_setting(component, key)
            assert about, f"{kind} {name}: {key}"
            assert "\n" not in about


def test_every_setting_of_every_method_is_described() -> None:
    for name, method in METHOD_NAMES.builtin.items():
        for key in settings(method):
            assert describe_setting(method, key), f"{name}: {key}"


def test_a_value_that_cannot_be_parsed_is_a_string() -> None:
    for text in ("[" * 2000 + "]" * 2000, "1" * 5000, "{a"):
        assert literal(text) == text


def test_the_home_folder_is_expanded_and_that_of_an_unknown_user_is_an_error() -> None:
    assert user_path("~/a") == Path.home() / "a"
    assert user_path("a/~") == Path("a/~")
    with pytest.raises(RemnantError, match="~nosuchuser/a: expected a path, but its home folder is unknown"):
        user_path("~nosuchuser/a")


def test_a_file_is_read_up_to_its_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert read_file(tmp_path / "file") == b"content"


@pytest.mark.parametrize("name", ["fifo", "folder", "/dev/zero", "/proc/self/status"])
def test_what_is_not_a_regular_file_is_not_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="it is not a regular file"):
        read_file(tmp_path / name)
