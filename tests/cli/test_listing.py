import re

import pytest
from cli_helpers import Invoke

from remnant.cli.listing import COMPONENTS, LISTS, first_line, in_columns, rows
from remnant.config import recipe
from remnant.config.registries import REGISTRIES
from remnant.data import DATA
from remnant.methods.registry import METHODS
from remnant.nets import NETS
from remnant.noise import NOISES
from remnant.settings import settings


def test_list_shows_all_methods_datasets_networks_noises_and_recipes(invoke: Invoke) -> None:
    done = invoke("list")
    assert done.code == 0
    for names in (METHODS, DATA, NETS, NOISES, recipe.recipes()):
        for name in names:
            assert re.search(rf"^  {re.escape(name)}[ :,]", done.out, re.M), name
    for words in ("aer-abs-noace", "cifar100-coarse", "resnet34:64", "superclass-random", "...+dividemix"):
        assert words in done.out


@pytest.mark.parametrize("what", [*LISTS, *COMPONENTS, "settings"])
def test_every_entry_of_a_list_has_a_description(what: str) -> None:
    entries = list(rows(what))
    assert entries
    assert [name for name, about in entries if not about.strip()] == []


def test_list_settings_has_the_settings_of_components_with_their_owners(invoke: Invoke) -> None:
    out = invoke("list", "settings").out
    assert re.search(r"insertion\.alpha = 0\.75 +lowest-loss: fraction of", out)
    for words in ("schedule.period = 2", "scoring.refresh_every", "seed = 0", "algorithm.expert_steps"):
        assert words in out
    assert re.search(r"^  method = 'aer-abs'", out, re.M)


def test_list_settings_of_a_method_has_its_settings_only(invoke: Invoke) -> None:
    done = invoke("list", "settings", "spr")
    assert done.code == 0
    assert done.out.startswith("settings of spr\n")
    assert re.search(r"algorithm = 'spr'", done.out)
    for key in settings(REGISTRIES["algorithm"]["spr"]):
        assert f"algorithm.{key} = " in done.out
    assert "schedule" not in done.out
    assert "insertion" not in done.out
    assert "buffer_size" not in invoke("list", "settings", "finetune").out


def test_list_settings_of_a_method_has_those_that_configs_leave_out_by_default(invoke: Invoke) -> None:
    has = [
        "batchnorm = 'stream'" in invoke("list", "settings", name).out for name in ("er", "spr", "finetune")
    ]
    assert has == [True, True, False]


def test_list_settings_of_a_replay_method_has_the_values_of_the_method(invoke: Invoke) -> None:
    out = invoke("list", "settings", "gdumb").out
    assert "consolidation = 'buffer-fit'" in out
    assert "consolidation.momentum = 0.9" in out  # 0 by default, and 0.9 in gdumb
    assert "schedule = 'collect'" in out
    suffix = invoke("list", "settings", "er-ace+dividemix").out
    assert "consolidation = 'dividemix'" in suffix


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["method"], "unknown list 'method'; did you mean 'methods'"),
        (["nothing"], "Expected one of methods, data, nets"),
        (["nets", "spr"], "expected a method after `list settings` only, got nets spr"),
        (["settings", "sprr"], "unknown method 'sprr'; did you mean 'spr'"),
    ],
)
def test_an_unknown_list_is_an_error(invoke: Invoke, words: list[str], message: str) -> None:
    done = invoke("list", *words)
    assert done.code == 2
    assert message in done.err


def test_the_description_of_a_component_is_the_first_line_of_its_docstring() -> None:
    def function() -> None:
        """Say what it does.

        And more.
        """

    class Component:
        """A component."""

    assert first_line(function) == "Say what it does."
    assert first_line(Component()) == "A component."
    assert first_line(lambda: None) == ""


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("what", [*LISTS, *COMPONENTS, "settings"])
def test_a_list_fits_the_terminal_and_breaks_no_word(what: str, width: int) -> None:
    entries = list(rows(what))
    text = in_columns(entries, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert text.split() == " ".join(f"{name} {about}" for name, about in entries).split()


def test_a_long_name_is_never_cut() -> None:
    name = f"method = '{'folder/' * 20}m.py:MINE'"
    lines = in_columns([("er", "replay"), (name, "a method")], 80).splitlines()
    assert lines == ["  er    replay", f"  {name}", "        a method"]


@pytest.mark.parametrize("words", [[], ["run"], ["list"], ["data"], ["data", "noise"], ["data", "get"]])
def test_help_fits_80_columns_and_cuts_no_sentence(
    invoke: Invoke, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = invoke(*words, "--help").out
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert not re.search(r"\w\.\.\.$", shown, re.M)


def test_doctor_shows_versions_and_passes_its_self_test(invoke: Invoke) -> None:
    done = invoke("doctor")
    assert done.code == 0
    for word in (
        "torch",
        "processor",
        "linear algebra",
        "cores",
        "device=auto",
        "precision=auto",
        "channels_last=auto",
        "bitwise identical",
        "self test",
        "ok",
    ):
        assert word in done.out
