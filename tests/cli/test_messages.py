import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import NO_BUFFER, Invoke

from remnant.cli.messages import DEFAULTS, first_line, fit, unknown_option
from remnant.config import Config, recipe
from remnant.config.components import short
from remnant.config.recipe import to_config
from remnant.config.registries import REGISTRIES

RUNS = Path("runs")
PARTS = {
    "method": r"^(\S+) on ",
    "data": r" on ([^ ,]+)",
    "noise": r", noise ([^ ,]+)",
    "seed": r", seed (\d+)",
}


def stated(line: str) -> dict[str, str]:
    """Return what a first line says."""
    found = {key: re.search(pattern, line) for key, pattern in PARTS.items()}
    return {key: match[1] for key, match in found.items() if match}


def actual(config: Config) -> dict[str, str]:
    noise = short(REGISTRIES["noise"], config.noise)
    return {"method": config.label, "data": config.data, "noise": noise, "seed": str(config.seed)}


@pytest.mark.parametrize("name", [None, *recipe.recipes(), "cifar10"])
def test_the_first_line_of_a_recipe_is_what_it_resolves_to(name: str | None) -> None:
    line, config = first_line(name, {}, RUNS), to_config(name, {})
    assert line.endswith(" -> runs/")
    said = stated(line)
    if "base" not in (recipe.recipes().get(name or "digits") or ""):
        assert said.keys() == PARTS.keys()
    if "data" in said and said["data"] == name:
        del said["data"]  # of a recipe with a base only the name is known
    assert said.items() <= actual(config).items()


@pytest.mark.parametrize(
    ("name", "given", "line"),
    [
        (None, {}, "aer-abs on digits, noise symmetric:0.4, seed 0 -> runs/"),
        (
            None,
            {"noise": "none", "seed": 3, "lr": 0.5},
            "aer-abs on digits, noise none, seed 3, lr=0.5 -> runs/",
        ),
        (None, {"noise.rate": 0.2}, "aer-abs on digits, noise symmetric, seed 0, noise.rate=0.2 -> runs/"),
        (None, {"data": "nw-ucla", "method": "er"}, "er on nw-ucla -> runs/"),
        ("no-recipe", {"method": "er"}, "er on no-recipe -> runs/"),
        ("cifar100", {}, "aer-abs on cifar100, noise symmetric:0.4, seed 0, recipe paper/cifar100 -> runs/"),
        ("paper/cifar100", {}, "aer-abs on cifar100, noise symmetric:0.4, seed 0 -> runs/"),
        ("x" * 5000, {}, f"{'x' * 5000} -> runs/"),
    ],
)
def test_the_first_line_says_what_was_typed(name: str | None, given: dict[str, Any], line: str) -> None:
    assert first_line(name, given, RUNS) == line


def test_the_first_line_of_a_file_with_a_base_says_only_what_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "paper/cifar100"\nnoise = "symmetric:0.2"\nepochs = 5\n')
    assert first_line(str(path), {}, RUNS) == f"{path}, noise symmetric:0.2 -> runs/"


def test_the_defaults_of_the_first_line_are_those_of_the_schema() -> None:
    fields = Config.model_fields
    assert DEFAULTS["noise"] == short(REGISTRIES["noise"], fields["noise"].default)
    for key in ("method", "data", "seed"):
        assert DEFAULTS[key] == fields[key].default


def test_the_first_line_is_printed_unless_quiet(invoke: Invoke) -> None:
    words = ["run", "--method", "finetune", *NO_BUFFER]
    line = "finetune on digits, noise symmetric:0.4, seed 0, per_class=12, "
    done = invoke(*words)
    assert done.out.startswith(line)
    assert invoke("run", done.out.splitlines()[-1]).out.startswith(f"{done.out.splitlines()[-1]} -> runs/")
    assert line not in invoke(*words, "-q").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "er"], "got --methods: write --method er"),
        (["digits", "--methods=er"], "got --methods: write --method er"),
        (["--dataset", "cifar10"], "write data=cifar10"),
        (["--buffer", "500"], "write --buffer-size 500"),
        (["--epoch", "5"], "write --epochs 5"),
        (["--learning-rate", "0.1"], "write --lr 0.1"),
        (["--tasks", "5"], "write tasks=5"),
        (["--net.width", "8"], "write net.width=8"),
        (["--forse"], "write --force"),
        (["--epoch", "--quiet"], "write --epochs VALUE"),
        (["--alpha", "0.5"], "did you mean objective.alpha or insertion.alpha"),
        (["--xyz"], "got --xyz. See `remnant run --help`."),
        (["--noise", "0.4"], "noise: expected a name, got 0.4; write symmetric:0.4"),
        (["--noise", "40"], "expected a noise rate in [0, 1], got 40; for 40 % write 0.4"),
        (["--net", "16"], "net: expected a name, got 16; write small:16"),
        (["--seed", "0,1,2"], "remnant compare --methods aer-abs --seeds 0,1,2"),
        (["--seed", "0", "1", "2", "--method", "er"], "remnant compare --methods er --seeds 0,1,2"),
        (["seed=[3, 4]"], "remnant compare --methods aer-abs --seeds 3,4"),
        (["--seed", "0-4"], "remnant compare --methods aer-abs --seeds 0-4"),
        (["--seed", "one"], "seed: expected a valid integer, got 'one'"),
        (["digits", "er"], "expected one recipe, got digits, er. Write a method as --method NAME"),
        (["mine.py:BEARS"], "Write data=mine.py:BEARS if it is a dataset, --method mine.py:BEARS"),
        (["er"], "er is a method: write --method er"),
    ],
)
def test_a_typing_mistake_is_answered_with_what_to_type(
    invoke: Invoke, tmp_path: Path, words: list[str], message: str
) -> None:
    done = invoke("run", *words)
    assert done.code == 2
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_terminal_messages_are_wrapped_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = "remnant: unknown method 'x'\n  - a/path/that/is/longer/than/a/line\nSee `list`."
    lines = ["remnant: unknown", "  method 'x'", "  -", "  a/path/that/is/longer/than/a/line", "See `list`."]
    assert fit(text, Terminal()).splitlines() == lines
    assert fit(text, io.StringIO()) == text


def test_a_line_that_is_a_command_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    command = "  remnant compare --methods aer-abs --seeds 0,1,2"
    assert fit(f"For several runs:\n{command}", Terminal()).splitlines()[-1] == command


def test_a_recipe_may_be_a_number(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "2").write_text('method = "finetune"\nepochs = 1\nper_class = 12\n')
    assert invoke("run", "2", "--seed", "1", "-q").code == 0


def test_an_unknown_option_without_a_value_is_answered_with_a_placeholder() -> None:
    assert unknown_option(["--metod"], {"--method": True}).endswith("write --method VALUE")


def test_the_first_line_needs_no_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from remnant.cli.messages import first_line; "
        "first_line('paper/cifar10', {}, Path('runs')); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_first_line_of_a_deeply_nested_recipe_leaves_the_error_to_the_recipe(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "deep.toml").write_text("a = " + "[" * 20_000)
    done = invoke("run", str(tmp_path / "deep.toml"))
    assert done.code == 2
    assert "deep.toml: expected TOML, but " in done.err


def test_characters_of_a_recipe_that_control_the_terminal_are_escaped(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('noise = "file:\\u001b]0;title\\u0007.npy"')
    done = invoke("run", str(tmp_path / "r.toml"))
    assert "noise file:\\x1b]0;title\\x07.npy" in done.out
    assert "\\x1b]0;title\\x07.npy: expected a file of labels" in done.err
    assert "\x1b" not in done.out + done.err


def test_several_seeds_of_a_run_are_a_comparison() -> None:
    text = unknown_option(["--seeds", "0-1"], {"--seed": True})
    assert text.endswith("use remnant compare --seeds 0-1")
