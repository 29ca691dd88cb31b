"""What the verb `list` shows."""

import inspect
import re
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from remnant import component
from remnant.config import Config
from remnant.data import DATA, entry, names
from remnant.data.entry import package, plugins
from remnant.errors import RemnantError
from remnant.methods import METHODS
from remnant.recipe import recipes
from remnant.registry import OF_METHOD, REGISTRIES

Rows = Iterable[tuple[str, str]]


def first_line(thing: object) -> str:
    """Return the first line of the docstring of a component, or of the function it is made of."""
    functions = [value for value in vars(thing).values() if inspect.isfunction(value)]
    described = functions[0] if functions else type(thing)
    return (described.__doc__ or "").strip().splitlines()[0]


def settings() -> Rows:
    """Return each setting with its default and its meaning."""
    for name, field in Config.model_fields.items():
        registry = REGISTRIES.get(name)
        if registry is None:
            yield f"{name} = {field.default!r}", str(field.description)
            continue
        chosen = "the method's" if name in OF_METHOD else repr(component.short(registry, field.default))
        yield f"{name} = {chosen}", f"{field.description}: {', '.join(registry)}"
        owners: dict[tuple[str, str], list[str]] = {}
        for choice, value in registry.items():
            for key, default in component.settings(value).items():
                row = f"  {name}.{key} = {default!r}", meaning(value, key)
                owners.setdefault(row, []).append(choice)
        for (setting, text), choices in owners.items():
            yield setting, f"{', '.join(choices)}: {text}" if text else ", ".join(choices)


def meaning(thing: object, key: str) -> str:
    """Return what the comment beside a setting says: there it is kept up to date."""
    for kind in type(thing).__mro__[:-1]:
        found = re.search(rf"^    {key}: [^#\n]*#\s*(.+)$", inspect.getsource(kind), re.MULTILINE)
        if found:
            return found[1]
    return ""


def about(data: str) -> str:
    """Return what a data set is, or what is wrong with the package that has it."""
    try:
        return entry(data).about
    except RemnantError as error:
        return str(error)


def shadowed() -> Rows:
    """Return the data sets of other packages that cannot be had, since ours are called the same."""
    for name in DATA.keys() & plugins().keys():
        owners = ", ".join(package(point) for point in plugins()[name])
        yield f"{name} of {owners}", "not used: there is one of this name above. Rename it there."


def rows(what: str) -> Rows:
    """Return name and meaning of each thing of a kind."""
    if what == "methods":
        return ((name, method.about) for name, method in METHODS.items())
    if what == "data":
        return [*((name, about(name)) for name in names()), *shadowed()]
    if what == "recipes":
        return ((name, text.splitlines()[0].lstrip("# ")) for name, text in recipes().items())
    if what == "settings":
        return settings()
    registry = REGISTRIES[what.removesuffix("s")]
    return ((example(registry, name), first_line(value)) for name, value in registry.items())


def example(registry: Mapping[str, object], name: str) -> str:
    """Return a choice as it may be written: with its first setting, where that says something."""
    first = next(iter(component.settings(registry[name]).values()), 0)
    return component.short(registry, registry[name]) if first else name


def show(what: str) -> None:
    """Print one list."""
    table = Table(box=None, pad_edge=False, padding=(0, 2), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, meaning in rows(what):
        table.add_row(f"  {escape(name)}", escape(meaning))
    console = Console()
    console.print(f"[bold]{what}[/]")
    console.print(table, highlight=False)
    console.print()
