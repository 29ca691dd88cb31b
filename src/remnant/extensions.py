"""Components from outside the package: entry points of installed packages, and Python files.

A package registers a method, network, noise or dataset in the entry point group `remnant.methods`,
`remnant.nets`, `remnant.noises` or `remnant.data`. An object in a file is written as
`path/to/file.py:NAME`. Neither is imported before it is used.
"""

import ast
import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from remnant.errors import RemnantError, nearest
from remnant.settings import read_file, user_path

OWN_DATA = ("folder:", "table:", "hf:")  # first parts of the names of own data
IN_FILE = re.compile(r"(?P<path>.+\.py):(?P<name>\w+)(?::(?P<value>.*))?")


def plugins(group: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a group by name, not yet imported."""
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        points.setdefault(point.name, []).append(point)
    return points


def package(point: EntryPoint) -> str:
    """Return the name of the package that provides an entry point."""
    return point.dist.name if point.dist else "unknown"


class Registry(Mapping[str, Any]):
    """Components of one kind by name: built-in ones, those of other packages, and those in Python files."""

    def __init__(self, kind: str, builtin: Mapping[str, Any], group: str = "") -> None:
        self.kind, self.builtin, self.group = kind, builtin, group
        self.loaded = dict(builtin)  # built-in components, and others once they are used

    def __iter__(self) -> Iterator[str]:
        return iter([*self.builtin, *(n for n in self._plugins() if n not in self.builtin)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):  # a table or a list, which cannot be looked up
            return False
        return name in self.loaded or is_in_file(name) or name in self._plugins()

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        if name not in self.loaded:
            if is_in_file(name):
                self.loaded[name] = from_file(name, self.kind)
            elif name in self._plugins():
                self.loaded[name] = self._from_package(name)
            else:
                raise KeyError(name)
        return self.loaded[name]

    def reload(self) -> None:
        """Load objects in files again, in case the files have changed, for example in a notebook."""
        for name in [name for name in self.loaded if is_in_file(name)]:
            del self.loaded[name]
            with contextlib.suppress(RemnantError):
                self.loaded[name] = from_file(name, self.kind)

    def origin(self, name: str) -> str:
        """Return where a component comes from, for error messages."""
        point = next(iter(self._plugins().get(name, [])), None)
        return f"{name} ({point.value}, from the package {package(point)})" if point else name

    def shadowed(self) -> Iterator[str]:
        """Yield the components of other packages that are hidden by a built-in one of the same name."""
        for name in self.builtin.keys() & self._plugins().keys():
            yield f"{name} of {', '.join(package(point) for point in self._plugins()[name])}"

    def about_unknown(self, name: object) -> str:
        """Return the error message for an unknown name, with the most similar one or with all of them."""
        close = nearest(str(name), self)
        known = "" if close != "." else f" Known: {', '.join(self)}, or FILE.py:NAME"
        return f"unknown {self.kind} {name!r}{close}{known}"

    def _plugins(self) -> dict[str, list[EntryPoint]]:
        return plugins(self.group) if self.group else {}

    def _from_package(self, name: str) -> object:
        point, *others = self._plugins()[name]
        if others:
            owners = ", ".join(sorted(package(p) for p in (point, *others)))
            raise RemnantError(
                f"{name}: expected one package with a {self.kind} of this name, found {owners}. "
                "Uninstall all but one."
            )
        try:
            return point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a package may raise anything, such as SystemExit
            raise RemnantError(
                f"{self.origin(name)}: expected a {self.kind}, but importing it "
                f"failed with {type(error).__name__}: {error}. Fix that package or remove it."
            ) from error


def is_in_file(name: str) -> bool:
    """Return whether a name refers to an object in a file, `path.py:NAME`."""
    return bool(IN_FILE.fullmatch(name))


def names_code(value: object) -> bool:
    """Return whether settings of a file contain a name `path.py:NAME`, whose file would be executed.

    >>> names_code({"net": {"name": "small"}}), names_code({"net": [{"name": "x.py:NET"}]})
    (False, True)
    """
    if isinstance(value, Mapping):
        return any(map(names_code, value.values()))
    if isinstance(value, list):
        return any(map(names_code, value))
    return isinstance(value, str) and ".py:" in value


def is_own_data(text: str) -> bool:
    """Return whether a text names own data: folder:DIR, table:FILE.csv or hf:NAME.

    >>> [is_own_data(text) for text in ("folder:photos", "hf:user/name", "digits", "noise=file:a.csv")]
    [True, True, False, False]
    """
    return text.startswith(OWN_DATA)


def from_file(text: str, kind: str) -> object:
    """Import the file of `path.py:NAME` and return its object NAME."""
    path, name = _place(text)
    if not os.path.isfile(path) or not os.path.getsize(path):  # never raises, unlike Path.is_file
        raise RemnantError(f"{text}: expected a Python file, found none at {path}. Check the path.")
    module = f"remnant_file_{path.stem}_{source_digest(path)}"
    if module not in sys.modules:
        spec = importlib.util.spec_from_file_location(module, path)
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[module] = loaded  # dataclasses look up their module here
        try:
            with _neighbours_importable(path):
                spec.loader.exec_module(loaded)
        except KeyboardInterrupt:
            del sys.modules[module]
            raise
        except BaseException as error:  # a file may raise anything, such as SystemExit
            del sys.modules[module]
            raise RemnantError(
                f"{path}: expected a {kind}, but running the file failed with {type(error).__name__}: "
                f"{error}. Fix the file."
            ) from error
    found = vars(sys.modules[module])
    if name not in found:
        names = [n for n in found if not n.startswith("_")]
        raise RemnantError(f"{path}: expected a {kind} named {name!r}{nearest(name, names)} Check the name.")
    return found[name]


def _place(text: str) -> tuple[Path, str]:
    match = IN_FILE.fullmatch(text)
    assert match is not None
    return Path(os.path.realpath(user_path(match["path"]))), match["name"]


def neighbours(path: Path) -> list[Path]:
    """Return the files in the folder of a Python file that it imports, directly or through each other."""
    files = [path]
    for file in files:  # grows in the loop
        tree = ast.Module([], [])
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):  # reported later
            tree = ast.parse(read_file(file))
        names = [
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        ]
        names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        tops = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
        beside = [path.with_name(f"{top}.py") for top in sorted(tops)]
        files += [other for other in beside if other.is_file() and other not in files]
    return files[1:]


@contextlib.contextmanager
def _neighbours_importable(path: Path) -> Iterator[None]:
    """Make the neighbours of a file importable, as modules that only this file sees."""
    names = [file.stem for file in (path, *neighbours(path))]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(path.parent))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(path.parent))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(others)


def source_digest(path: Path) -> str:
    """Return a digest of a source file and its neighbours."""
    sources = [read_file(file) for file in (path, *neighbours(path))]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]


def with_sources(value: Any) -> Any:  # noqa: ANN401
    """Return a config table in which every `path.py:NAME` is replaced by its file name and source digest."""
    return _with_paths(value, lambda path, name: f"{path.name}:{name}@{source_digest(path)}")


def with_absolute_paths(value: Any) -> Any:  # noqa: ANN401
    """Return settings in which every `path.py:NAME` has an absolute path, valid in any working directory."""
    return _with_paths(value, lambda path, name: f"{path.resolve()}:{name}")


def with_moved_paths(value: Any, old: Path, new: Path) -> Any:  # noqa: ANN401
    """Return settings in which every `path.py:NAME` below a folder is one below another folder."""
    if isinstance(value, Mapping):
        return {key: with_moved_paths(item, old, new) for key, item in value.items()}
    if isinstance(value, str) and (match := re.match(r"(.+\.py):(\w.*)", value)):
        path = Path(match[1])
        return f"{new / path.relative_to(old)}:{match[2]}" if path.is_relative_to(old) else value
    return value


def _with_paths(value: Any, change: Callable[[Path, str], str]) -> Any:  # noqa: ANN401
    if isinstance(value, Mapping):
        return {key: _with_paths(item, change) for key, item in value.items()}
    if isinstance(value, str) and (match := re.match(r"(.+\.py):(\w.*)", value)):
        path = user_path(match[1])
        return change(path, match[2]) if os.path.isfile(path) else value
    return value


def describe_object(value: object) -> dict[str, str]:
    """Return where a Python object is defined, and a digest of its source and of the values it holds."""
    named = value if inspect.isroutine(value) or inspect.isclass(value) else type(value)
    content = repr(_content(value, named.__module__, ()))
    return {
        "python": f"{named.__module__}:{getattr(named, '__qualname__', type(value).__name__)}",
        "source": hashlib.sha256(content.encode()).hexdigest()[:16],
    }


def _content(value: Any, module: str, above: tuple[int, ...]) -> object:  # noqa: ANN401
    """Return the source of an object and the values it holds, including globals that it uses in `module`."""
    if id(value) in above or isinstance(value, ModuleType):
        return getattr(value, "__name__", "")
    if isinstance(value, Mapping):
        parts = [part for item in value.items() for part in item]
    elif isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, partial):
        parts = [value.func, value.args, value.keywords]
    elif inspect.isfunction(value):
        used = inspect.getclosurevars(value)
        parts = [value.__defaults__, value.__kwdefaults__, used.nonlocals]
        parts += [used.globals] if value.__module__ == module else []
    elif dataclasses.is_dataclass(value) and not inspect.isclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif getattr(type(value), "__repr__", None) is object.__repr__:
        parts = [getattr(value, "__dict__", {})]
    else:
        return _source(value) if inspect.isclass(value) else re.sub(r" at 0x\w+", "", repr(value))
    return [_source(value), *(_content(part, module, (*above, id(value))) for part in parts)]


def _source(value: object) -> str:
    named = value if inspect.isroutine(value) or inspect.isclass(value) else type(value)
    try:
        return inspect.getsource(named)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # not in a file of Python, or in C
        return named.__qualname__
