"""What `remnant run` says before it imports torch: its first line, and what to type instead of a mistake."""

import difflib
import os
import re
import shutil
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from remnant.errors import RemnantError, printable
from remnant.settings import read_file

RECIPES = Path(__file__).parents[1] / "config" / "recipes"
DEFAULTS = {"method": "aer-abs", "noise": "none", "data": "digits", "seed": 0}  # as in the schema
COMMAND = "  remnant "  # how a line starts that is a command
MAX_WORD = 500  # characters of a word of a message


def fit(text: str, stream: TextIO, indent: str = "  ") -> str:
    """Return a text whose lines are wrapped between words if it is printed to a terminal.

    Continuation lines start with `indent`. Names and paths longer than a line are not broken, nor are
    lines that are a command, so that they can be copied.
    """
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(line if line.startswith(COMMAND) else wrapper.fill(line) for line in text.split("\n"))


def shortened(text: str) -> str:
    """Return a message in which the middle of very long words, which echo a user's input, is left out.

    >>> shortened("lr: expected a number, got " + 5000 * "9")[-16:], len(shortened(5000 * "9"))
    ('9999999999999999', 503)
    """
    half = MAX_WORD // 2
    return re.sub(rf"\S{{{MAX_WORD},}}", lambda word: f"{word[0][:half]}...{word[0][-half:]}", text)


def first_line(recipe: str | None, settings: Mapping[str, Any], out: Path) -> str:
    """Return what is about to run, as far as it is known without resolving the settings.

    >>> first_line(None, {"method": "er", "lr": 0.5}, Path("runs"))
    'er on digits, noise symmetric:0.4, seed 0, lr=0.5 -> runs/'
    """
    is_custom = recipe is None and "data" in settings  # without a recipe, other defaults follow from the data
    path = None if is_custom else _path(recipe or "digits")
    known = _settings(path) | dict(settings)
    place = known.get("data", recipe)
    noise = known.get("noise")
    if isinstance(noise, str) and any(key.startswith("noise.") for key in settings):
        noise = noise.partition(":")[0]
    parts = [f"{known['method']} on {place}" if "method" in known else str(place)]
    parts += [f"noise {noise}"] if isinstance(noise, str) else []
    parts += [f"seed {known['seed']}"] if "seed" in known else []
    parts += [f"{key}={value}" for key, value in settings.items() if key not in DEFAULTS]
    parts += [f"recipe paper/{recipe}"] if path == RECIPES / "paper" / f"{recipe}.toml" else []
    return printable(f"{', '.join(parts)} -> {out}/")


def _path(name: str) -> Path | None:
    """Return the path of a recipe; the folder of a packaged one may be omitted."""
    places = (RECIPES / f"{name}.toml", Path(name), RECIPES / "paper" / f"{name}.toml")
    return next((place for place in places if os.path.isfile(place)), None)


def _settings(path: Path | None) -> dict[str, Any]:
    """Return what a recipe says, with defaults unless it has a base; nothing of a run folder."""
    if path is None:
        return {}
    try:
        table = tomllib.loads(read_file(path).decode())
    except (OSError, ValueError, RecursionError):  # reported when the recipe is resolved
        return {}
    # A written config has components, which may give its method another name.
    table = {} if path.name == "config.toml" else table
    return {key: table[key] for key in DEFAULTS if key in table} if "base" in table else DEFAULTS | table


def unknown_option(words: Sequence[str], options: Mapping[str, bool], command: str = "run") -> str:
    """Return what to type instead of the first word that is not an option.

    `options` has the known ones, and whether they take a value.
    """
    from remnant.config.resolve import DEFAULTS as SETTINGS, RENAMED, unknown_key

    found = next(number for number, word in enumerate(words) if word.startswith("-"))
    option, _, value = words[found].partition("=")
    name = option.lstrip("-").replace("-", "_")
    name = {"learning_rate": "lr", **RENAMED}.get(name, name)
    following = [word for word in words[found + 1 :][:1] if not word.startswith("-")]
    value = value or next(iter(following), "VALUE")
    instead = {key: f"{key}={value}" for key in SETTINGS if f"--{key}s" not in options}
    for known, takes_value in options.items():
        instead[known.lstrip("-").replace("-", "_")] = f"{known} {value}" if takes_value else known
    close = difflib.get_close_matches(name, instead, n=1)
    if name == "seeds" and "--seeds" not in options:
        return f"expected a known option, got {option}: for several runs, use remnant compare --seeds {value}"
    if "." in name and name.partition(".")[0] in SETTINGS:
        return f"expected a known option, got {option}: write {name}={value}"
    if close:
        return f"expected a known option, got {option}: write {instead[close[0]]}"
    similar = unknown_key(name).partition(";")[2]  # in components, such as insertion.alpha
    hint = f". See `remnant {command} --help`."
    hint = f";{similar} Settings are written as key=value." if similar else hint
    return f"expected a known option, got {option}{hint}"


def check_one_seed(words: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raise RemnantError if there are several seeds: `--seed 0,1,2`, or `--seed 0` with further `words`."""
    seeds = re.findall(r"[^\s,\[\]]+", str(settings.get("seed", "")))
    seeds += [word for word in words if seeds and word.isdecimal() and not os.path.exists(word)]
    if len(seeds) > 1 or any(re.fullmatch(r"\d+-\d+", seed) for seed in seeds):
        method = settings.get("method", DEFAULTS["method"])
        compare = f"remnant compare --methods {method} --seeds {','.join(seeds)}"
        raise RemnantError(
            f"seed: expected one number, got {', '.join(seeds)}. For several runs:\n  {compare}"
        )
