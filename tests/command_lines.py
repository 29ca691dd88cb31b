"""Checks of command lines that are not executed: every program parses them with its own parser."""

import argparse
import functools
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import pytest
import typer
from pages import ROOT
from torch.distributed.run import get_args_parser
from typer.core import TyperGroup

from remnant import cli, data
from remnant.cli.compare import split_list
from remnant.cli.learner import audit_settings
from remnant.cli.run import RunOptions
from remnant.config import resolve
from remnant.config.recipe import to_config
from remnant.noise import human_labels
from remnant.sweep.grid import comparison, expand, parse_seeds, read_grid
from remnant.sweep.tune import LogRange, parse_space


class Parsed(Exception):
    """The arguments of a script were parsed."""


def check_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse a command line without executing it; raise an error if an option or a setting does not exist."""
    program, *words = shlex.split(line)
    with monkeypatch.context() as patch:
        CHECKS[program](words, patch)


def check_remnant(words: Sequence[str], patch: pytest.MonkeyPatch) -> None:
    """Parse options with the command line's own parser, and resolve recipe, settings and grid."""
    if words == ["--install-completion"]:  # it would be executed while it is parsed
        assert words[0] in options_of("")
        return
    context = command_line().make_context("remnant", list(words))
    while isinstance(context.command, TyperGroup):
        name, command, rest = context.command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = command.make_context(name, rest, parent=context)
    given, name = context.params, str(context.info_name)
    if name in ("get", "noise"):
        NAMES[name](given)
    elif name in SETTINGS:
        named = {key: given[key] for key in ("method", "seed") if key in given}
        options = RunOptions(**{field.name: given[field.name] for field in fields(RunOptions)})
        SETTINGS[name](given, *options.parse(context, **named))


@functools.cache
def command_line() -> Any:  # noqa: ANN401
    return typer.main.get_command(cli.app)


def check_audit(given: dict[str, Any], recipe: str | None, settings: dict[str, Any]) -> None:
    if given["decisions"] is None:
        to_config(recipe, audit_settings(recipe, settings))


def check_download(given: dict[str, Any]) -> None:
    if given["name"] not in human_labels.DOWNLOADS:
        data.entry(given["name"])


def check_comparison(given: dict[str, Any], recipe: str | None, settings: dict[str, Any]) -> None:
    comparison(recipe, split_list(given["methods"]), parse_seeds(given["seeds"]), settings)


def check_tune(given: dict[str, Any], recipe: str | None, settings: dict[str, Any]) -> None:
    space = parse_space(given["space"]) if given["space"] else {}
    first = {key: value.low if isinstance(value, LogRange) else value[0] for key, value in space.items()}
    check_comparison(given, recipe, settings | first)


SETTINGS: dict[str, Callable[..., object]] = {
    "run": lambda given, recipe, settings: to_config(recipe, settings),
    "audit": check_audit,
    "compare": check_comparison,
    "sweep": lambda given, recipe, settings: expand(read_grid(recipe), settings),
    "tune": check_tune,
}
NAMES: dict[str, Callable[..., object]] = {
    "get": check_download,
    "noise": lambda given: resolve({"data": given["name"], "noise": given["kind"]}),
}


def check_python(words: Sequence[str], patch: pytest.MonkeyPatch) -> None:
    """Start a script of the checkout, and stop it when it has parsed its arguments."""
    if words[:2] == ["-m", "venv"]:
        return
    is_module = words[0] == "-m"
    name, *rest = words[1:] if is_module else words
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: argparse.ArgumentParser, *args: Any) -> None:  # noqa: ANN401
        parse(parser, *args)
        raise Parsed

    patch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    patch.setattr(sys, "argv", [name, *rest])
    patch.syspath_prepend(ROOT if is_module else (ROOT / name).parent)
    start = runpy.run_module if is_module else runpy.run_path
    with pytest.raises(Parsed):
        start(name if is_module else str(ROOT / name), run_name="__main__")


def check_torchrun(words: Sequence[str], patch: pytest.MonkeyPatch) -> None:
    args = get_args_parser().parse_args(list(words))
    assert (args.module, args.training_script) == (True, "remnant")
    check_remnant(args.training_script_args, patch)


def check_pip(words: Sequence[str], patch: pytest.MonkeyPatch) -> None:
    """Check that a checkout, with extras that exist, is installed."""
    assert words[0] == "install"
    constraints = ["-c", "constraints.txt"]
    assert words[1:3] == constraints
    assert (ROOT / "constraints.txt").is_file()
    (extras,) = re.findall(r"^\.(?:\[([\w,-]+)\])?$", words[-1])
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(filter(None, extras.split(","))) <= set(known)


def check_make(words: Sequence[str], patch: pytest.MonkeyPatch) -> None:
    (target,) = words
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


def check_shell(words: Sequence[str], patch: pytest.MonkeyPatch) -> None:
    """Accept commands of other projects, whose options do not depend on this one."""


CHECKS: dict[str, Callable[[Sequence[str], pytest.MonkeyPatch], None]] = {
    "remnant": check_remnant,
    "python": check_python,
    "python3": check_python,
    "torchrun": check_torchrun,
    "pip": check_pip,
    "make": check_make,
    "git": check_shell,
    ".": check_shell,
}


def options_of(command: str) -> set[str]:
    """Return the options of a command, such as "data get"."""
    found = command_line()
    for name in command.split():
        found = found.commands[name]
    return {option for parameter in found.params for option in [*parameter.opts, *parameter.secondary_opts]}
