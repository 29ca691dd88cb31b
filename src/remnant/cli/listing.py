"""The commands `remnant list` and `remnant doctor`, which describe what is installed."""

import inspect
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from remnant.errors import RemnantError, nearest, printable

if TYPE_CHECKING:
    from remnant.extensions import Registry

Rows = Iterable[tuple[str, str]]

LISTS = ("methods", "data", "nets", "noises", "recipes", "grids")
COMPONENTS = (
    *("objectives", "schedules", "insertions", "replacements", "rebuilds", "consolidations"),
    "algorithms",
)
MORE = (*COMPONENTS, "settings")


def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help=f"{', '.join(LISTS)} (default: all of these), {', '.join(MORE)}."
        ),
    ] = "",
    method: Annotated[
        str, typer.Argument(metavar="METHOD", help="With `settings`: list only those of this method.")
    ] = "",
) -> None:
    """List methods, datasets, networks, noises and recipes.

    \b
    Examples:
      remnant list
      remnant list methods
      remnant list settings
      remnant list settings spr
    """
    known = [*LISTS, *MORE]
    if what and what not in known:
        raise RemnantError(f"unknown list {what!r}{nearest(what, known)} Expected one of {', '.join(known)}.")
    if method and what != "settings":
        raise RemnantError(f"expected a method after `list settings` only, got {what} {method}.")
    for name in [what] if what else LISTS:
        show(name, method)


def show(what: str, method: str) -> None:
    """Print one list."""
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    console.print(f"[bold]{what}{f' of {escape(printable(method))}' if method else ''}[/]")
    console.print(
        in_columns(list(rows(what, method)), console.width), markup=False, highlight=False, soft_wrap=True
    )
    console.print()


def in_columns(entries: Sequence[tuple[str, str]], width: int) -> str:
    """Return names and descriptions in two columns, wrapped between words; a long name has its own line.

    >>> print(in_columns([("er", "experience replay with a buffer"), ("x" * 30, "a long name")], 30))
      er    experience replay with
            a buffer
      xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
            a long name
    """
    longest = width * 5 // 8 - 6
    indent = max((len(name) for name, _ in entries if len(name) <= longest), default=0) + 6
    lines = []
    for name, about in entries:
        start = f"  {name}".ljust(indent)
        wrapped = textwrap.wrap(
            about, max(20, width - indent), break_long_words=False, break_on_hyphens=False
        )
        if len(name) > longest:
            lines.append(start)
            start = " " * indent
        lines += [head + text for head, text in zip_longest([start], wrapped or [""], fillvalue=" " * indent)]
    return "\n".join(line.rstrip() for line in lines)


def rows(what: str, method: str = "") -> Rows:
    """Return name and description of each entry of a list."""
    from remnant.config.recipe import recipes
    from remnant.config.registries import METHOD_NAMES, REGISTRIES
    from remnant.data.registry import DATASETS

    if what == "methods":
        return [*_described(METHOD_NAMES), *suffixes()]
    if what == "data":
        return [*_described(DATASETS), *own_data()]
    if what == "grids":
        from remnant.sweep.grid import grids

        return ((name, str(tomllib.loads(text).get("about", ""))) for name, text in grids().items())
    if what == "recipes":
        return ((name, text.splitlines()[0].lstrip("# ")) for name, text in recipes().items())
    if what == "settings":
        return method_settings(method) if method else all_settings()
    return _described(REGISTRIES[what.removesuffix("s")])


def _described(registry: "Registry") -> Rows:
    """Yield the entries of a registry; if one is broken, its error is the description."""
    from remnant.data import entry

    for name in registry:
        try:
            value = registry[name] if registry.kind != "dataset" else entry(name)
            yield example(registry, name), str(getattr(value, "about", "")) or first_line(value)
        except RemnantError as error:
            yield name, str(error)
    for name in registry.shadowed():
        yield name, "not used: a built-in component has the same name. Rename it in its package."


def own_data() -> Rows:
    """Return how own data are written."""
    return [
        ("folder:DIR", "your images in class folders, or in class folders below train and test"),
        ("table:FILE.csv", "your images in a table: path, label, and optionally task, true_label, split"),
        ("hf:NAME", "a Hugging Face dataset: a name on the hub, or a folder or file on disk"),
    ]


def suffixes() -> Rows:
    """Yield the suffixes that can follow the name of a replay method."""
    from remnant.methods.registry import SUFFIX_ABOUT

    for suffix, about in SUFFIX_ABOUT.items():
        yield f"...+{suffix}", f"any replay method, then {about} at the end of each task"


def first_line(component: object) -> str:
    """Return the first line of the docstring of a component, or of the function it wraps."""
    functions = [value for value in getattr(component, "__dict__", {}).values() if inspect.isfunction(value)]
    described = functions[0] if functions else component if inspect.isroutine(component) else type(component)
    lines = (described.__doc__ or "").strip().splitlines()
    return lines[0] if lines else ""


def example(registry: "Registry", name: str) -> str:
    """Return how a component can be written: with its first setting, if that is informative."""
    from remnant.config.components import short
    from remnant.settings import settings

    first = next(iter(settings(registry[name]).values()), 0)
    return (
        short(registry, registry[name])
        if first and registry.kind not in ("method", "algorithm", "dataset")
        else name
    )


def all_settings() -> Iterator[tuple[str, str]]:
    """Yield every setting with its default and its meaning."""
    from remnant.config import Config
    from remnant.config.components import short
    from remnant.config.registries import OF_METHOD, REGISTRIES
    from remnant.settings import describe_setting, settings

    for name, field in Config.model_fields.items():
        registry = REGISTRIES.get(name)
        if registry is None:
            yield f"{name} = {field.default!r}", str(field.description)
            yield from own_data_settings() if name == "data" else ()
            continue
        default = "set by the method" if name in OF_METHOD else repr(short(registry, field.default))
        yield f"{name} = {default}", f"{field.description}: {', '.join(registry)}"
        owners: dict[tuple[str, str], list[str]] = {}
        for choice, value in registry.builtin.items():
            for key, default_value in settings(value).items():
                row = f"  {name}.{key} = {default_value!r}", describe_setting(value, key)
                owners.setdefault(row, []).append(choice)
        for (setting, text), choices in owners.items():
            yield setting, f"{', '.join(choices)}: {text}"


def own_data_settings() -> Iterator[tuple[str, str]]:
    """Yield the settings of own data."""
    from remnant.data import KINDS
    from remnant.settings import describe_setting, settings

    own = KINDS["folder"]
    for key, default in settings(own).items():
        yield f"  data.{key} = {default!r}", f"{', '.join(KINDS)}: {describe_setting(own, key)}"


def method_settings(name: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of one method with the values it has by default."""
    from remnant.config import Config, resolve
    from remnant.config.checks import unused_settings
    from remnant.config.registries import REGISTRIES
    from remnant.config.schema import NEWER
    from remnant.settings import describe_setting

    config = resolve({"method": name})
    unused = unused_settings(config)
    for key, value in (config.table() | NEWER).items():
        if key in unused:
            continue
        about = str(Config.model_fields[key].description)
        if not isinstance(value, dict):
            yield f"{key} = {value!r}", about
            continue
        chosen = value.get("name", value.get("python"))
        yield f"{key} = {chosen!r}", f"{about}: {', '.join(REGISTRIES[key])}"
        component = getattr(config, key)
        for setting, default in value.items():
            if setting not in ("name", "python", "source"):
                yield f"  {key}.{setting} = {default!r}", describe_setting(component, setting)


def doctor() -> None:
    """Show versions and devices, and compute a known result.

    It also shows what `auto` chooses. The exit status is 1 if a result is wrong.
    """
    from remnant import __version__
    from remnant.engine.backend import Backend, find_device, has_bf16
    from remnant.engine.diagnosis import facts, is_as_known, self_test

    for name, value in {"remnant": __version__, **facts()}.items():
        typer.echo(f"{name:19s}{value}")
    typer.echo(
        f"{'reproducibility':19s}runs are bitwise identical on machines with the same instruction set,\n"
        f"{'':19s}torch version, device, precision, memory layout and number of threads"
    )
    device = find_device("auto")
    is_sound = True
    for precision in ("float32", "bf16") if has_bf16(device) else ("float32",):
        loss = self_test(Backend(device, precision))
        verdict = "ok" if is_as_known(loss, precision) else "wrong: torch does not compute correctly here"
        is_sound &= is_as_known(loss, precision)
        typer.echo(f"self test          {precision} on {device}: loss {loss:.4f}, {verdict}")
    if not is_sound:
        raise typer.Exit(1)
