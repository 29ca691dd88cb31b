"""Which tests call a function, and how long they take: measured once, before anything is changed.

A mutant is then tested by the tests that call the function it changes, the fastest first. Code outside of
functions runs when its module is imported, so that all tests of the package count as calling it.
"""

import ast
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from mutants.mutations import Mutant


class Recorder:
    """A plugin of pytest that writes which functions below a folder each test calls."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = str(source), target
        self.tests: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        codes = set[CodeType]()

        def trace(frame: FrameType, event: str, _: object) -> None:
            codes.add(frame.f_code)

        sys.settrace(trace)
        threading.settrace(trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            called = [code for code in codes if code.co_filename.startswith(self.source)]
            functions = sorted({f"{code.co_filename}:{code.co_firstlineno}" for code in called})
            self.tests.setdefault(item.nodeid, {"seconds": 0.0})["functions"] = functions

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests.setdefault(report.nodeid, {"seconds": 0.0, "functions": []})
        test["seconds"] += report.duration

    def pytest_sessionfinish(self) -> None:
        self.target.write_text(json.dumps(self.tests))


class Only:
    """A plugin of pytest that runs the given tests in the given order, and no others."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {name: i for i, name in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])


class Calls:
    """The tests of a package that call each of its functions, read from what a `Recorder` has written."""

    def __init__(self, written: Path, root: Path) -> None:
        found = json.loads(written.read_text())
        self.seconds = {name: test["seconds"] for name, test in found.items()}
        self.tests = defaultdict[str, set[str]](set)
        for name, test in found.items():
            for function in test["functions"]:
                self.tests[function.removeprefix(f"{root}/")].add(name)

    def tests_of(self, mutant: Mutant, source: str) -> list[str]:
        """Return the tests that a mutant of this source can fail, the fastest first."""
        line = first_line(source, mutant.line)
        names = self.seconds if line is None else self.tests[f"{mutant.path}:{line}"]
        return sorted(names, key=lambda name: (self.seconds[name], name))


def first_line(source: str, line: int) -> int | None:
    """Return the first line of the innermost function around a line, as its code object states it.

    >>> first_line("X = 1\\n@cache\\ndef f():\\n    return 2\\n", 4), first_line("X = 1\\n", 1)
    (2, None)
    """
    around = [
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body[0].lineno <= line <= (node.end_lineno or line)
    ]
    return max(around, default=None)
